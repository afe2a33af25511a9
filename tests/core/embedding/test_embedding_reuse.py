"""Reuse histograms: hand-computed, and laws over any of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.embedding.lookup import (
    NUM_REUSE_BINS,
    EmbeddingTable,
    ReuseHistogram,
    ShardingKind,
    TablePlacement,
)
from perfcast.core.embedding.reuse import (
    count_reuse,
    joined_reuse,
    part_of_reuse,
    rescaled_reuse,
    reuse_of_fractions,
    uniform_reuse,
    zipf_reuse,
)
from perfcast.errors import InputError

histograms = st.lists(st.integers(1, 200), min_size=1, max_size=60).map(
    lambda counts: count_reuse(np.repeat(np.arange(len(counts)), counts))
)


def test_a_row_with_three_lookups_is_in_the_third_bin():
    reuse = count_reuse(np.array([7, 7, 7, 1, 2, 2]))
    assert reuse.rows[:4] == (1, 1, 1, 0)
    assert reuse.lookups[:4] == (1, 2, 3, 0)
    assert reuse.num_rows == 3
    assert reuse.num_lookups == 6
    assert reuse.row_fractions[0] == pytest.approx(1 / 3)
    assert reuse.lookup_fractions[2] == pytest.approx(1 / 2)


def test_bins_end_with_powers_of_two():
    counts = [1, 2, 3, 4, 5, 8, 9, 2**15, 2**15 + 1]
    reuse = count_reuse(np.repeat(np.arange(len(counts)), counts))
    assert reuse.rows == (1, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1)


def test_two_lookups_of_two_rows_touch_one_and_a_half_rows():
    # Of the four equally likely pairs two touch both rows and two touch one.
    reuse = uniform_reuse(2, 2)
    assert reuse.rows[:2] == pytest.approx((1.0, 0.5))
    assert reuse.lookups[:2] == pytest.approx((1.0, 1.0))


def test_half_a_batch_of_pairs_keeps_three_quarters_of_the_rows():
    # A row with two lookups keeps none with 1/4, one with 1/2, both with 1/4.
    pairs = count_reuse(np.repeat(np.arange(8), 2))
    half = rescaled_reuse(pairs, 8, 100)
    assert half.rows[:2] == pytest.approx((4.0, 2.0))
    assert half.lookups[:2] == pytest.approx((4.0, 4.0))


def test_a_batch_of_the_same_size_is_the_same():
    reuse = count_reuse(np.array([1, 1, 1, 2, 2, 3, 4, 5, 5, 5, 5, 5]))
    again = rescaled_reuse(reuse, 12, 100)
    assert again.rows == pytest.approx(reuse.rows)
    assert again.lookups == pytest.approx(reuse.lookups)


def test_rows_seen_once_grow_with_the_batch_until_the_table_ends():
    # All rows are new: twice the batch has twice the rows, but not more than the table.
    once = count_reuse(np.arange(100))
    assert rescaled_reuse(once, 200, 10_000).num_rows == pytest.approx(200)
    assert rescaled_reuse(once, 200, 150).num_rows == pytest.approx(150)


def test_a_uniform_batch_is_what_drawing_gives():
    drawn = count_reuse(np.random.default_rng(0).integers(0, 20_000, 50_000))
    expected = uniform_reuse(20_000, 50_000)
    assert expected.num_lookups == pytest.approx(50_000)
    assert expected.num_rows == pytest.approx(drawn.num_rows, rel=0.01)
    assert expected.rows[:4] == pytest.approx(drawn.rows[:4], rel=0.05)


def test_zipf_without_a_slope_is_uniform():
    flat, even = zipf_reuse(5000, 20_000, 0.0), uniform_reuse(5000, 20_000)
    assert flat.rows == pytest.approx(even.rows, rel=1e-6, abs=1e-6)


def test_published_shares_become_counts_and_the_rest_is_in_the_last_bin():
    reuse = reuse_of_fractions([0.5, 0.5], [0.4, 0.55], 100, 150)
    assert reuse.lookups[0] == pytest.approx(60)
    assert reuse.lookups[-1] == pytest.approx(7.5)
    assert reuse.num_lookups == pytest.approx(150)


@pytest.mark.parametrize("shares", [[1.2], [-0.1, 0.5], [0.6, 0.6]])
def test_shares_of_more_than_all_are_refused(shares: list[float]):
    with pytest.raises(InputError, match="share"):
        reuse_of_fractions(shares, [0.5, 0.5], 10, 20)


def test_a_histogram_that_contradicts_its_bins_is_refused():
    rows, lookups = [0.0] * NUM_REUSE_BINS, [0.0] * NUM_REUSE_BINS
    rows[0], lookups[0] = 5, 9
    with pytest.raises(InputError, match="bin 0"):
        ReuseHistogram(tuple(rows), tuple(lookups))
    with pytest.raises(InputError, match="17 bins"):
        ReuseHistogram((1.0,), (1.0,))


def test_a_table_without_rows_is_refused():
    with pytest.raises(InputError, match="0 rows"):
        EmbeddingTable("t", 0, 8, 1.0)
    with pytest.raises(InputError, match="one rank"):
        TablePlacement(ShardingKind.TABLE_WISE, (0, 1))


@given(histograms, st.floats(0.05, 1.0))
def test_a_smaller_batch_has_its_lookups_and_fewer_rows(reuse: ReuseHistogram, share: float):
    wanted = share * reuse.num_lookups
    smaller = rescaled_reuse(reuse, wanted, 1000)
    assert smaller.num_lookups == pytest.approx(wanted, rel=1e-6)
    assert smaller.num_rows <= reuse.num_rows + 1e-6


@given(histograms, st.floats(1.0, 20.0))
def test_a_larger_batch_has_its_lookups_and_no_fewer_rows(reuse: ReuseHistogram, factor: float):
    wanted = factor * reuse.num_lookups
    larger = rescaled_reuse(reuse, wanted, 100_000)
    assert larger.num_lookups == pytest.approx(wanted, rel=1e-6)
    assert larger.num_rows >= reuse.num_rows * (1 - 1e-6)


@given(histograms)
def test_parts_make_the_whole(reuse: ReuseHistogram):
    whole = joined_reuse([part_of_reuse(reuse, 0.25)] * 4)
    assert whole.rows == pytest.approx(reuse.rows)
    assert whole.lookups == pytest.approx(reuse.lookups)


@pytest.mark.parametrize("num_rows", [1, 50, 10**7])
def test_no_lookups_touch_no_rows(num_rows: int):
    assert uniform_reuse(num_rows, 0).num_rows == 0
    assert uniform_reuse(num_rows, 0).num_lookups == 0
