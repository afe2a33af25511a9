from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perfcast.traces.link.align import align

names = st.lists(st.integers(0, 4), max_size=60)


def test_equal_sequences_align_item_by_item():
    assert align([1, 2, 2, 3], [1, 2, 2, 3]) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_an_added_item_is_left_out():
    assert align([1, 2, 3, 4], [9, 1, 2, 8, 3, 4]) == [(0, 1), (1, 2), (2, 4), (3, 5)]


def test_swapped_neighbours_are_still_the_same_items():
    first, second = [*range(10), 10, 11, 12], [*range(10), 11, 10, 12]
    assert (10, 11) in align(first, second)
    assert (11, 10) in align(first, second)
    assert len(align(first, second)) == 13


def test_a_short_sequence_is_found_within_a_long_one():
    step = list(range(40))
    assert align(step, [*range(100, 400), *step, *range(500, 900)]) == [(i, 300 + i) for i in range(40)]
    assert align([*range(100, 400), *step], step) == [(300 + i, i) for i in range(40)]


def test_unrelated_sequences_align_nowhere():
    assert align(list(range(200)), list(range(1000, 1200))) == []


@given(names, names)
def test_pairs_hold_the_same_item_and_each_place_stands_once(first: list[int], second: list[int]):
    pairs = align(first, second)
    assert all(first[a] == second[b] for a, b in pairs)
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)


@given(names, st.data())
def test_few_omissions_leave_all_others_aligned(first: list[int], data: st.DataObject):
    dropped = data.draw(st.sets(st.integers(0, max(0, len(first) - 1)), max_size=5))
    second = [item for place, item in enumerate(first) if place not in dropped]
    assert len(align(first, second)) >= len(second)
