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
    balanced_quantiles,
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
    """t(1) = 6.314 on τ = 0.3 of all families: e = 0.3·√((6.314² − 1.645²)·(1 − 1/4) + 1.645²) = 1.659.

    √(0.21² + e²) above, √(0.21² + (e / 2)²) below, whatever the two vendors' own kernels of a family show.
    """
    e = UNSEEN_VENDOR * math.sqrt((6.314**2 - 1.645**2) * 0.75 + 1.645**2)
    for apart, quantile in ((0.2, 0.21), (0.0, 0.01)):
        found = unseen_spread(prepared, with_vendor_errors(prepared, left, apart, -apart))["none"]
        low, high = found[("linear", "bf16"), -1]
        assert high == pytest.approx(math.hypot(quantile, e), rel=0.02)
        assert low == pytest.approx(-math.hypot(quantile, e / 2), rel=0.02)


def test_another_generation_of_a_vendor_takes_a_share_of_what_few_folds_leave_open(prepared, left):
    """Hopper 0.2 too fast, others 0.2 too slow: τ = 0.2 of four folds, t(3) = 2.353, of which 0.65 count."""
    order = {name: index for index, name in enumerate(DEVICES)}
    fold = np.minimum(prepared.rows.device_index, 3)
    errors = np.where(fold == order["h100-sxm"], 0.2, -0.2) + 0.01 * np.cos(np.arange(len(fold)))
    moved = replace(
        left, errors={**left.errors, "vendor": errors}, folds={**left.folds, "vendor": fold.astype(np.int64)}
    )
    low, high = unseen_spread(prepared, moved)["vendor"][("linear", "bf16"), -1]
    extra = 0.65 * math.sqrt((2.353**2 - 1.645**2) * (1 - 1 / 16)) * 0.2
    assert (low, high) == pytest.approx((-math.hypot(0.21, extra), math.hypot(0.21, extra)), rel=0.03)


def test_folds_that_agree_widen_nothing(prepared, left):
    fold = np.minimum(prepared.rows.device_index, 3).astype(np.int64)
    moved = replace(
        left,
        errors={**left.errors, "vendor": 0.01 * np.cos(np.arange(len(fold)))},
        folds={**left.folds, "vendor": fold},
    )
    assert unseen_spread(prepared, moved)["vendor"][("linear", "bf16"), -1][1] < 0.05


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
    assert spread.unseen["none"][(), -1][0] == pytest.approx(-math.hypot(0.3, student * UNSEEN_VENDOR / 2))


def test_a_fold_is_scored_by_what_the_others_say_of_it(prepared, left):
    """Of two vendors that are as far off one way as the other: t(1) of one fold spans both."""
    apart = cross_coverage(prepared, with_vendor_errors(prepared, left, 0.2, -0.2))
    assert apart["none"] == 1.0
    far = cross_coverage(prepared, with_vendor_errors(prepared, left, 0.01, -2.0))
    assert far["none"] == pytest.approx(0.5, abs=0.01)
    assert "architecture" not in far


def test_a_fold_of_few_rows_counts_by_its_rows():
    """Two rows at 3 beside sixty at 0: alike they are half of all, of sixty rows a whole fold 3 %."""
    errors, fold = np.array([0.0] * 60 + [3.0] * 2), np.array([0] * 60 + [1] * 2)
    assert balanced_quantiles(errors, fold)[1] == 3.0
    assert balanced_quantiles(errors, fold, whole=60)[1] == 0.01
