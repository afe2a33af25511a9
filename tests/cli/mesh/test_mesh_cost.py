from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from perfcast.cli.main import run
from perfcast.errors import InputError
from perfcast.verbs.mesh_cost.request import parse_bytes, parse_sizes

COST = ["mesh", "cost", "--cluster", "dgx-h100:64", "--mesh", "dp=8,tp=8", "--collective", "all_reduce"]


def test_one_size_is_one_line_and_json_has_it_in_si(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert run([*COST, "--axes", "tp", "--bytes", "1GB", "--algorithm", "ring", "--json", str(path)]) == 0
    assert "8 in node" in capsys.readouterr().out
    content = json.loads(path.read_text())
    (size,) = content["sizes"]
    assert (size["message_bytes"], size["algorithm"]) == (1e9, "ring")
    assert size["seconds_low"] < size["seconds"] < size["seconds_high"]
    assert content["span"] == [8, 1]


def test_json_on_standard_output_stands_alone(capsys: pytest.CaptureFixture[str]):
    assert run([*COST, "--bytes", "1KB..1MB", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["sizes"]) == 11


def test_the_page_holds_the_plot_and_measured_points(tmp_path: Path):
    frame = pl.DataFrame(
        {"gpu": ["h100_sxm"], "collective": ["all_reduce"], "num_gpus": [8], "num_nodes": [1],
         "size_bytes": [2**20], "time_us": [50.0], "source_repo": ["made/up"]}
    )  # fmt: skip
    frame.write_parquet(tmp_path / "collectives.parquet")
    path = tmp_path / "out.html"
    arguments = [*COST, "--axes", "tp", "--data", str(tmp_path), "--html", str(path)]
    assert run(arguments) == 0
    page = path.read_text()
    assert "made" in page
    assert "bus bandwidth" in page


def test_without_a_number_of_devices_the_cluster_is_as_large_as_the_mesh(capsys: pytest.CaptureFixture[str]):
    arguments = ["mesh", "cost", "--cluster", "dgx-h100", "--mesh", "dp=4,tp=8", "--collective", "barrier"]
    assert run([*arguments, "--bytes", "8"]) == 0
    assert "32 devices" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [
        ["--mesh", "dp=9,tp=8"],
        ["--mesh", "dp8"],
        ["--axes", "pp"],
        ["--bytes", "many"],
        ["--bytes", "1GB..1KB"],
        ["--algorithm", "magic"],
        ["--collective", "allreduce"],
        ["--cluster", "dgx-h10"],
        ["--profile", "/nowhere.json"],
        ["--json", "/nowhere/out.json"],
    ],
)
def test_bad_input_ends_with_code_two_and_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    assert run([*COST, *wrong]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("4096", 4096), ("1GB", 1e9), ("64KiB", 65536), ("1.5 mb", 1.5e6), ("2G", 2**31)]
)
def test_sizes_are_read_with_their_units(text: str, num_bytes: float):
    assert parse_bytes(text) == num_bytes


def test_a_range_doubles():
    assert parse_sizes("1KiB..8KiB") == [1024, 2048, 4096, 8192]
    assert parse_sizes("1KB..3KB") == [1000, 2000, 3000]
    assert parse_sizes("1MB..1GB")[-1] == 1e9
    assert parse_sizes("4KiB..4KiB") == [4096]


@pytest.mark.parametrize("text", ["", "GB", "-1", "1XB", "0..1KB"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(InputError):
        parse_sizes(text)


def test_clusters_are_listed_and_shown_with_their_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["catalog", "clusters"]) == 0
    assert "dgx-h100" in capsys.readouterr().out
    path = tmp_path / "out.json"
    assert run(["catalog", "clusters", "tpu-v4", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["clusters"]
    assert row["levels"][0]["size"] is None
    assert all(figure["source"] for figure in row["figures"])
