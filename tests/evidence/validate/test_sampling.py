"""Even draws by a fixed hash."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfcast.evidence.validate.sampling import draw_evenly, hash_rows, shares


def words(count: int, word: str = "") -> np.ndarray:
    return np.full(count, word, dtype=object)


def test_small_strata_are_taken_whole_and_leave_the_rest_to_the_others() -> None:
    assert shares(np.array([3, 100, 100]), 20, np.array([2, 1, 0])).tolist() == [3, 8, 9]
    assert shares(np.array([1, 2]), 20, np.array([0, 1])).tolist() == [1, 2]


def test_keys_are_the_same_every_time_and_differ_by_table_row_and_word() -> None:
    rows = np.arange(1000)
    keys = hash_rows("gemm", rows, words(1000))
    assert (keys == hash_rows("gemm", rows, words(1000))).all()
    assert len(set(keys.tolist()) | set(hash_rows("moe", rows, words(1000)).tolist())) == 2000
    assert len(set(keys.tolist()) | set(hash_rows("gemm", rows, words(1000, "vllm")).tolist())) == 2000


def test_a_line_keeps_its_key_wherever_it_stands() -> None:
    there = hash_rows("gemm", np.arange(100), words(100))
    assert hash_rows("gemm", np.array([42]), words(1))[0] == there[42]


def test_drawn_lines_are_spread_over_the_table() -> None:
    keys = hash_rows("gemm", np.arange(10_000), words(10_000))
    chosen = draw_evenly(np.zeros(10_000, dtype=np.int64), keys, 1000)
    assert len(chosen) == 1000
    assert 4500 < chosen.mean() < 5500


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 40), st.integers(0, 30))
def test_to_draw_in_two_goes_is_to_draw_at_once(strata: list[int], most: int, more: int) -> None:
    codes = np.array(strata)
    keys = hash_rows("t", np.arange(len(codes)), words(len(codes)))
    first = draw_evenly(codes, keys, most + more)
    again = first[draw_evenly(codes[first], keys[first], most)]
    assert again.tolist() == draw_evenly(codes, keys, most).tolist()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 40))
def test_no_stratum_is_short_while_another_has_two_more(strata: list[int], most: int) -> None:
    codes = np.array(strata)
    chosen = draw_evenly(codes, hash_rows("t", np.arange(len(codes)), words(len(codes))), most)
    taken, there = (np.bincount(c, minlength=7) for c in (codes[chosen], codes))
    assert len(chosen) == min(most, len(codes))
    short = taken < there
    assert not short.any() or taken[short].min() >= taken.max() - 1
