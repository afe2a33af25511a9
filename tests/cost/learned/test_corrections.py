from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_up_kernels import describe, products
from perfcast.catalog.devices import load_device
from perfcast.cost.learned.corrections import (
    corrections_path,
    fit_corrections,
    load_corrected,
    save_corrections,
)
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.errors import CalibrationError

DEVICE = load_device("l40s")
SIZES = [1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192]


def measured(factor: float) -> dict[str, tuple]:
    """Eight products on a device never measured, ``factor`` times the physics."""
    kernels = products(8, m=SIZES, n=SIZES, k=4096)
    return {"product_narrow": (kernels, factor * describe("product_narrow", kernels, DEVICE).seconds)}


def test_without_measurements_there_is_nothing_to_correct(weights: Path, tmp_path: Path):
    assert load_corrected(DEVICE, folder=tmp_path, weights=weights).corrected == ()


def test_eight_measurements_move_the_forecast_towards_themselves(weights: Path, tmp_path: Path):
    kernels, seconds = measured(2.0)["product_narrow"]
    index = np.zeros(len(kernels), dtype=np.int64)
    save_corrections(
        DEVICE, fit_corrections(measured(2.0), DEVICE, weights), corrections_path(DEVICE.name, tmp_path)
    )
    before = load_corrected(DEVICE, folder=tmp_path / "none", weights=weights).model("product_narrow")
    after = load_corrected(DEVICE, folder=tmp_path, weights=weights).model("product_narrow")

    def error(fitted: FittedFamily) -> float:
        return float(np.abs(np.log(fitted.estimate(kernels, [DEVICE], index).seconds / seconds)).mean())

    assert error(before) > 0.4
    assert error(after) < 0.15


def test_other_devices_keep_their_forecast(weights: Path, tmp_path: Path):
    save_corrections(
        DEVICE, fit_corrections(measured(2.0), DEVICE, weights), corrections_path(DEVICE.name, tmp_path)
    )
    other = load_device("rtx-4090")
    assert load_corrected(other, folder=tmp_path, weights=weights).corrected == ()


@pytest.mark.parametrize(
    ("text", "word"), [("{", "cannot be read"), ('{"schema": 99, "models": {}}', "version")]
)
def test_a_damaged_file_says_what_to_do(text: str, word: str, weights: Path, tmp_path: Path):
    corrections_path(DEVICE.name, tmp_path).write_text(text, encoding="utf-8")
    with pytest.raises(CalibrationError, match=word) as caught:
        load_corrected(DEVICE, folder=tmp_path, weights=weights)
    assert "calibrate again" in str(caught.value)
