from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.core.kernel import KernelFamily
from perfcast.cost.learned.corrections.measured import (
    MeasuredKernel,
    MeasuredKernels,
    load_measured,
    parse_measured,
    save_measured,
)
from perfcast.errors import CalibrationError

ROW = MeasuredKernel(
    "softmax 512 x 1024",
    KernelFamily.ROWS,
    {"num_rows": 512, "row_length": 1024, "read_bytes": 2**20, "written_bytes": 2**20},
    {"operation": "softmax", "dtype": "bf16", "framework": "pytorch"},
    3e-6,
)
MEASURED = MeasuredKernels("l40s", (ROW,), "NVIDIA L40S", "torch 2.13", "2026-11-23T10:00:00+00:00")


def test_a_file_reads_back_as_it_was_written(tmp_path: Path):
    save_measured(MEASURED, tmp_path / "deep" / "file.json")
    assert load_measured(tmp_path / "deep" / "file.json") == MEASURED


def test_a_kernel_measured_again_takes_the_place_of_the_first():
    again = MeasuredKernel(ROW.name, ROW.family, ROW.sizes, ROW.words, 4e-6)
    measured = MEASURED.with_kernel(again, "2026-11-24")
    assert [kernel.seconds for kernel in measured.kernels] == [4e-6]
    assert measured.describe() == "1 kernel measured on l40s on 2026-11-24"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"schema": 1}, "older version"),
        ({"schema": 99}, "another version"),
        ({"device": ""}, "'device' must name one"),
        ({"kernels": {}}, "'kernels' must be a list"),
    ],
)
def test_a_file_of_another_form_says_what_to_do(change: dict, word: str):
    with pytest.raises(CalibrationError, match=word) as caught:
        parse_measured({**MEASURED.to_json(), **change}, "file.json")
    assert "perfcast measure kernels" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"family": "rwos"}, "known: product"),
        ({"seconds": 0}, "which cannot be"),
        ({"seconds": "3"}, "not a number"),
        ({"num_rows": -1}, "not a number of at least 0"),
        ({"operation": 3}, "not a word"),
        ({"is_cold": "yes"}, "not true or false"),
        ({"batch": 1}, "rows has no batch"),
    ],
)
def test_a_kernel_that_cannot_be_is_named(change: dict, word: str):
    content = json.loads(json.dumps(MEASURED.to_json()))
    content["kernels"][0] |= change
    with pytest.raises(CalibrationError, match=word) as caught:
        parse_measured(content, "file.json")
    assert "kernels[0]" in str(caught.value)


def test_a_damaged_file_is_named(tmp_path: Path):
    (tmp_path / "file.json").write_text("{", encoding="utf-8")
    with pytest.raises(CalibrationError, match=r"file\.json: not valid JSON"):
        load_measured(tmp_path / "file.json")


def test_two_kernels_of_one_name_are_refused():
    content = MEASURED.to_json()
    content["kernels"] = [*content["kernels"], *content["kernels"]]  # type: ignore[misc]
    with pytest.raises(CalibrationError, match="is there 2 times"):
        parse_measured(content, "file.json")
