from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from made_up_traces import document, event, execution_document, kernel, launch, node, tensor, write
from perfcast.cli.trace.command import trace
from perfcast.errors import InputError


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(trace, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def gpu(folder: Path) -> Path:
    events = [
        event("ProfilerStep#4", 0, 5000, category="user_annotation"),
        event("aten::mm", 0, 100, Record_function_id=3, Input_Dims=[[2, 2]], Input_type=["float"]),
        launch(10, 5, 8),
        kernel("gemm", 200, 50, 8),
        kernel("from before", 1, 50, 7),
    ]
    header = {
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"rank": 3, "world_size": 8},
    }
    return write(folder / "rank3.json.gz", document(events, **header))


def nodes(folder: Path, name: str = "aten::mm") -> Path:
    made = node(3, name, outputs=[(tensor(5, 6, [256]), "Tensor(float)", [256])])
    return write(folder / "nodes.json", execution_document([made]))


@pytest.mark.parametrize("name", ["record", "info", "link", "explain", "forecast", "overheads"])
def test_every_subcommand_is_listed_and_has_help(name: str):
    assert f"  {name} " in run("--help")
    assert f"Usage: trace {name} [OPTIONS]" in run(name, "--help")


def test_info_says_what_a_timeline_is(tmp_path: Path):
    text = run("info", gpu(tmp_path))
    assert "rank3.json.gz: timeline, schema 1" in text
    assert "cuda: 1 × NVIDIA H100" in text
    assert "rank 3 of 8" in text
    assert "1 marked step: 5.00 ms" in text
    assert "1 operator on 1 thread, 2 kernels and copies" in text
    said = " ".join(text.split())
    assert "100.00% of kernels have their operator; 1 was launched before the recording" in said


def test_info_says_what_an_execution_trace_is(tmp_path: Path):
    text = run("info", nodes(tmp_path))
    assert "nodes.json: execution trace, schema 1.1.1" in text
    assert "1 storages, 1.00 KiB in all" in text


def test_info_is_json_too(tmp_path: Path):
    found = json.loads(run("info", gpu(tmp_path), nodes(tmp_path), "--json", "-"))
    assert [one["kind"] for one in found["files"]] == ["timeline", "execution trace"]
    assert found["files"][0]["step_seconds"] == [0.005]
    assert found["files"][1]["storage_bytes"] == 1024


def test_link_says_how_much_of_each_file_is_in_the_other(tmp_path: Path):
    text = run("link", nodes(tmp_path), gpu(tmp_path))
    assert "by record function numbers 1 linked, 100.00% of 1 nodes, 100.00% of 1 events" in " ".join(
        text.split()
    )
    found = json.loads(run("link", nodes(tmp_path), gpu(tmp_path), "--json", "-"))
    assert found["ranks"][0]["node_rate"] == 1.0


def test_link_refuses_files_that_do_not_belong_together(tmp_path: Path):
    with pytest.raises(InputError, match="do not belong together"):
        run("link", nodes(tmp_path, "aten::conv2d"), gpu(tmp_path))


@pytest.mark.parametrize("content", [b"hello", b"", b'{"a": 1}', b"\x00\x01", b"PK\x03\x04"])
def test_an_unknown_file_is_one_clear_line(tmp_path: Path, content: bytes):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        run("info", path)
    assert "file'" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_limit_of_unpacked_bytes_is_an_option(tmp_path: Path):
    bomb = write(tmp_path / "bomb.json.gz", b'{"traceEvents": [' + b" " * 3_000_000)
    with pytest.raises(InputError, match=r"more than 1\.00 MiB"):
        run("info", bomb, "--max-bytes", "1MiB")
    result = CliRunner().invoke(trace, ["info", str(bomb), "--max-bytes", "many"])
    assert result.exit_code == 2
    assert "'many' is no size" in result.output


def test_record_runs_the_command_and_tells_of_a_program_without_steps(tmp_path: Path):
    with pytest.raises(InputError, match="no step was recorded"):
        run("record", "--out", tmp_path / "out", "--", sys.executable, "-c", "print(1)")
