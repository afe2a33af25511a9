"""NeuSight's formula, by hand and by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.published.kernels.figures import StudyFigures
from perfcast.published.neusight.waves import product_waves, sigmoid, vector_waves


def figures(num_sms: float = 10, peak: float = 1000, bandwidth: float = 100, rows: int = 1) -> StudyFigures:
    values = (num_sms, peak, peak, 16.0, bandwidth, 4.0)
    return StudyFigures(*(np.full(rows, float(value)) for value in values))


def product(m: float, n: float, **device: float):
    return product_waves(np.array([[1.0, m, 64.0, n]]), np.array([[32.0, 16.0]]), figures(**device))


def test_a_product_by_hand():
    # Tiles of 32 along n and 16 along m: 3 x 4 blocks on 10 multiprocessors are 2 waves.
    waves = product(m=48, n=128)
    tile_flops = 2 * 16 * 64 * 32
    assert waves.num_waves.tolist() == [2]
    intensity = (2 * 48 * 64 * 128 / 1e9) / (4 * (48 * 64 + 64 * 128 + 48 * 128) / 2**30)
    roof = min(1000, intensity * 100)
    assert waves.bound_seconds[0] == pytest.approx(2 * 10 * tile_flops / 1e9 / roof)
    tile_megabytes = 4 * (16 * 64 + 64 * 32 + 16 * 32) / 2**20
    by_hand = [
        (tile_flops / 1e9) / (1.0 / 10),
        tile_megabytes / (100 / 10),
        2 * tile_megabytes / (16 * 1024 / 10),
        2 * tile_megabytes / (4 * 1024 / 10),
    ]
    assert waves.inputs[0] == pytest.approx(np.log2(by_hand))


@given(
    m=st.floats(1, 1e5), n=st.floats(1, 1e5), num_sms=st.floats(1, 300), peak=st.floats(1e2, 1e6),
    bandwidth=st.floats(10, 1e4),
)  # fmt: skip
def test_the_papers_fifth_input_is_the_first_less_the_second(
    m: float, n: float, num_sms: float, peak: float, bandwidth: float
):
    waves = product(m, n, num_sms=num_sms, peak=peak, bandwidth=bandwidth)
    tile_gigaflop, tile_megabytes = 2 * 16 * 64 * 32 / 1e9, 4 * (16 * 64 + 64 * 32 + 16 * 32) / 2**20
    ridge = (peak / 1000) / bandwidth  # as the code's comment has it
    assert waves.with_intensity[0, 4] == pytest.approx(np.log2(tile_gigaflop / tile_megabytes / ridge))
    assert waves.with_intensity[0, :4].tolist() == waves.inputs[0].tolist()


def test_a_net_of_four_inputs_does_what_one_of_five_does():
    weights = np.random.default_rng(0).normal(size=(5, 3))
    folded = weights[:4].copy()
    folded[0] += weights[4]
    folded[1] -= weights[4]
    waves = product(m=48, n=128)
    assert waves.with_intensity @ weights == pytest.approx(waves.inputs @ folded)


def test_a_row_kernel_by_hand():
    waves = vector_waves(
        np.array([[7.0, 1000.0]]), np.array([[8.0, 5.0]]), np.array([512.0]), figures(num_sms=10)
    )
    intensity = (5 * 1024 / 1e9) / (8 * 1000 / 2**30)
    assert waves.num_waves.tolist() == [2]  # 7 rows of 2 tiles
    assert waves.bound_seconds[0] == pytest.approx(2 * 10 * 5 * 512 / 1e9 / min(1000, intensity * 100))


def test_one_extra_tile_costs_a_whole_wave():
    full, one_more = product(m=16 * 10, n=32), product(m=16 * 10 + 1, n=32)
    assert (full.num_waves[0], one_more.num_waves[0]) == (1, 2)


def test_utilization_is_the_third_output_less_the_first_over_the_waves():
    waves = product(m=48, n=128)
    outputs = np.array([[0.3, 99.0, 0.9]])
    utilization = sigmoid(np.float64(0.9)) - sigmoid(np.float64(0.3)) / 2
    assert waves.seconds(outputs)[0] == pytest.approx(waves.bound_seconds[0] / utilization)


def test_a_negative_utilization_is_no_time_as_in_the_study():
    assert product(m=16, n=32).seconds(np.array([[5.0, 0.0, -5.0]])).tolist() == [0.0]


@given(
    m=st.integers(1, 5000), n=st.integers(1, 5000), more=st.integers(0, 5000), bandwidth=st.floats(10, 4000)
)
def test_no_answer_of_a_net_is_faster_than_the_bound_and_more_rows_never_lower_it(
    m: int, n: int, more: int, bandwidth: float
):
    small, large = product(m, n, bandwidth=bandwidth), product(m + more, n, bandwidth=bandwidth)
    assert small.num_waves[0] <= large.num_waves[0]
    outputs = np.array([[-3.0, 0.0, 4.0]])
    assert small.seconds(outputs)[0] >= small.bound_seconds[0]


@given(st.floats(-800, 800))
def test_the_sigmoid_neither_overflows_nor_leaves_its_range(x: float):
    assert 0 <= sigmoid(np.array([x]))[0] <= 1
