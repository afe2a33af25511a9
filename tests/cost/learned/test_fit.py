"""Fitted to measurements made up as physics × device × smooth law × 2 % noise, a family finds them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_up_kernels import DEVICES, SLOWNESS, made_up_seconds, training_rows
from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.kinship import KINS
from perfcast.cost.learned.predictor import EXTRAPOLATED, INTERPOLATED, FittedFamily
from perfcast.cost.learned.scalars import vendor_key
from perfcast.cost.learned.store import family_of, save_family
from perfcast.evidence.train.learned.fit import fit_family
from perfcast.evidence.train.learned.prepared import TrainingRows

COUNT = 600


def fit(model: str, rows: TrainingRows) -> FittedFamily:
    return fit_family(family_of(model), rows)


@pytest.fixture(scope="module")
def narrow() -> FittedFamily:
    return fit("product_narrow", training_rows("product_narrow", count=COUNT))


@pytest.fixture(scope="module")
def held_out() -> TrainingRows:
    return training_rows("product_narrow", count=250, seed=1)


def test_held_out_rows_of_measured_devices_are_found_within_a_few_percent(narrow, held_out):
    found = narrow.estimate(held_out.kernels, held_out.devices, held_out.device_index)
    relative = np.abs(found.seconds / held_out.seconds - 1)
    assert np.median(relative) < 0.03
    assert relative.mean() < 0.05


def test_about_nine_intervals_in_ten_hold_the_measurement(narrow, held_out):
    found = narrow.estimate(held_out.kernels, held_out.devices, held_out.device_index)
    inside = (found.seconds_low <= held_out.seconds) & (held_out.seconds <= found.seconds_high)
    assert 0.83 < inside.mean() < 0.97


def test_the_scalars_tell_how_much_slower_one_device_is_than_another(narrow):
    found = np.array([narrow.scalars.values[name, ("linear",)] for name in DEVICES])
    made = np.array([SLOWNESS[name] for name in DEVICES])
    apart = (found - found.mean(axis=0)) - (made - made.mean(axis=0))
    assert np.abs(apart).max() < 0.12


def test_rows_within_measured_sizes_are_interpolated_on_measured_devices_alone(narrow, held_out):
    first = held_out.take(held_out.device_index == 0)
    inside = narrow.estimate(first.kernels, [load_device(DEVICES[0])], np.zeros(250, np.int64))
    assert (inside.provenance == INTERPOLATED).mean() > 0.95
    unseen = narrow.estimate(first.kernels, [load_device("l4")], np.zeros(250, np.int64))
    assert set(unseen.provenance.tolist()) == {EXTRAPOLATED}


def test_every_training_row_lies_within_the_measured_sizes(narrow):
    rows = training_rows("product_narrow", count=COUNT)
    found = narrow.estimate(rows.kernels, rows.devices, rows.device_index)
    assert set(found.provenance.tolist()) == {INTERPOLATED}


def test_an_unseen_device_is_less_sure_than_a_measured_one(narrow, held_out):
    first = held_out.take(held_out.device_index == 0)
    index = np.zeros(250, np.int64)
    own, unseen = (
        narrow.estimate(first.kernels, [load_device(name)], index) for name in (DEVICES[0], "rtx-4090")
    )
    widths = [np.median(np.log(found.seconds_high / found.seconds_low)) for found in (own, unseen)]
    assert widths[0] < widths[1]


def test_errors_are_stated_for_every_operation_format_and_device(narrow):
    cells = {(cell.operation, cell.dtype, cell.device): cell for cell in narrow.errors}
    assert set(cells) == {("linear", dtype, name) for dtype in ("bf16", "fp16") for name in DEVICES}
    assert sum(cell.count for cell in cells.values()) == COUNT * len(DEVICES)
    assert all(0 < cell.known_error < 0.08 for cell in cells.values() if cell.known_error is not None)
    assert all(cell.unseen_error > 0 for cell in cells.values())


def test_trust_and_shrinkage_are_chosen_for_every_kin_and_every_operation_of_a_vendor(fitted):
    for model, operations in {"product_wide": ("bmm", "linear"), "rows": ("add", "ln", "softmax")}.items():
        wanted = {vendor_key("nvidia", (operation, "fp32", "pytorch")) for operation in operations} | {*KINS}
        assert fitted[model].scalars.trust.keys() == fitted[model].shrink.keys() == wanted


def test_the_same_rows_give_the_same_bytes(tmp_path: Path):
    rows = training_rows("rows", count=50)
    paths = [save_family(fit("rows", rows), "rows", tmp_path / name, {}) for name in ("one", "two")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_single_device_is_enough_to_fit_to():
    rows = training_rows("rows", devices=("t4",), count=200)
    found = fit("rows", rows)
    assert set(found.shrink.values()) == {0.0}
    own = found.estimate(rows.kernels, rows.devices, rows.device_index)
    assert np.median(np.abs(own.seconds / rows.seconds - 1)) < 0.05
    other = found.estimate(rows.kernels, [load_device("h100-sxm")], rows.device_index)
    assert np.isfinite(other.seconds_high).all()


def test_a_device_that_was_left_out_is_still_found_within_its_interval_mostly():
    seen = training_rows("product_narrow", devices=DEVICES[:3], count=300)
    unseen = training_rows("product_narrow", devices=DEVICES[3:], count=300)
    found = fit("product_narrow", seen).estimate(unseen.kernels, unseen.devices, unseen.device_index)
    truth = made_up_seconds("product_narrow", unseen.kernels, unseen.devices[0])
    assert ((found.seconds_low <= truth) & (truth <= found.seconds_high)).mean() > 0.6
