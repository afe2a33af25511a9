"""Recordings forecast from others, on small ones by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.recordings.elsewhere import LEFT_OUT, SHIPPED
from perfcast.evidence.validate.recordings.left_out import OTHERS, OWN_WORK
from perfcast.evidence.validate.recordings.suite import validate_recordings
from recorded_traces import Recording

_SHAPES = {"Input_Dims": [[64, 64], [64, 64], []], "Input_type": ["float", "float", "Scalar"]}


def write(folder: Path, name: str, device: str, kernel: float, steps: int = 1) -> None:
    recording = Recording(device=device)
    for number in range(steps):
        at = 200.0 * number
        recording.step(number, at, 190)
        recording.operator("aten::add", at + 10, 150, **_SHAPES)
        recording.call("cudaLaunchKernel", at + 15, 5, 2 * number + 1)
        recording.kernel("elementwise", at + 22, kernel, 2 * number + 1)
        recording.call("cudaStreamSynchronize", at + 25, kernel, 2 * number + 2)
    with gzip.open(folder / f"{name}.json.gz", "wt") as file:
        json.dump(recording.as_dict(), file)


def pair(folder: Path) -> Path:
    write(folder, "h100_tiny", "NVIDIA H100 80GB HBM3", 2)
    write(folder, "mi300_tiny", "AMD Instinct MI300X", 5)
    write(folder, "h100_other", "NVIDIA H100 80GB HBM3", 3, steps=3)
    return folder


def test_a_model_on_two_devices_is_forecast_both_ways_without_itself(tmp_path: Path):
    found = validate_recordings([pair(tmp_path)], (LEFT_OUT,))
    assert [row.operation for row in found.rows] == ["device time", "host time", "step"] * 2
    assert {(row.columns["recorded_device"], row.device) for row in found.rows} == {
        ("h100-sxm", "mi300x"), ("mi300x", "h100-sxm"),
    }  # fmt: skip
    there = {row.operation: row for row in found.rows if row.device == "mi300x"}
    assert there["device time"].measured_seconds == pytest.approx(5e-6)
    assert there["device time"].predicted_seconds_low < there["device time"].predicted_seconds
    assert "0.5 between vendors" in found.protocol["another device"]
    (shipped, *_) = validate_recordings([tmp_path], (SHIPPED,), max_rows=1).rows
    assert shipped.predicted_seconds != there["device time"].predicted_seconds


def test_steps_are_left_out_one_by_one_but_the_first(tmp_path: Path):
    found = validate_recordings([pair(tmp_path)], (OWN_WORK, OTHERS))
    assert [row.columns["step"] for row in found.rows if row.predictor == OWN_WORK] == [1, 2]
    assert len([row for row in found.rows if row.predictor == OTHERS]) == 3
    assert all(abs(row.relative_error or 0) < 0.02 for row in found.rows)


def test_no_recording_and_no_such_predictor_are_errors(tmp_path: Path):
    with pytest.raises(InputError, match="no recording"):
        validate_recordings([tmp_path])
    with pytest.raises(UnknownNameError, match="learned"):
        validate_recordings([tmp_path], ("learned",))
