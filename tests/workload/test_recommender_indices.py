"""Indices that are made up have the histogram that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.embedding.reuse import count_reuse, zipf_reuse
from perfcast.errors import InputError
from perfcast.workload.recommender.indices import (
    draw_bag_lengths,
    draw_from_reuse,
    draw_uniform,
    draw_zipf,
    row_of_rank,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=50), st.integers(0, 5))
def test_drawn_indices_have_exactly_the_histogram(counts: list[int], seed: int):
    reuse = count_reuse(np.repeat(np.arange(len(counts)), counts))
    drawn = draw_from_reuse(reuse, 1000, np.random.default_rng(seed))
    assert count_reuse(drawn) == reuse
    assert drawn.min() >= 0
    assert drawn.max() < 1000


def test_an_expected_histogram_is_met_within_one_row_a_bin():
    reuse = zipf_reuse(100_000, 20_000, 1.1)
    found = count_reuse(draw_from_reuse(reuse, 100_000, np.random.default_rng(0)))
    assert found.num_lookups == 20_000
    assert np.abs(np.array(found.rows) - reuse.rows).max() <= 1


def test_popular_rows_are_the_same_in_every_batch():
    reuse = count_reuse(np.repeat(np.arange(20), 50))
    first, second = (draw_from_reuse(reuse, 5000, np.random.default_rng(seed)) for seed in (1, 2))
    assert set(first) == set(second)


def test_more_rows_than_the_table_has_are_refused():
    with pytest.raises(InputError, match="20 different rows"):
        draw_from_reuse(count_reuse(np.arange(20)), 10, np.random.default_rng(0))


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1.3])
def test_zipf_indices_have_the_expected_histogram(exponent: float):
    drawn = count_reuse(draw_zipf(50_000, 40_000, exponent, np.random.default_rng(3)))
    expected = zipf_reuse(50_000, 40_000, exponent)
    assert drawn.num_rows == pytest.approx(expected.num_rows, rel=0.03)
    assert drawn.rows[:5] == pytest.approx(expected.rows[:5], rel=0.12)


def test_uniform_indices_cover_the_table():
    assert set(draw_uniform(10, 1000, np.random.default_rng(0))) == set(range(10))


@given(st.integers(1, 5000))
def test_every_rank_has_a_row_of_its_own(num_rows: int):
    rows = row_of_rank(np.arange(num_rows), num_rows)
    assert len(set(rows.tolist())) == num_rows


def test_bags_are_as_equal_as_whole_numbers_can_be():
    assert sorted(draw_bag_lengths(10, 4, 0.0, np.random.default_rng(0)).tolist()) == [2, 2, 3, 3]


@given(st.integers(0, 3000), st.integers(1, 200), st.floats(0, 20), st.integers(0, 9))
def test_bags_hold_all_lookups(num_lookups: int, batch_size: int, deviation: float, seed: int):
    lengths = draw_bag_lengths(num_lookups, batch_size, deviation, np.random.default_rng(seed))
    assert lengths.sum() == num_lookups
    assert lengths.min() >= 0
    assert len(lengths) == batch_size
