"""Sizes at another batch: what recorded calls are given, as is likely, and at both ends of doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from perfcast.traces.scaling.assumptions import Origin
from perfcast.traces.scaling.extents import Dim, value_of, variables_of, whole
from perfcast.traces.scaling.follow import Followed, follow
from perfcast.traces.scaling.loops import SampleLoop, loops_over_samples
from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.rules import Dims, Shape
from perfcast.traces.scaling.tensors import parameters_among

#: As likely; with all that is assumed as recorded; with all that is assumed following the batch.
End = Literal["likely", "unscaled", "scaled"]


@dataclass(frozen=True)
class Scaling:
    """What another batch makes of recorded calls.

    Attributes:
        recorded, wanted: The batch.
        followed: What all sizes are made of.
        loops: Repeats that more samples make more of.
    """

    recorded: int
    wanted: int
    followed: Followed
    loops: tuple[SampleLoop, ...] = ()

    @property
    def ratio(self) -> float:
        """Wanted over recorded batch."""
        return self.wanted / self.recorded

    def size(self, dim: Dim, end: End = "likely") -> int:
        """A size at the wanted batch; the nearest whole one to what is expected."""
        assumptions = self.followed.assumptions

        def multiplier(variable: int) -> float:
            if end != "likely" and assumptions.is_assumed(variable):
                return self.ratio if end == "scaled" else 1.0
            return self.ratio if assumptions.follows(variable) else 1.0

        return whole(value_of(assumptions.canonical(dim), multiplier))

    def shapes(self, place: int, end: End = "likely") -> tuple[tuple[int, ...], ...]:
        """Of a call's tensor arguments, in order; at the ends, of all that they may be made of."""
        found = self._shapes(self.followed.dims[place], end)
        if end == "likely" or place not in self.followed.makeups:
            return found
        others = [found, *(self._shapes(makeup.own, end) for makeup in self.followed.makeups[place])]
        is_most = (end == "scaled") == (self.ratio > 1)
        return (max if is_most else min)(others, key=_elements)

    def _shapes(self, own: tuple[Dims, ...], end: End) -> tuple[Shape, ...]:
        return tuple(tuple(self.size(dim, end) for dim in dims) for dims in own)

    def is_open(self, place: int) -> bool:
        """Whether a call's sizes could be otherwise than taken."""
        return bool(self.assumed(place)) or place in self.followed.makeups

    def follows(self, variable: int) -> bool:
        """Whether a variable is taken to follow the batch."""
        return self.followed.assumptions.follows(variable)

    def assumed(self, place: int) -> list[int]:
        """Variables among a call's sizes that could be otherwise than taken."""
        assumptions = self.followed.assumptions
        found: dict[int, None] = {}
        for dims in self.followed.dims.get(place, ()):
            for dim in dims:
                for variable in variables_of(assumptions.canonical(dim)):
                    if assumptions.is_assumed(variable):
                        found[variable] = None
        return list(found)

    def grows(self, call: ScalingCall) -> tuple[bool, bool]:
        """Whether a tensor that a call is given, and whether one that it makes, is taken to grow."""
        given = any(self._is_growing(dim) for dims in self.followed.dims.get(call.place, ()) for dim in dims)
        made = self.followed.outputs.get(call.place, ())
        return given, any(self._is_growing(dim) for dims in made if dims is not None for dim in dims)

    def _is_growing(self, dim: Dim) -> bool:
        assumptions = self.followed.assumptions
        return any(assumptions.follows(variable) for variable in variables_of(assumptions.canonical(dim)))

    def origin(self, variable: int) -> Origin:
        """Where an assumed size came from."""
        return self.followed.assumptions.origin(variable)


def _elements(shapes: tuple[Shape, ...]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def scale(calls: Sequence[ScalingCall], recorded: int, wanted: int, world_size: int = 1) -> Scaling:
    """What another batch makes of recorded calls.

    Args:
        calls: In the order of their starts, those below a call behind it.
        world_size: Ranks, whose batches may stand together in one tensor.
    """
    found = Scaling(recorded, wanted, follow(calls, recorded, world_size))
    loops = loops_over_samples(calls, recorded, parameters_among(calls), found.grows)
    return replace(found, loops=loops)
