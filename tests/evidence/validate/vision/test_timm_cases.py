"""timm's tables: what a line asks, which lines have no forecast, and that none reads a measurement."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from perfcast.evidence.validate.vision import kept as kept_module
from perfcast.evidence.validate.vision.suite import validate_vision
from perfcast.evidence.validate.vision.timm_steps import graphs
from perfcast.evidence.validate.vision.timm_steps.cases import family_of, read_cases
from perfcast.torch_internals.vision import make_torchvision_importable

LINE = {
    "source_file": "results/benchmark.csv",
    "mode": "infer",
    "model": "resnet18",
    "device": "rtx-3090",
    "dtype": "amp_fp16",
    "memory_format": "nhwc",
    "compiled": "False",
    "torch_version": "2.4.0",
    "cuda_version": "12.4",
    "batch_size": "64.0",
    "image_size": "96",
    "step_ms": "2.5",
    "samples_per_second": "25600",
    "gmacs": "0.33",
}


def write(folder: Path, *changes: dict[str, Any]) -> Path:
    path = folder / "timm.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(LINE))
        writer.writeheader()
        writer.writerows({**LINE, **change} for change in changes)
    return path


def test_a_line_asks_for_a_step_as_the_benchmark_runs_it(tmp_path: Path):
    infer, train, old, plain = read_cases(
        write(tmp_path, {}, {"mode": "train"}, {"torch_version": "1.1.3", "mode": "train"}, {"dtype": "fp32"})
    )
    assert (infer.request.mode, infer.request.autocast, infer.request.dtype) == ("prefill", True, "fp16")
    assert (infer.request.batch_size, infer.request.image_size) == (64, 96)
    assert (infer.request.memory_format, infer.measured_seconds) == ("channels_last", 0.0025)
    assert (train.request.mode, train.request.autocast, train.request.optimizer) == (
        "train",
        False,
        "momentum",
    )
    assert (train.request.attention, train.request.optimizer_implementation) == ("sdpa", "foreach")
    assert (old.request.attention, old.request.optimizer_implementation) == ("eager", "loop")
    assert (plain.request.dtype, plain.request.autocast) == ("fp32", False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batch_size": ""}, "incomplete: batch_size"),
        ({"model": ""}, "incomplete: model"),
        ({"batch_size": "0"}, "impossible value"),
        ({"step_ms": "-1"}, "impossible value"),
        ({"dtype": "int8"}, "unsupported operation"),
        ({"memory_format": "chwn"}, "unsupported operation"),
        ({"device": "abacus"}, "unknown device"),
        ({"model": "tresnet_m", "torch_version": "1.1.3"}, "unsupported operation"),
        ({"model": "tresnet_m", "torch_version": "2.4.0"}, None),
    ],
)
def test_what_cannot_be_forecast_says_why(tmp_path: Path, change: dict[str, Any], reason: str | None):
    assert read_cases(write(tmp_path, {}, change))[1].skipped == reason


def test_a_family_is_a_design_whoever_trained_it():
    names = ("tf_efficientnet_b5_ns", "efficientnet_b0", "resnet50", "resnet18.a1_in1k")
    assert list(map(family_of, names)) == ["efficientnet", "efficientnet", "resnet", "resnet"]


@pytest.fixture
def kept(kept_steps: Path) -> Path:
    make_torchvision_importable()
    pytest.importorskip("timm", reason="timm is not installed: make test installs it")
    return kept_steps


def test_every_line_has_a_row_whose_forecast_reads_no_measurement(tmp_path: Path, kept: Path):
    lines = [{}, {"compiled": "True"}, {"mode": "train"}, {"device": "abacus"}, {"model": "no_such_model"}]
    found = validate_vision([write(tmp_path, *lines)], ["roofline"])
    measured = {"step_ms": "7", "samples_per_second": "1"}
    other = validate_vision([write(tmp_path, *({**line, **measured} for line in lines))], ["roofline"])
    rows, others = list(found.rows()), list(other.rows())
    assert [row.row for row in rows] == [0, 1, 2, 3, 4]
    assert [row.skipped for row in rows] == [None, None, None, "unknown device", "unsupported operation"]
    assert [row.predicted_seconds for row in rows] == [row.predicted_seconds for row in others]
    eager, compiled, train, *_ = (row.predicted_seconds for row in rows)
    assert compiled < eager < train
    data = rows[0].to_json()
    assert (data["model"], data["mode"], data["memory_format"], data["compiled"]) == (
        "resnet18", "infer", "nhwc", False,
    )  # fmt: skip
    assert data["table"] == "timm"
    assert {entry["value"] for entry in found.summary if entry["group"] == "family, mode"}


def test_a_captured_step_is_kept_and_taken_again(tmp_path: Path, kept: Path):
    (case, *_) = read_cases(write(tmp_path, {}))
    from perfcast.catalogs.devices import load_device

    first = graphs.kept_graph(case.request, load_device("rtx-3090"))
    assert len(list(kept.iterdir())) == 1
    assert graphs.kept_graph(case.request, load_device("rtx-4090")) == first
    (place,) = kept.iterdir()
    place.write_bytes(b"cut off")
    kept_module._captures_in.cache_clear()  # what is in memory
    assert graphs.kept_graph(case.request, load_device("rtx-3090")) == first
