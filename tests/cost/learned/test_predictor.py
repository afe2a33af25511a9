from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from made_up_kernels import DEVICES, products, training_rows
from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.kinship import KINS
from perfcast.cost.learned.predictor import (
    EXTRAPOLATED,
    INTERPOLATED,
    Spread,
    architecture_code,
    find_spread,
    log_sizes,
    with_codes,
)
from perfcast.cost.learned.store import load_family
from perfcast.evidence.train.learned.widths import UNSEEN_VENDOR

FIRST = np.zeros(1, np.int64)
T4, L4 = load_device("t4"), load_device("l4")


@pytest.fixture
def narrow(fitted):
    return fitted["product_narrow"]


def estimate(family, kernels, device=T4):
    return family.estimate(kernels, [device], np.zeros(len(kernels), np.int64))


def test_no_estimate_is_faster_than_the_roofline(fitted):
    for model, family in fitted.items():
        rows = training_rows(model, count=40, seed=5)
        found = family.estimate(rows.kernels, rows.devices, rows.device_index)
        physics = family.describe(rows.kernels, rows.devices, rows.device_index)
        floor = np.maximum(physics.compute_seconds, physics.memory_seconds)
        assert (found.seconds >= floor).all()
        assert (found.seconds_low <= found.seconds).all()
        assert (found.seconds < found.seconds_high).all()


def test_each_kernel_is_priced_on_its_own_device(narrow):
    kernels = products(3)
    together = narrow.estimate(kernels, [T4, L4], np.array([1, 0, 1]))
    assert together.seconds[0] == together.seconds[2] == estimate(narrow, products(), L4).seconds[0]
    assert together.seconds[1] == estimate(narrow, products(), T4).seconds[0]


def test_a_price_does_not_depend_on_its_company(narrow):
    rows = training_rows("product_narrow", count=50, seed=3)
    together = narrow.estimate(rows.kernels, rows.devices, rows.device_index)
    for index in (0, 77, 199):
        one = rows.take(np.array([index]))
        alone = narrow.estimate(one.kernels, one.devices, one.device_index)
        assert alone.seconds[0] == together.seconds[index]
        assert alone.seconds_high[0] == together.seconds_high[index]


def test_no_kernels_have_no_estimates(narrow):
    assert estimate(narrow, products().take(np.zeros(0, np.int64))).seconds.shape == (0,)


def test_a_cold_kernel_has_the_residual_of_its_repeated_twin(narrow):
    cold = replace(products(), is_cold=True)
    described = narrow.describe(cold, [T4], FIRST), narrow.describe(products(), [T4], FIRST)
    assert described[0].features.tolist() == described[1].features.tolist()
    assert described[0].seconds[0] > described[1].seconds[0]


def test_sizes_beyond_what_was_measured_widen_the_interval_with_each_doubling(narrow):
    low_high = []
    for factor in (1, 16, 256):
        found = estimate(narrow, products(m=8192 * factor, n=8192, k=8192))
        low_high.append((found.seconds_low[0] / found.seconds[0], found.seconds_high[0] / found.seconds[0]))
    assert low_high[0][1] < low_high[1][1] < low_high[2][1]
    assert low_high[2][1] / low_high[1][1] == pytest.approx(np.exp(4 * 0.06))


def test_an_operation_that_was_never_measured_is_extrapolated_with_a_wider_interval(narrow):
    known, foreign = estimate(narrow, products()), estimate(narrow, products(framework="elsewhere"))
    assert (known.provenance[0], foreign.provenance[0]) == (INTERPOLATED, EXTRAPOLATED)
    assert foreign.seconds_high[0] / foreign.seconds[0] > known.seconds_high[0] / known.seconds[0]
    assert np.isfinite(foreign.seconds_high[0])


def test_the_farther_the_nearest_measured_device_the_wider_the_interval(narrow):
    """Of T4, V100, A100 and H100: an H200, and chips of its size of sm_89, of sm_100 and of Intel."""
    stranger = replace(load_device("h200-sxm"), name="stranger")
    others = {
        "architecture": stranger,
        "family": replace(stranger, architecture="other", compute_capability="8.9"),
        "vendor": replace(stranger, architecture="other", compute_capability="10.0"),
        "none": replace(stranger, vendor="intel", architecture="xe9", compute_capability=""),
    }
    kernels = products(3, m=np.array([64, 1024, 4096]))
    widths = []
    for kin, device in others.items():
        assert narrow.scalars.kin(device, ("linear", "bf16", "sglang")) == kin
        found = estimate(narrow, kernels, device)
        widths.append(np.log(found.seconds_high / found.seconds))
        assert found.is_foreign.all() == (kin == "none")
    assert all((nearer <= farther + 1e-9).all() for nearer, farther in pairwise(widths))
    assert (widths[-2] < widths[-1]).all()


def test_a_nearer_range_holds_for_a_farther_kin_where_its_own_is_narrower(narrow):
    wide, tight = {((), -1): (-0.5, 0.6)}, {((), -1): (-0.1, 0.9)}
    spread = Spread(tight, {**{kin: {} for kin in KINS}, "family": wide, "vendor": tight})
    found = estimate(replace(narrow, spread=spread), products(), load_device("b200"))
    assert narrow.scalars.kin(load_device("b200"), ("linear", "bf16", "sglang")) == "vendor"
    assert np.log(found.seconds_high / found.seconds)[0] == pytest.approx(0.9)
    assert np.log(found.seconds_low / found.seconds)[0] >= -0.5 - 1e-9


def test_an_unseen_device_leans_on_the_trees_of_the_nearest_that_runs_the_same_kernels(narrow):
    """sm_120 runs Ampere's mma.sync, not Hopper's wgmma: among T4, V100, A100 and H100 it is A100's twin."""
    board, kernels = load_device("rtx-pro-6000-server"), products(3, m=np.array([64, 1024, 4096]))
    none, half, full = (
        narrow_estimate.seconds
        for narrow_estimate in (estimate(replace(narrow, lean=lean), kernels, board) for lean in (0, 0.5, 1))
    )
    assert np.sqrt(none * full) == pytest.approx(half, rel=1e-6)
    physics = narrow.describe(kernels, [board], np.zeros(3, np.int64))
    code = architecture_code(load_device("a100-sxm-80gb"), narrow.architectures)
    said = narrow.known.predict(with_codes(physics.features, np.full(3, code)))
    shrunk = narrow._shrink([board], [("linear", "bf16", "sglang")])[0, 0] * narrow.common.predict(
        physics.features
    )
    assert np.log(full / none) == pytest.approx(said - shrunk)


def test_a_format_that_was_never_measured_is_priced_by_physics_and_what_stands_in(narrow):
    found = estimate(narrow, products(dtype="fp8"), load_device("h100-sxm"))
    assert found.provenance[0] == EXTRAPOLATED
    assert np.isfinite(found.seconds[0])


def test_the_nearest_measurement_is_named_with_its_device(narrow):
    text = narrow.nearest(products(m=100, n=100, k=100), T4)[0]
    device, _, shape = text.partition(": ")
    assert device in DEVICES
    assert shape.startswith("batch 1, m ")
    unknown = products(operation="never_heard_of")
    assert narrow.nearest(unknown, T4) == ["no measurement of this operation in this format"]


def test_a_measured_kernel_is_nearest_to_itself(narrow):
    hull = narrow.hulls["linear", "bf16", "sglang"]
    m, n, k = (2 ** hull.shapes[0, axis] - 1 for axis in (1, 2, 3))
    device = load_device(hull.devices[hull.shape_device[0]])
    text = narrow.nearest(products(m=m, n=n, k=k), device)[0]
    assert text == f"{device.name}: batch 1, m {m:.0f}, n {n:.0f}, k {k:.0f}"


# ---- parts -------------------------------------------------------------------------------------------


def test_the_interval_of_a_coarser_level_stands_in():
    table = {(("linear",), 1): (-0.2, 0.2), ((), -1): (-0.9, 0.9), (("linear", "bf16"), -1): (-0.1, 0.1)}
    assert find_spread(table, ("linear", "bf16", "x"), 1) == (-0.1, 0.1)
    assert find_spread(table, ("linear", "fp8", "x"), 1) == (-0.2, 0.2)
    assert find_spread(table, ("linear", "fp8", "x"), 0) == (-0.9, 0.9)
    assert find_spread(table, ("conv", "fp8", "x"), 2) == (-0.9, 0.9)


def test_an_architecture_is_matched_exactly_then_by_its_major_version_and_never_across_vendors():
    trained = [("nvidia", "ampere", "8.6"), ("nvidia", "ampere", "8.0"), ("amd", "hopper", "9.0")]
    assert architecture_code(load_device("a100-sxm-80gb"), trained) == 1
    assert architecture_code(load_device("a100-sxm-80gb"), trained[:1]) == 0
    assert architecture_code(load_device("h100-sxm"), trained) == -1


def test_the_code_stands_in_the_last_column():
    assert with_codes(np.zeros((2, 3)), np.array([4, -1]))[:, -1].tolist() == [4, -1]


def test_sizes_are_counted_in_doublings():
    assert log_sizes(products(m=7, n=1, k=0)).tolist() == [[1.0, 3.0, 1.0, 0.0]]


def test_a_segment_without_a_shrinkage_of_its_own_takes_the_mean(fitted):
    family = replace(fitted["product_narrow"], shrink={"nvidia|linear|bf16": 0.5, "nvidia|bmm|bf16": 1.0})
    segments = [("linear", "bf16", "sglang"), ("linear", "fp8", "sglang")]
    assert family._shrink([load_device("b200")], segments).tolist() == [[0.5, 0.75]]


def test_what_unseen_vendors_differ_by_is_what_the_shipped_models_of_two_vendors_show():
    models = ("product_narrow", "product_wide", "experts")
    apart = [load_family(model).scalars.apart["none"] for model in models]
    assert np.sqrt(np.mean(np.square(apart))) == pytest.approx(UNSEEN_VENDOR, abs=0.05)
    assert load_family("attention").scalars.apart["none"] == UNSEEN_VENDOR
