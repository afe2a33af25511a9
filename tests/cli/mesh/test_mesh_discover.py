"""``perfcast mesh discover`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.cli.main import run


def test_a_made_up_cluster_is_discovered_drawn_and_read_back(tmp_path: Path, capsys):
    record, page = tmp_path / "mesh.json", tmp_path / "mesh.html"
    command = ["mesh", "discover", "--synthetic", "16", "--seed", "1"]
    assert run([*command, "--json", str(record), "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    found = json.loads(record.read_text())
    assert found["format"] == "perfcast-discovered-mesh"
    assert f"16 ranks: {' · '.join(map(str, found['shape']))}" in shown
    assert "<svg" in page.read_text()
    assert run(["mesh", "discover", "--from", str(record), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == found["groups"]


def test_a_topology_table_is_read(tmp_path: Path, capsys):
    path = tmp_path / "topo.txt"
    path.write_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n")
    assert run(["mesh", "discover", "--topology", str(path)]) == 0
    assert "2 ranks: 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to measure"),
        (["--ranks", "2", "--synthetic", "8"], "exclude each other"),
        (["--ranks", "1"], "a mesh of 1 ranks"),
        (["--synthetic", "7"], "no shape"),
        (["--from", "/nowhere.json"], "cannot read"),
        (["--topology", "/nowhere.txt"], "cannot read"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments: list[str], message: str, capsys, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert run(["mesh", "discover", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
