"""The wheel has all that the package needs, and answers without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
#: What the wheel has from other places of the checkout.
FROM_ELSEWHERE = {"perfcast/report/accuracy.md"}
#: What a reader of the source archive needs to follow the README.
OF_A_CHECKOUT = (
    "Makefile",
    "mkdocs.yml",
    "constraints.txt",
    "packaging/locks/dev.txt",
    "packaging/verify.py",
    "docs/index.md",
    "docs/tools/site_hooks.py",
    "examples/two_towers.py",
    "tests/test_wheel.py",
)


def files_of_the_package() -> set[str]:
    below = (path for path in (ROOT / "src" / "perfcast").rglob("*") if path.is_file())
    return {path.relative_to(ROOT / "src").as_posix() for path in below if "__pycache__" not in path.parts}


def test_the_wheel_has_every_file_of_the_package_and_no_other():
    included = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert included == files_of_the_package() | FROM_ELSEWHERE


@pytest.mark.parametrize("suffix", [".toml", ".json.gz", ".json", ".css", ".js", ".csv.gz", ".typed"])
def test_the_package_has_data_beside_its_code(suffix: str):
    assert any(name.endswith(suffix) for name in files_of_the_package())


def test_the_source_archive_is_a_checkout():
    included = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert set(OF_A_CHECKOUT) <= included


def test_the_demo_runs_from_a_wheel_outside_a_checkout(tmp_path: Path):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    asked = ["predict", "gpt2", "--device", "h100-sxm", "--json", "a.json", "--html", "a.html"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PERFCAST_CACHE": "off"}
    program = (
        "import sys, perfcast; from perfcast.cli.main import run; "
        "print(perfcast.__file__); sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *asked],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path / "installed"))
    assert (tmp_path / "a.html").stat().st_size > 10_000
