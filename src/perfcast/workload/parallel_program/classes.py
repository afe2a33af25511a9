"""Which ranks of a parallel program do the same, found without running all of them.

Ranks are numbered along axes: those of the program's meshes, or of whatever groups it made. Rank r's digits
along axes of sizes (n₀, n₁, …), the first of stride 1, are its coordinates. The rule:

1. Along each axis, all other coordinates 0, ranks at both ends and in the middle are compared. Where the
   three are the same, all between are taken to be the same; else both halves are looked at in the same way.
   (Shards of an uneven size, or stages of a pipeline, are runs of equal coordinates: their edges are found by
   bisection, and where each differs from the next all are looked at.)
2. Along an axis between whose ranks the program sends messages, a step of each is compared. Along the others
   it is the shapes of the parts of rank 0's distributed parameters that each holds, which needs no capture;
   and one step, of the rank at the last coordinate of each of them. If that rank does something else though
   it holds the same, steps are compared along these axes too.
3. Ranks whose coordinates are in the same runs, axis by axis, are taken to do the same. One of each
   combination is captured, and combinations that turn out the same are one class.

Two captures are the same if they are up to translation: the same operations at the same nodes of the same
streams, with collectives over groups of the same shape elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product


@dataclass(frozen=True, slots=True)
class Axis:
    """Ranks that differ in one coordinate are ``stride`` apart."""

    stride: int
    size: int


@dataclass(frozen=True)
class RankClasses:
    """Equal ranks of a world.

    Attributes:
        representatives: The rank that stands for each class, rising.
        of_rank: Class of each rank.
    """

    representatives: tuple[int, ...]
    of_rank: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Ranks of each class."""
        totals = [0] * len(self.representatives)
        for one in self.of_rank:
            totals[one] += 1
        return tuple(totals)


def axes_of(groups: Sequence[Sequence[int]], world_size: int) -> tuple[Axis, ...]:
    """The axes that cut a world into these groups, the innermost first.

    The first and the last rank of an evenly spaced group, one past it, are where an axis may begin or end:
    at its stride, and at stride · size. Those that divide each other cut the world; others are left out.
    """
    cuts = {1, world_size}
    for ranks in groups:
        stride = ranks[1] - ranks[0] if len(ranks) > 1 else 0
        if stride > 0 and list(ranks) == list(range(ranks[0], ranks[0] + stride * len(ranks), stride)):
            cuts |= {stride, stride * len(ranks)}
    chain = [1]
    for cut in sorted(cuts)[1:]:
        if cut % chain[-1] == 0 and world_size % cut == 0:
            chain.append(cut)
    return tuple(Axis(low, high // low) for low, high in pairwise(chain))


@dataclass(frozen=True)
class Prints:
    """What ranks are compared by; equal values where the ranks are equal.

    Attributes:
        step: Of what a rank does in a step.
        parameters: Of the parts of parameters that it holds.
    """

    step: Callable[[int], Hashable]
    parameters: Callable[[int], Hashable]


def find_classes(
    axes: Sequence[Axis], world_size: int, prints: Prints, messages: Sequence[bool]
) -> RankClasses:
    """Group a world's ranks by the rule above.

    Args:
        messages: Of each axis, whether the program sends messages between its ranks.
    """
    step = cache(prints.step)
    silent = [axis for axis, sends in zip(axes, messages, strict=True) if not sends]
    far = sum(axis.stride * (axis.size - 1) for axis in silent)
    by_parts = {axis: _runs(axis, cache(prints.parameters)) for axis in silent}
    is_even = all(len(starts) == 1 for starts in by_parts.values())
    if is_even and step(far) != step(0):
        by_parts = {}
    runs = [by_parts.get(axis) or _runs(axis, step) for axis in axes]
    first_of: dict[Hashable, int] = {}
    corner_classes: dict[tuple[int, ...], Hashable] = {}
    for corner in product(*(range(len(starts)) for starts in runs)):
        rank = sum(axis.stride * starts[at] for axis, starts, at in zip(axes, runs, corner, strict=True))
        if any(corner) and not any(messages):
            rank += sum(
                a.stride * (a.size - 1) for a, starts in zip(axes, runs, strict=True) if len(starts) == 1
            )
        corner_classes[corner] = step(rank)
        first_of.setdefault(step(rank), rank)
    places = [_places(axis, starts) for axis, starts in zip(axes, runs, strict=True)]
    return _classes(axes, places, corner_classes, first_of, world_size)


def find_classes_of_all(world_size: int, fingerprint: Callable[[int], Hashable]) -> RankClasses:
    """The same by capturing every rank."""
    first_of: dict[Hashable, int] = {}
    prints = [fingerprint(rank) for rank in range(world_size)]
    for rank, value in enumerate(prints):
        first_of.setdefault(value, rank)
    order = {value: index for index, value in enumerate(first_of)}
    return RankClasses(tuple(first_of.values()), tuple(order[value] for value in prints))


def _runs(axis: Axis, of: Callable[[int], Hashable]) -> list[int]:
    """Coordinates at which a run of equal ones begins, all other coordinates 0."""
    starts = [0]

    def split(low: int, high: int) -> None:
        """Starts of runs in (low, high]."""
        middle = (low + high) // 2
        if of(low * axis.stride) == of(high * axis.stride) == of(middle * axis.stride):
            return
        if high - low == 1:
            starts.append(high)
            return
        split(low, middle)
        split(middle, high)

    if axis.size > 1:
        split(0, axis.size - 1)
    return starts


def _places(axis: Axis, starts: list[int]) -> list[int]:
    """Of each coordinate, the run that it is in."""
    places, run = [], -1
    for coordinate in range(axis.size):
        run += run + 1 < len(starts) and starts[run + 1] == coordinate
        places.append(run)
    return places


def _classes(
    axes: Sequence[Axis],
    places: list[list[int]],
    corner_classes: dict[tuple[int, ...], Hashable],
    first_of: dict[Hashable, int],
    world_size: int,
) -> RankClasses:
    representatives = sorted(first_of.values())
    order = {rank: index for index, rank in enumerate(representatives)}
    index_of = {corner: order[first_of[value]] for corner, value in corner_classes.items()}
    of_rank = []
    for rank in range(world_size):
        corner = tuple(
            place[rank // axis.stride % axis.size] for axis, place in zip(axes, places, strict=True)
        )
        of_rank.append(index_of[corner])
    return RankClasses(tuple(representatives), tuple(of_rank))
