"""Which ranks are found equal, with made-up captures."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.workload.parallel_program.classes import (
    Axis,
    Prints,
    RankClasses,
    axes_of,
    find_classes,
    find_classes_of_all,
)


class Captures:
    """Remembers which ranks were asked for."""

    def __init__(self, of: Callable[[int], Hashable]) -> None:
        self._of, self.asked = of, set[int]()

    def __call__(self, rank: int) -> Hashable:
        self.asked.add(rank)
        return self._of(rank)


def classes(
    sizes: list[int], step: Callable[[int], Hashable], parts: Callable[[int], Hashable], sends: list[bool]
) -> tuple[RankClasses, set[int]]:
    """Of a world whose axes, the innermost first, have these sizes; and the ranks that were captured."""
    axes, stride = [], 1
    for size in sizes:
        axes.append(Axis(stride, size))
        stride *= size
    captures = Captures(step)
    return find_classes(axes, stride, Prints(captures, parts), sends), captures.asked


def nothing(rank: int) -> Hashable:
    return None


# ---- axes --------------------------------------------------------------------------------------------


def test_the_groups_of_a_mesh_are_its_axes():
    mesh_of_4_by_8 = [tuple(range(32)), tuple(range(0, 32, 8)), tuple(range(8))]
    assert axes_of(mesh_of_4_by_8, 32) == (Axis(1, 8), Axis(8, 4))


def test_an_axis_that_is_flattened_is_cut_where_another_group_ends():
    assert axes_of([tuple(range(16)), (0, 2), (0, 4, 8, 12)], 16) == (Axis(1, 2), Axis(2, 2), Axis(4, 4))


def test_groups_that_are_not_evenly_spaced_cut_nothing():
    assert axes_of([(0, 1, 3), (0,)], 8) == (Axis(1, 8),)


def test_one_rank_has_no_axes():
    assert axes_of([(0,)], 1) == ()


# ---- the rule ----------------------------------------------------------------------------------------


def test_of_a_thousand_equal_ranks_two_are_captured():
    found, captured = classes([8, 128], nothing, nothing, [False, False])
    assert found == RankClasses((0,), (0,) * 1024)
    assert captured == {0, 1023}


def test_shards_of_an_uneven_size_are_runs_along_their_axis():
    """40 rows over 64 ranks: one each for the first 40."""
    found, captured = classes([2, 64], lambda r: r // 2 < 40, lambda r: r // 2 < 40, [False, False])
    assert [one.bit_length() for one in found.of_rank] == [0] * 80 + [1] * 48
    assert captured == {0, 81}  # the first of the second run, at the other end of the even axis


def test_stages_that_all_differ_are_all_captured():
    found, captured = classes([4, 6], lambda r: r // 4, nothing, [False, True])
    assert found.representatives == (0, 4, 8, 12, 16, 20)
    assert found.counts == (4,) * 6
    assert captured == {0, 3, 4, 8, 12, 16, 20}


def test_stages_between_the_first_and_the_last_may_be_one_class():
    found, _ = classes([16], lambda r: (r > 0) + (r == 15), nothing, [True])
    assert found.representatives == (0, 1, 15)
    assert found.counts == (1, 14, 1)


def test_a_program_that_asks_for_its_rank_is_found_out_by_the_last_one():
    """Only one half of the ranks writes a log, though all hold the same."""
    found, _ = classes([8], lambda r: r >= 4, nothing, [False])
    assert found.of_rank == (0, 0, 0, 0, 1, 1, 1, 1)


def test_classes_of_two_axes_are_their_combinations():
    def step(rank: int) -> Hashable:
        return rank % 4 == 3, rank // 4

    found, _ = classes([4, 3], step, lambda r: r % 4 == 3, [False, True])
    assert found == find_classes_of_all(12, step)


def test_combinations_that_turn_out_the_same_are_one_class():
    """Only the first of three stages cares for the uneven axis."""

    def step(rank: int) -> Hashable:
        return rank // 4, rank < 4 and rank % 4 == 3

    found, _ = classes([4, 3], step, lambda r: r % 4 == 3, [False, True])
    assert found.counts == (3, 1, 4, 4)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_runs_along_messages_are_found_as_if_all_ranks_were_captured(sizes: list[int], data: st.DataObject):
    """Where equal coordinates are neighbours, and no run is inside of another, bisection finds every edge."""
    edges = [sorted(data.draw(st.sets(st.integers(1, 5), max_size=4))) for _ in sizes]

    def step(rank: int) -> Hashable:
        coordinates = []
        for size in sizes:
            rank, coordinate = divmod(rank, size)
            coordinates.append(coordinate)
        return tuple(sum(c >= e for e in ends) for c, ends in zip(coordinates, edges, strict=True))

    found, _ = classes(sizes, step, nothing, [True] * len(sizes))
    total = len(found.of_rank)
    assert found == find_classes_of_all(total, step)
    assert sum(found.counts) == total


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_rank_stands_for_itself(size: int):
    found, _ = classes([size], lambda r: r, nothing, [True])
    assert found == RankClasses(tuple(range(size)), tuple(range(size)))
