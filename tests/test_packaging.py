"""What is installed is what the locks name, and what the locks name is what the project asks for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "packaging" / "locks"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def usual_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=; ]", name)[0]).lower()


def versions(path: Path) -> dict[str, str]:
    return {usual_name(name): version for name, version in PINNED.findall(path.read_text())}


def test_every_file_of_a_lock_has_a_hash():
    for lock in LOCKS.glob("*.txt"):
        blocks = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text())[1:]
        assert blocks
        assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks), lock.name


@pytest.mark.parametrize("name", ["perfcast", "dev", "torch", "extras"])
def test_locks_hold_the_versions_that_constraints_say(name: str):
    said = versions(ROOT / "constraints.txt")
    locked = versions(LOCKS / f"{name}.txt")
    assert {key: version for key, version in locked.items() if key in said and said[key] != version} == {}


def test_locks_hold_all_that_the_project_asks_for():
    own = {usual_name(text) for text in PROJECT["dependencies"]}
    assert own <= versions(LOCKS / "perfcast.txt").keys() | versions(LOCKS / "torch.txt").keys()
    dev = {usual_name(text) for text in PROJECT["optional-dependencies"]["dev"]} - {"perfcast"}
    assert dev | own <= versions(LOCKS / "dev.txt").keys() | {"torch"}


def test_what_perfcast_needs_is_part_of_what_its_tests_install():
    own, dev = versions(LOCKS / "perfcast.txt"), versions(LOCKS / "dev.txt")
    assert own.items() <= dev.items()


def test_every_locked_package_has_its_licence_in_the_table():
    table = (ROOT / "docs" / "reference" / "licences.md").read_text()
    rows = {row[0]: row[1:3] for row in re.findall(r"^\| (\S+) \| (\S+) \| (.+?) \|", table, re.MULTILINE)}
    locked = versions(LOCKS / "dev.txt") | versions(LOCKS / "torch.txt")
    assert {name: rows[name][0] for name in locked if name in rows} == locked, "python packaging/licences.py"
    assert not [name for name, row in rows.items() if "GPL" in row[1] or not row[1].strip()]


def verified(tmp_path: Path, digest: str) -> subprocess.CompletedProcess[str]:
    info = {"url": "https://example.org/torch.whl", "archive_info": {"hashes": {"sha256": digest}}}
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"install": [{"download_info": info, "metadata": {"name": "torch"}}]}))
    command = [sys.executable, str(ROOT / "packaging" / "verify.py"), str(report), str(LOCKS / "torch.txt")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_build_whose_hash_the_lock_has_is_taken_and_no_other(tmp_path: Path):
    known = re.findall(r"sha256:([0-9a-f]{64})", (LOCKS / "torch.txt").read_text())
    assert verified(tmp_path, known[-1]).returncode == 0
    refused = verified(tmp_path, "0" * 64)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
