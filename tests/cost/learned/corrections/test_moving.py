from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import elementwise, matmul
from made_up_kernels import products
from perfcast.catalogs.devices import load_device
from perfcast.core.kernel import SIZES, WORDS, KernelFamily
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.evidence import Evidence, weigh_measurements
from perfcast.cost.learned.corrections.load import correct, estimate_measured, load_corrected
from perfcast.cost.learned.corrections.measured import (
    MeasuredKernel,
    MeasuredKernels,
    corrections_path,
    save_measured,
)
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import CalibrationError

DEVICE = load_device("l40s")
OTHER = load_device("rtx-4090")
ROWS = (64, 256, 512, 1024, 2048, 3072, 4096, 8192)


def kernels(factor: float, weights: Path, rows: tuple[int, ...] = ROWS) -> MeasuredKernels:
    """Products on a device that the made-up models never saw, ``factor`` times what is forecast."""
    table = products(len(rows), m=np.array(rows, dtype=float))
    made = tuple(
        MeasuredKernel(
            f"product m={m}",
            KernelFamily.PRODUCT,
            {name: float(table.size(name)[i]) for name in SIZES[KernelFamily.PRODUCT]},
            {name: str(table.word(name)[i]) for name in WORDS[KernelFamily.PRODUCT]},
            1.0,
            is_cold=False,
        )
        for i, m in enumerate(rows)
    )
    measured = MeasuredKernels(DEVICE.name, made, measured_at="2026-11-23T10:00:00+00:00")
    seconds = estimate_measured(measured, DEVICE, weights)[0]
    timed = tuple(
        MeasuredKernel(k.name, k.family, k.sizes, k.words, factor * s, k.is_cold)
        for k, s in zip(made, seconds.tolist(), strict=True)
    )
    return MeasuredKernels(DEVICE.name, timed, measured_at=measured.measured_at)


@pytest.fixture
def plain(weights: Path) -> LearnedCost:
    return LearnedCost(folder=weights)


def test_without_measurements_a_forecast_is_as_before(weights: Path, tmp_path: Path, plain: LearnedCost):
    assert load_corrected(DEVICE, folder=tmp_path, weights=weights).moved is None
    assert correct(plain, MeasuredKernels(DEVICE.name, ()), DEVICE) is plain


def test_measurements_equal_to_the_forecast_move_nothing(weights: Path, plain: LearnedCost):
    moved = correct(plain, kernels(1.0, weights), DEVICE)
    operations = [matmul(512, 512, 512), matmul(8, 4096, 4096), elementwise(10**6)]
    was, now = plain.estimate(operations, DEVICE), moved.estimate(operations, DEVICE)
    assert now.seconds == pytest.approx(was.seconds, rel=1e-9)
    assert (now.seconds_high <= was.seconds_high * (1 + 1e-9)).all()
    assert (now.seconds_low >= was.seconds_low * (1 - 1e-9)).all()


@pytest.mark.parametrize("factor", [0.8, 1.5])
def test_eight_measurements_move_kernels_like_them_towards_themselves(
    factor: float, weights: Path, plain: LearnedCost
):
    moved = correct(plain, kernels(factor, weights), DEVICE).model("product_narrow")
    table = products(3, m=np.array([384.0, 768.0, 1536.0]))
    index = np.zeros(3, dtype=np.int64)
    before = plain.model("product_narrow").estimate(table, [DEVICE], index)
    after = moved.estimate(table, [DEVICE], index)
    share = np.log(after.seconds / before.seconds) / np.log(factor)
    assert (share > 0.4).all()
    assert (share < 1.05).all()
    assert (after.seconds_high / after.seconds_low < before.seconds_high / before.seconds_low).all()


def test_what_is_less_alike_moves_less(weights: Path, plain: LearnedCost):
    moved = correct(plain, kernels(1.5, weights), DEVICE)
    operations = [matmul(512, 4096, 4096), elementwise(10**7)]
    was, now = (model.estimate(operations, DEVICE).seconds for model in (plain, moved))
    product, elements = np.log(now / was)
    assert product > elements >= 0
    assert product > 0.05


def test_other_devices_keep_their_forecast(weights: Path, plain: LearnedCost):
    moved = correct(plain, kernels(2.0, weights), DEVICE)
    operations = [matmul(512, 512, 512)]
    assert moved.estimate(operations, OTHER).seconds == plain.estimate(operations, OTHER).seconds
    with pytest.raises(CalibrationError, match="kernels of l40s, not of rtx-4090"):
        correct(plain, kernels(2.0, weights), OTHER)


def test_one_disturbed_measurement_among_eight_counts_little(weights: Path, plain: LearnedCost):
    measured = kernels(1.0, weights)
    bad = measured.kernels[3]
    worse = MeasuredKernel(bad.name, bad.family, bad.sizes, bad.words, 20 * bad.seconds, bad.is_cold)
    moved = correct(plain, measured.with_kernel(worse, "2026-11-23"), DEVICE)
    operations = [matmul(900, 4096, 4096)]
    was, now = (model.estimate(operations, DEVICE).seconds[0] for model in (plain, moved))
    assert now < 1.5 * was


def test_a_forecast_says_how_many_kernels_moved_it_and_when(
    weights: Path, tmp_path: Path, plain: LearnedCost
):
    save_measured(kernels(2.0, weights), corrections_path(DEVICE.name, tmp_path))
    assert load_corrected(DEVICE, folder=tmp_path, weights=weights).measurements == (
        "8 kernels measured on l40s on 2026-11-23"
    )
    assert plain.measurements == ""


# ---- laws --------------------------------------------------------------------------------------------


@given(rows=st.lists(st.sampled_from(ROWS), min_size=2, max_size=8, unique=True), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_more_measurements_that_agree_never_widen_an_interval(
    rows: list[int], seed: int, fitted: dict, weights: Path
):
    measured = kernels(1.0, weights, tuple(rows))
    _, traits = estimate_measured(measured, DEVICE, weights)
    errors = np.random.default_rng(seed).normal(scale=0.01, size=len(traits))
    _, asked = estimate_measured(kernels(1.0, weights), DEVICE, weights)
    covariance = load_covariance()

    def width(count: int) -> np.ndarray:
        some = traits.take(np.arange(count))
        return weigh_measurements(some, errors[:count], covariance).about(asked)[1]

    fewer, more = width(len(rows) - 1), width(len(rows))
    assert (more <= fewer + 1e-9).all()
    assert (fewer <= 1.0).all()


def test_covariance_is_symmetric_and_positive(weights: Path):
    _, traits = estimate_measured(kernels(1.0, weights), DEVICE, weights)
    covariance = load_covariance()
    matrix = covariance.between(traits, traits)
    assert matrix == pytest.approx(matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    assert np.diag(matrix) == pytest.approx(covariance.shared(traits))


def test_one_measurement_by_hand(weights: Path):
    """Of the kernel itself: it moves by shared / (shared + alone) of its error."""
    measured = kernels(1.0, weights, (512,))
    _, traits = estimate_measured(measured, DEVICE, weights)
    covariance = load_covariance()
    shared, alone = covariance.shared(traits)[0], covariance.alone(traits)[0]
    evidence: Evidence = weigh_measurements(traits, np.array([0.02]), covariance)
    move, narrowed = evidence.about(traits)
    assert move[0] == pytest.approx(covariance.trust * 0.02 * shared / (shared + alone), rel=1e-6)
    remains = (shared - shared**2 / (shared + alone) + alone) / (shared + alone)
    assert narrowed[0] == pytest.approx(remains ** (0.5 * covariance.narrowing), rel=1e-6)
