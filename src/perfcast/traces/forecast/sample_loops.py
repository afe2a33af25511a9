"""Loops over samples at another batch: as many repeats more, where it is clear that they are of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.traces.events import NONE, Trace
from perfcast.traces.forecast.batch import BatchChange
from perfcast.traces.forecast.unresolved import UnresolvedSize
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.scaling.loops import SampleLoop
from perfcast.traces.timeline.program import RankProgram

#: From when to when, on the trace's clock.
Span = tuple[float, float]


def with_loops(trace: Trace, variant: Variant, change: BatchChange) -> Variant:
    """The variant with its loops over samples run more often.

    All that the host and the device do in a loop follows the batch at the high end, nothing of it at the low
    end; in the middle it does where the loop is clearly one over samples.
    """
    loops = change.scaling.loops
    if not loops:
        return variant
    inside = _Inside(trace, variant.middle, [(loop, _spans(trace, change, loop)) for loop in loops])
    least, most = sorted((1.0, change.ratio))
    added = tuple(
        UnresolvedSize(loop.words, loop.count, loop.is_clear, inside.seconds(variant.middle, at))
        for at, loop in enumerate(loops)
    )
    low, high = inside.of_groups(variant.low, variant.high, change.ratio)
    return replace(
        variant,
        middle=inside.times(variant.middle, [change.ratio if loop.is_clear else 1.0 for loop in loops]),
        low=inside.times(low, [1.0 if loop.is_of_groups else least for loop in loops]),
        high=inside.times(high, [1.0 if loop.is_of_groups else most for loop in loops]),
        unresolved=tuple(sorted((*variant.unresolved, *added), key=lambda one: -one.seconds)),
    )


def _spans(trace: Trace, change: BatchChange, loop: SampleLoop) -> list[Span]:
    """When a loop ran: once in each step."""
    events = trace.events
    rows = np.array(
        [r for r, place in change.places.items() if loop.first <= place <= loop.last], dtype=np.int64
    )
    starts, ends = events.start_seconds[rows], events.end_seconds[rows]
    steps = [(step.start_seconds, step.end_seconds) for step in trace.steps] or [(-np.inf, np.inf)]
    found = []
    for first, last in steps:
        own = (starts >= first) & (starts < last)
        if own.any():
            found.append((float(starts[own].min()), float(ends[own].max())))
    return found


@dataclass(frozen=True)
class _Inside:
    """Which loop each piece and each work of a program is in: an index among the loops, or -1."""

    trace: Trace
    program: RankProgram
    loops: Sequence[tuple[SampleLoop, Sequence[Span]]]

    def seconds(self, program: RankProgram, loop: int) -> float:
        """Time of host and device in a loop, a step."""
        host = sum(p.seconds for p, at in zip(program.pieces, self._pieces(), strict=True) if at == loop)
        works = sum(w.seconds for w, at in zip(program.works, self._works(), strict=True) if at == loop)
        return (host + works) / max(len(program.steps), 1)

    def of_groups(self, low: RankProgram, high: RankProgram, ratio: float) -> tuple[RankProgram, RankProgram]:
        """Both ends in loops over groups: as many more groups of the same sizes, or as many larger ones."""
        pieces = [at >= 0 and self.loops[at][0].is_of_groups for at in self._pieces()]
        works = [at >= 0 and self.loops[at][0].is_of_groups for at in self._works()]
        ends = []
        for program, choose in ((low, min), (high, max)):
            host = [
                choose(a.seconds * ratio, b.seconds) if is_inside else own.seconds
                for a, b, own, is_inside in zip(low.pieces, high.pieces, program.pieces, pieces, strict=True)
            ]
            device = [
                choose(a.seconds * ratio, b.seconds) if is_inside else own.seconds
                for a, b, own, is_inside in zip(low.works, high.works, program.works, works, strict=True)
            ]
            ends.append(program.with_piece_seconds(host).with_work_seconds(device))
        return ends[0], ends[1]

    def times(self, program: RankProgram, factors: Sequence[float]) -> RankProgram:
        """The program with each loop's times multiplied."""
        factor = np.array([*factors, 1.0])
        host = np.array([piece.seconds for piece in program.pieces]) * factor[self._pieces()]
        works = np.array([work.seconds for work in program.works]) * factor[self._works()]
        return program.with_piece_seconds(host.tolist()).with_work_seconds(works.tolist())

    def _pieces(self) -> list[int]:
        return [self._loop_at(sum(piece.span) / 2) for piece in self.program.pieces]

    def _works(self) -> list[int]:
        starts = self.trace.events.start_seconds
        return [
            -1 if w.operator == NONE or w.collective else self._loop_at(float(starts[w.operator]))
            for w in self.program.works
        ]

    def _loop_at(self, moment: float) -> int:
        for at, (_, spans) in enumerate(self.loops):
            if any(start <= moment <= end for start, end in spans):
                return at
        return -1
