from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalog.devices import load_device
from perfcast.cost.learned.corrections import corrections_path, load_corrected
from perfcast.errors import CalibrationError
from perfcast.measure.correct import correct_learned, kernels_by_model
from perfcast.measure.grid.cases import design
from perfcast.measure.kernels import operation_of_case

DEVICE = load_device("l40s")


def test_a_measured_product_becomes_a_repeated_kernel_of_its_model():
    (case,) = [case for case in design("cuda") if case.key.startswith("mm_nn ")][:1]
    ((name, (kernels, seconds)),) = kernels_by_model([operation_of_case(case)], [1e-3]).items()
    assert name == "product_wide"
    assert not kernels.is_cold
    assert seconds == pytest.approx([1e-3])


def test_a_handful_of_cases_makes_corrections_that_a_forecast_takes_up(tmp_path: Path):
    chosen = [case for case in design("cuda") if case.key.startswith("mm_nn ")][:8]
    path = correct_learned(DEVICE, {case.key: 1e-3 for case in chosen}, "cuda", folder=tmp_path)
    assert path == corrections_path(DEVICE.name, tmp_path)
    assert [name for name, _ in load_corrected(DEVICE, folder=tmp_path).corrected] == ["product_wide"]


def test_cases_that_are_no_kernels_correct_nothing(tmp_path: Path):
    with pytest.raises(CalibrationError, match="perfcast calibrate"):
        correct_learned(DEVICE, {"no such case": 1.0}, "cuda", folder=tmp_path)
