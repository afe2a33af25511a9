from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.corrections.load import load_corrected
from perfcast.cost.learned.corrections.measured import corrections_path, load_measured
from perfcast.errors import CalibrationError
from perfcast.measure.correct import as_kernels, correct_learned
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import operation_of_case

DEVICE = load_device("l40s")


def test_a_measured_product_becomes_a_repeated_kernel_of_its_family():
    (case,) = [case for case in design("cuda") if case.key.startswith("mm_nn ")][:1]
    (kernel,) = as_kernels([case.key], [operation_of_case(case)], [1e-3], "nvidia", is_cold=False)
    assert (kernel.name, kernel.family.value, kernel.words["dtype"]) == (case.key, "product", "fp32")
    assert kernel.seconds == pytest.approx(1e-3)
    assert not kernel.is_cold


def test_a_calibration_moves_a_forecast_and_keeps_what_was_measured_before(tmp_path: Path):
    chosen = [case for case in design("cuda") if case.key.startswith("mm_nn ")][:8]
    path = correct_learned(DEVICE, {case.key: 1e-3 for case in chosen[:5]}, "cuda", folder=tmp_path)
    assert path == corrections_path(DEVICE.name, tmp_path)
    correct_learned(DEVICE, {case.key: 1e-3 for case in chosen[3:]}, "cuda", folder=tmp_path)
    assert {kernel.name for kernel in load_measured(path).kernels} == {case.key for case in chosen}
    assert load_corrected(DEVICE, folder=tmp_path).measurements.startswith("8 kernels measured on l40s")


def test_cases_that_are_no_kernels_correct_nothing(tmp_path: Path):
    with pytest.raises(CalibrationError, match="perfcast calibrate"):
        correct_learned(DEVICE, {"no such case": 1.0}, "cuda", folder=tmp_path)
