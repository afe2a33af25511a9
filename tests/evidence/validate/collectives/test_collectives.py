"""The suite on a small made-up table in the format of the measured one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from perfcast.cli.main import run
from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.collectives.cases import measured_points, read_collectives
from perfcast.evidence.validate.collectives.constants import fit_constants, free_constants, read_content, thin
from perfcast.evidence.validate.collectives.suite import validate_collectives
from perfcast.evidence.validate.collectives.systems import cluster_name, place

SIZES = [2**power for power in range(12, 30)]


def rows(gpu: str, collective: str, num_gpus: int, nodes: int = 1, **more: str) -> list[dict[str, object]]:
    return [
        {
            "source_repo": "made/up", "gpu": gpu, "collective": collective, "num_gpus": num_gpus,
            "num_nodes": nodes, "gpus_per_node": num_gpus // nodes, "interconnect": "", "dtype": "fp16",
            "size_bytes": size, "time_us": 20 + size / 2e5, "busbw_GBps": 1.0, "library_version": "NCCL 2",
            "stat": "mean", "notes": "",
        }
        | more
        for size in SIZES
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = [
        *rows("h100_sxm", "all_reduce", 8),
        *rows("h100_sxm", "alltoall", 4),
        *rows(
            "H100-SXM5-80GB",
            "all_reduce",
            16,
            2,
            interconnect="NVLink4 + EFA 3200Gb/s per node (p5.48xlarge)",
        ),
        *rows("V100-SXM2", "all_reduce", 5),
        *rows("h100_sxm", "all_reduce", 8, notes="custom all-reduce kernel X; not NCCL below threshold"),
        *rows("abacus", "all_reduce", 8),
    ]
    pl.DataFrame(table).write_parquet(tmp_path / "collectives.parquet")
    published = {
        "source": ["talk", "talk"], "system": ["DGX H100", "DGX H100"], "num_gpus": [8.0, 8.0],
        "num_nodes": [1.0, 1.0], "collective": ["all_reduce (out-of-place)", "all_reduce"],
        "size_bytes": ["1048576", "large"], "time_us": [None, None], "busbw_GBps": [100.0, 480.0],
    }  # fmt: skip
    pl.DataFrame(published).write_csv(tmp_path / "published_sweeps.csv")
    return tmp_path


def test_every_row_is_forecast_or_says_why_not(folder: Path):
    result = validate_collectives([folder], ["datasheet"])
    found = [row.to_json() for row in result.rows()]
    assert len(found) == 6 * len(SIZES) + 2
    reasons = {row["skipped"] for row in found}
    assert reasons == {None, "unsupported operation", "unknown device", "incomplete: size_bytes"}
    assert all(row["predicted_seconds"] > 0 for row in found if row["skipped"] is None)


def test_a_time_that_is_not_stated_follows_from_the_bus_bandwidth(folder: Path):
    row = next(r for r in validate_collectives([folder]).rows() if r.table == "published_sweeps")
    assert row.measured_seconds == pytest.approx(1048576 * 2 * 7 / 8 / 100e9)


def test_measured_columns_do_not_reach_the_forecast(folder: Path):
    before = [row.predicted_seconds for row in validate_collectives([folder], ["datasheet"]).rows()]
    path = folder / "collectives.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(
        time_us=pl.col("time_us").reverse(), busbw_GBps=pl.col("busbw_GBps") * 7, stat=pl.lit("other")
    ).write_parquet(path)
    assert [row.predicted_seconds for row in validate_collectives([folder], ["datasheet"]).rows()] == before


def test_a_curve_is_tested_on_sizes_that_it_has_not_seen(folder: Path):
    result = validate_collectives([folder], ["fitted"])
    judged = [row for row in result.rows() if row.skipped is None]
    assert len(judged) == 4 * len(SIZES)
    assert np.mean([abs(row.relative_error) for row in judged if row.relative_error is not None]) < 0.02


def test_one_size_is_no_sweep(folder: Path):
    rows_ = [r for r in validate_collectives([folder], ["fitted"]).rows() if r.table == "published_sweeps"]
    assert {row.skipped for row in rows_} == {"no trained predictor", "incomplete: size_bytes"}


def test_a_measurement_beyond_the_link_is_said_to_be_one(folder: Path):
    path = folder / "collectives.parquet"
    pl.read_parquet(path).with_columns(time_us=pl.lit(1e-3)).write_parquet(path)
    (part, _) = read_collectives([folder])
    assert part.quality()[len(SIZES) - 1] == "above peak"


def test_the_published_errors_stand_beside_ours(folder: Path):
    entries = [e for e in validate_collectives([folder]).summary if "ASTRA" in e["group"]]
    assert {(e["value"], e["published_mean_absolute_relative_error"]) for e in entries} == {("8 GPUs", 0.097)}


def test_what_is_measured_on_a_group_can_be_drawn(folder: Path):
    (series,) = measured_points([folder / "collectives.parquet"], "dgx-h100", (4, 1), "all_to_all")
    assert series[0] == "made/up"
    assert series[1] == [float(size) for size in SIZES]
    assert measured_points([folder / "collectives.parquet"], "dgx-h100", (2, 1), "all_to_all") == []


def test_constants_are_chosen_without_what_is_left_out(folder: Path):
    texts: list[str] = []
    result = validate_collectives([folder], ["datasheet"], leave_out=["v100-sxm-32gb"], say=texts.append)
    assert {row.catalog_device for row in result.rows()} == {"v100-sxm-32gb"}
    assert texts[0] == "choosing constants without GV100"
    assert "left out" in result.protocol["fitted_on"]["datasheet"]


def test_a_device_that_was_not_measured_cannot_be_left_out(folder: Path):
    with pytest.raises(InputError, match="no measured collective"):
        validate_collectives([folder], leave_out=["t4"])


def test_constants_that_are_chosen_explain_measurements_better(folder: Path):
    parts = read_collectives([folder / "collectives.parquet"])
    (thinned, weights), *_ = [thin(part) for part in parts]
    assert len(thinned) == 4 * len(SIZES)
    assert (weights == 1).all()
    found = fit_constants(parts)
    assert 0 < found.links["nvlink"].share <= 0.9
    assert ("interval", "low") not in free_constants(read_content())


@pytest.mark.parametrize(
    ("words", "nodes", "name"),
    [
        ("h100_sxm NVLink4 NVSwitch", 1, "dgx-h100"),
        ("A100-SXM4-80GB NVLink3 + EFA 400Gb/s per node (p4de.24xlarge)", 2, "aws-p4de"),
        ("A100-SXM4-80GB NVLink3 NVSwitch; inter-node IB", 1, "dgx-a100"),
        ("A100-SXM4-80GB NVLink3 NVSwitch; inter-node IB", 2, "hgx-a100-host-staged"),
        ("A100-PCIe-80GB pairwise NVLink bridge + PCIe (Azure NC96ads A100 v4)", 1, "azure-nc-a100-v4"),
        ("gb200 NVLink5 (GB200 tray/NVL72)", 1, "gb200-nvl72"),
        ("b200_sxm NVLink5 NVSwitch", 1, "hgx-b200"),
        ("MI300X node", 1, "mi300x"),
        ("abacus", 1, None),
    ],
)
def test_a_system_is_read_from_its_words(words: str, nodes: int, name: str | None):
    assert cluster_name(words, nodes) == name


def test_a_rack_is_one_domain_however_many_hosts_it_has():
    placed = place("gb200-nvl72", 16, 4)
    assert placed is not None
    assert placed.span == (16, 1)


def test_groups_that_no_node_holds_have_no_place():
    assert place("dgx-h100", 9, 1) is None
    assert place("dgx-h100", 7, 2) is None


def test_unknown_predictors_and_empty_folders_are_refused(folder: Path, tmp_path: Path):
    with pytest.raises(UnknownNameError, match="datasheet"):
        validate_collectives([folder], ["guess"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="collectives"):
        validate_collectives([empty])


def test_the_command_prints_systems_and_writes_the_contract(folder: Path, capsys: pytest.CaptureFixture[str]):
    path = folder / "out.json"
    assert run(["validate", "collectives", "--data", str(folder), "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert "By system and collective" in out
    assert "dgx-1-v100, all_reduce" in out
    content = json.loads(path.read_text())
    assert set(content) >= {"suite", "protocol", "rows", "summary"}
    assert {row["predictor"] for row in content["rows"]} == {"datasheet", "fitted"}
