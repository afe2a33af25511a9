"""A program recorded at two batches, at a third: every piece of the host and every collective on its own
line.

Nothing has to be known of an operator, and no shapes: seconds = a + b · batch through both recordings, each
the median of its steps. Lines do not bend where a cache overflows: far outside the two they go astray.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median

from perfcast.errors import PlanError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.request import SecondRecording
from perfcast.traces.link.align import align
from perfcast.traces.timeline.program import HostPiece, RankProgram


def check_second(traces: Sequence[Trace], second: SecondRecording, batch: tuple[int, int] | None) -> None:
    """Refuse two recordings that no line goes through.

    Raises:
        PlanError: Equal batches, none asked for, or other ranks.
    """
    if batch is None or second.batch == batch[0]:
        raise PlanError("a second recording is of another batch, and serves to forecast a third")
    if [trace.rank for trace in traces] != [trace.rank for trace in second.traces]:
        raise PlanError("both recordings have to be of the same ranks")


def on_lines(first: RankProgram, second: RankProgram, share: float) -> RankProgram:
    """The first program with each time at ``share`` of the way to the second one's; beyond 1: past it.

    Where a line falls below nothing, time is in proportion. Pieces that the second lacks stay.
    """
    ours, theirs = _usual_step(first), _usual_step(second)
    lines = dict(ours.seconds)
    for a, b in align(ours.keys, theirs.keys):
        lines[a] = _line(ours.seconds[a], theirs.seconds[b], share)
    pieces = [
        lines[ours.places[index]] if index in ours.places else piece.seconds
        for index, piece in enumerate(first.pieces)
    ]
    works = [
        _line(a, b, share) for a, b in zip(_usual_works(first), _matching_works(first, second), strict=True)
    ]
    return first.with_piece_seconds(pieces).with_work_seconds(works)


def _line(first: float, second: float, share: float) -> float:
    found = first + (second - first) * share
    return found if found > 0 else first * 0.5 ** abs(share)


@dataclass(frozen=True)
class _UsualStep:
    """What a step consists of: keys in order, median seconds of each, and the place in it of every piece."""

    keys: tuple[Hashable, ...]
    seconds: dict[int, float]
    places: dict[int, int]


def _usual_step(program: RankProgram) -> _UsualStep:
    """The program's middle step, the others aligned with it."""
    steps: dict[int, list[int]] = {}
    for index, piece in enumerate(program.pieces):
        steps.setdefault(piece.step, []).append(index)
    middle = steps[sorted(steps)[len(steps) // 2]]
    keys = [_key(program.pieces[index]) for index in middle]
    places, seconds = dict[int, int](), dict[int, list[float]]()
    for step in steps.values():
        for a, b in align([_key(program.pieces[index]) for index in step], keys):
            places[step[a]] = b
            seconds.setdefault(b, []).append(program.pieces[step[a]].seconds)
    return _UsualStep(tuple(keys), {place: median(found) for place, found in seconds.items()}, places)


def _key(piece: HostPiece) -> Hashable:
    return (piece.chain, piece.overhead, piece.key, bool(piece.launches), bool(piece.awaits))


def _works_by_step(program: RankProgram) -> dict[int, list[int]]:
    """Works of each step in the order in which they were asked for."""
    found: dict[int, list[int]] = {}
    for index in sorted(range(len(program.works)), key=lambda w: program.works[w].operator):
        found.setdefault(program.works[index].step, []).append(index)
    return found


def _medians(program: RankProgram) -> list[float]:
    steps = list(_works_by_step(program).values())
    length = max((len(step) for step in steps), default=0)
    return [median(program.works[s[i]].seconds for s in steps if i < len(s)) for i in range(length)]


def _usual_works(program: RankProgram) -> list[float]:
    return _spread(program, _medians(program))


def _matching_works(first: RankProgram, second: RankProgram) -> list[float]:
    """Median seconds of the second's works, in the places of the first's."""
    ours, theirs = _medians(first), _medians(second)
    return _spread(first, [*theirs[: len(ours)], *ours[len(theirs) :]])


def _spread(program: RankProgram, usual: Sequence[float]) -> list[float]:
    found = [work.seconds for work in program.works]
    for step in _works_by_step(program).values():
        for place, index in enumerate(step):
            found[index] = usual[place]
    return found
