"""How wide few folds make an interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from made_up_kernels import training_rows
from perfcast.cost.learned.kinship import KINS
from perfcast.cost.learned.store import family_of
from perfcast.evidence.train.learned.coverage import cross_coverage
from perfcast.evidence.train.learned.left_out import LeftOut, leave_out
from perfcast.evidence.train.learned.prepared import Prepared, prepare
from perfcast.evidence.train.learned.widths import (
    UNSEEN_VENDOR,
    distances,
    fold_medians,
    one_vendor_spread,
    unseen_spread,
)

DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "b200", "mi300x")


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(family_of("product_narrow"), training_rows("product_narrow", DEVICES, count=120), 1)


@pytest.fixture(scope="module")
def left(prepared: Prepared) -> LeftOut:
    return leave_out(prepared)


def with_vendor_errors(p: Prepared, left: LeftOut, nvidia: float, amd: float) -> LeftOut:
    """Every kernel of a vendor left out is off by as much, but for a hundredth either way."""
    of_amd = p.rows.device_index == DEVICES.index("mi300x")
    noise = 0.01 * np.cos(np.arange(len(p.target)))
    errors = np.where(of_amd, amd, nvidia) + noise
    return replace(
        left, errors={**left.errors, "none": errors}, folds={**left.folds, "none": of_amd.astype(np.int64)}
    )


def test_two_vendors_show_one_difference_and_a_third_may_be_farther(prepared, left):
    """t(1) = 6.314: √(0.2² + (6.314² − 1.645²) (1 − 1/4) 0.2²), less what the pooled quantile lacks."""
    found = unseen_spread(prepared, with_vendor_errors(prepared, left, 0.2, -0.2))["none"]
    low, high = found[("linear", "bf16"), -1]
    wide = math.sqrt(0.21**2 + (6.314**2 - 1.645**2) * 0.75 * 0.2**2)
    assert (low, high) == pytest.approx((-wide, wide), rel=0.02)


def test_folds_that_agree_widen_nothing(prepared, left):
    found = unseen_spread(prepared, with_vendor_errors(prepared, left, 0.0, 0.0))["none"]
    assert found[("linear", "bf16"), -1][1] < 0.05


def test_medians_are_of_each_operation_format_and_fold(prepared, left):
    moved = with_vendor_errors(prepared, left, 0.3, -0.1)
    medians = fold_medians(prepared, moved.errors["none"], moved.folds["none"])
    assert medians["linear", "bf16"][0] == pytest.approx(0.3, abs=0.01)
    assert medians["linear", "fp16"][1] == pytest.approx(-0.1, abs=0.01)
    assert distances(prepared, moved)["none"] == pytest.approx(math.sqrt((0.3**2 + 0.1**2) / 2), abs=0.01)


def test_every_kin_has_a_range_whoever_was_left_out(prepared, left):
    found = unseen_spread(prepared, left)
    assert found.keys() == {*KINS}
    assert all(table for table in found.values())


def test_of_one_vendor_s_measurements_another_vendor_is_less_sure_and_a_stranger_least():
    spread = one_vendor_spread({(): (-0.1, 0.1)}, {(): (-0.3, 0.4)})
    assert spread.known[(), -1] == (-0.1, 0.1)
    assert spread.unseen["family"][(), -1] == spread.unseen["vendor"][(), -1] == (-0.3, 0.4)
    acquainted, stranger = (spread.unseen[kin][(), -1][1] for kin in ("elsewhere", "none"))
    assert acquainted == pytest.approx(math.hypot(0.4, 1.645 * UNSEEN_VENDOR))
    student = math.sqrt((6.314**2 - 1.645**2) * 0.75 + 1.645**2)
    assert stranger == pytest.approx(math.hypot(0.4, student * UNSEEN_VENDOR))


def test_a_fold_is_scored_by_what_the_others_say_of_it(prepared, left):
    """Of two vendors that are as far off one way as the other: t(1) of one fold spans both."""
    apart = cross_coverage(prepared, with_vendor_errors(prepared, left, 0.2, -0.2))
    assert apart["none"] == 1.0
    far = cross_coverage(prepared, with_vendor_errors(prepared, left, 0.01, -2.0))
    assert far["none"] == pytest.approx(0.5, abs=0.01)
    assert "architecture" not in far
