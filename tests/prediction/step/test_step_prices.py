"""Prices of a step are those of operations alone, scaled, and as sure."""

from __future__ import annotations

import pytest

from builders import matmul
from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.prediction.step.prices import price_step


@pytest.mark.parametrize(("device", "errs_as_one"), [("gaudi3", True), ("h100-sxm", False)])
def test_prices_of_a_vendor_never_measured_err_as_one_in_a_step_too(device: str, errs_as_one: bool) -> None:
    prices = price_step(
        [matmul(512, 512, 512)], load_device(device), load_cluster("dgx-h100:8"), LearnedCost(), None
    )
    assert prices.errs_as_one is errs_as_one
