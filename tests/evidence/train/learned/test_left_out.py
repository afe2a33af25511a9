"""Devices left out by architecture, instruction family and vendor."""

from __future__ import annotations

import numpy as np
import pytest

from made_up_kernels import training_rows
from perfcast.cost.learned.kinship import KINS
from perfcast.cost.learned.store import family_of
from perfcast.evidence.train.learned.left_out import LeftOut, Told, leave_out
from perfcast.evidence.train.learned.prepared import Prepared, prepare

DEVICES = ("a100-sxm-80gb", "l40s", "h100-sxm", "mi300x", "mi355x")


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(family_of("product_narrow"), training_rows("product_narrow", DEVICES, count=80), 1)


@pytest.fixture(scope="module")
def left(prepared: Prepared) -> LeftOut:
    return leave_out(prepared)


def devices_with(prepared: Prepared, left: LeftOut, kin: str) -> set[str]:
    present = np.isfinite(left.errors[kin]) & (left.folds[kin] >= 0)
    return {DEVICES[i] for i in np.unique(prepared.rows.device_index[present]).tolist()}


def test_each_device_is_left_out_alone_with_its_family_and_with_its_vendor(prepared, left):
    assert devices_with(prepared, left, "family") == {"a100-sxm-80gb", "l40s", "mi300x", "mi355x"}
    assert devices_with(prepared, left, "vendor") == {"a100-sxm-80gb", "l40s", "h100-sxm"}
    assert devices_with(prepared, left, "none") == set(DEVICES)
    assert devices_with(prepared, left, "architecture") == set()


def test_a_family_and_a_vendor_leave_together(prepared, left):
    fold = {name: left.folds["vendor"][prepared.rows.device_index == i] for i, name in enumerate(DEVICES)}
    assert set(fold["a100-sxm-80gb"]) == set(fold["l40s"]) != set(fold["h100-sxm"])
    assert len(set(left.folds["none"].tolist())) == 2


def test_what_an_architecture_alone_leaves_is_known_of_every_row(prepared, left):
    assert np.isfinite(left.alone).all()


def test_a_choice_is_made_for_every_kin_and_for_operations_where_devices_of_the_kin_were_left_out(left):
    assert {*KINS} <= left.trust.keys()
    assert "family|linear|bf16" in left.trust
    assert "nvidia|linear|bf16" in left.shrink
    assert "amd|linear|bf16" not in left.shrink  # all of AMD's are one family
    assert 0 <= left.lean <= 1


def test_what_is_left_is_the_measurement_less_what_is_believed_of_what_was_told():
    told = Told(
        offset=np.array([0.4, 0.4]), common=np.array([0.2, 0.2]), borrowed=np.array([0.6, np.nan]),
        fold=np.zeros(2, np.int64),
    )  # fmt: skip
    left = told.left(np.array([1.0, 1.0]), trust=0.5, shrink=0.5, lean=0.25)
    assert left == pytest.approx([1 - 0.2 - 0.25 * 0.6 - 0.75 * 0.1, 1 - 0.2 - 0.1])


def test_two_architectures_are_too_few_to_leave_one_out():
    rows = training_rows("product_narrow", DEVICES[:2], count=40)
    left = leave_out(prepare(family_of("product_narrow"), rows, 1))
    assert set(left.trust.values()) == {1.0}
    assert set(left.shrink.values()) == {0.0}
    assert np.isfinite(left.alone).all()
