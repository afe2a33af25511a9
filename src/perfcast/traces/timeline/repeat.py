"""A program played over and over, until what it began with is forgotten.

A host that runs ahead of its device is slowed only once the device's queue is full, which may take several
steps. What a recorded window takes in the long run is what its last repetitions take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import DeviceWork, HostPiece, RankProgram, StepSpan

#: Device works after which a queue is surely full, and steps never repeated more often.
_ENOUGH_WORKS, _MAX_REPEATS, _MIN_REPEATS = 3000, 8, 3
#: Ranks that take longer by less than this wait for each other: the first of them is told.
_ALIKE = 1e-3


def play_steadily(ranks: Sequence[RankProgram]) -> tuple[float, ...]:
    """Step seconds of each recorded step in the long run, all of the rank that takes longest for all of them.

    Ranks that wait for each other take equally long in the long run, though not in each step: where one is
    late in this step and another in the next, the longest of each step would count the same wait twice.

    Raises:
        PlanError: Ranks that wait for each other.
    """
    repeats = num_repeats(ranks)
    timeline = play_ranks([repeat_program(rank, repeats) for rank in ranks])
    count = len(timeline.step_seconds) // repeats
    each = [rank.step_seconds[len(rank.step_seconds) - count :] for rank in timeline.ranks]
    longest = max(map(sum, each), default=0.0)
    return next((steps for steps in each if sum(steps) >= longest * (1 - _ALIKE)), ())


def num_repeats(ranks: Sequence[RankProgram]) -> int:
    """How often to repeat: until the queues of the rank with the least work are surely full."""
    fewest = min((len(rank.works) for rank in ranks), default=0)
    return min(_MAX_REPEATS, max(_MIN_REPEATS, -(-_ENOUGH_WORKS // max(fewest, 1))))


def repeat_program(rank: RankProgram, times: int) -> RankProgram:
    """The same steps ``times`` times; what was still running when they began is left out."""
    running = set(rank.pieces[0].launches)
    kept = [index for index in range(len(rank.works)) if index not in running]
    number = {old: new for new, old in enumerate(kept)}
    pieces: list[HostPiece] = []
    works: list[DeviceWork] = []
    steps: list[StepSpan] = []
    num_steps = len(rank.steps)
    for copy in range(times):
        first_piece, first_work = len(pieces), len(works)
        pieces += (_moved_piece(p, number, first_piece, first_work, copy * num_steps) for p in rank.pieces)
        works += (_moved_work(rank.works[old], number, first_work, copy, copy * num_steps) for old in kept)
        steps += (
            replace(s, first_piece=s.first_piece + first_piece, last_piece=s.last_piece + first_piece)
            for s in rank.steps
        )
    repeated = replace(rank, pieces=tuple(pieces), works=tuple(works), steps=tuple(steps))
    return _with_queue(repeated) if rank.queue_length else repeated


def _moved_piece(
    piece: HostPiece, number: dict[int, int], first_piece: int, first_work: int, step: int
) -> HostPiece:
    return replace(
        piece,
        launches=tuple(number[w] + first_work for w in piece.launches if w in number),
        awaits=tuple(number[w] + first_work for w in piece.awaits if w in number),
        after=piece.after + first_piece if piece.after >= 0 else -1,
        step=piece.step + step,
    )


def _moved_work(
    work: DeviceWork, number: dict[int, int], first_work: int, copy: int, step: int
) -> DeviceWork:
    return replace(
        work,
        awaits=tuple(number[w] + first_work for w in work.awaits if w in number),
        collective=f"{work.collective} again {copy}" if work.collective else "",
        step=work.step + step,
    )


def _with_queue(rank: RankProgram) -> RankProgram:
    """Launches wait for room on their stream, also for works of an earlier repetition."""
    issued: dict[int, list[int]] = {}
    pieces = list(rank.pieces)
    for index, piece in enumerate(pieces):
        awaits = list(piece.awaits)
        for work in piece.launches:
            order = issued.setdefault(rank.works[work].stream, [])
            order.append(work)
            if len(order) > rank.queue_length:
                awaits.append(order[-1 - rank.queue_length])
        if len(awaits) > len(piece.awaits):
            pieces[index] = replace(piece, awaits=tuple(dict.fromkeys(awaits)))
    return replace(rank, pieces=tuple(pieces))
