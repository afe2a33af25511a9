"""What recording cost, taken out again: recordings say how long steps took without a timeline.

Each recorded event costs its program some time, at most a few microseconds. The profiler reads the clock last
as an operator begins and first as it ends (PyTorch's profiler/collection.cpp, autograd/profiler_kineto.cpp),
so that the cost of an event is no part of it but of what runs around it: the operator that called it, or the
pause before it. What then still parts the recorded steps from those that were only timed (there are more of
these, and the recorder moves what lies in memory) is a factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.traces.events import NONE, Category, Events, Trace
from perfcast.traces.link.kernels import innermost, own_seconds
from perfcast.traces.record.launch import RankRecording, ranks_in
from perfcast.traces.timeline.program import RankProgram
from perfcast.units import MICRO

#: The most that an event costs its program: PyTorch's profiler takes one to three microseconds each.
MOST_SECONDS_PER_EVENT = 3 * MICRO


@dataclass(frozen=True)
class RecordingCost:
    """Seconds that each operator's event cost, and plain over recorded time of what is left."""

    seconds_per_event: float = 0.0
    factor: float = 1.0


def plain_step_seconds(paths: Sequence[str | Path]) -> dict[int, float]:
    """Rank → median step without a timeline, of ranks recorded by 'perfcast trace record'."""
    ranks = _recorded_ranks(paths)
    return {rank.rank: rank.plain_step_wall_seconds for rank in ranks if rank.plain_step_wall_seconds}


def plain_steps(paths: Sequence[str | Path]) -> dict[int, tuple[float, ...]]:
    """Rank → seconds of each step that was timed without a timeline, but for the first of each side."""
    return {rank.rank: rank.plain_steps_wall_seconds for rank in _recorded_ranks(paths)}


def _recorded_ranks(paths: Sequence[str | Path]) -> Iterator[RankRecording]:
    """The records beside timelines."""
    files = {Path(path).resolve() for path in paths}
    for folder in {path.parent for path in files}:
        for rank in ranks_in(folder) if folder.is_dir() else ():
            kineto = rank.files.get("kineto")
            if kineto is not None and kineto.resolve() in files:
                yield rank


def cost_of_recording(trace: Trace, program: RankProgram, plain_seconds: float | None) -> RecordingCost:
    """What the recording cost a rank; nothing where plain steps were not timed."""
    if not plain_seconds or not program.steps:
        return RecordingCost()
    usual, mean = float(np.median(program.measured_seconds)), float(np.mean(program.measured_seconds))
    num_events = len(_within_steps(trace)) / len(program.steps)
    cost = min(MOST_SECONDS_PER_EVENT, max(0.0, usual - plain_seconds) / max(num_events, 1))
    taken = np.minimum(_costs(trace, program, cost), [piece.seconds for piece in program.pieces])
    left = mean - float(taken.sum()) / len(program.steps)
    return RecordingCost(cost, plain_seconds / left if left > 0 else 1.0)


def _within_steps(trace: Trace) -> Integers:
    events = trace.events
    rows = events.rows_in(Category.OPERATOR)
    starts = events.start_seconds[rows]
    inside = np.zeros(len(rows), dtype=np.bool_)
    for step in trace.steps:
        inside |= (starts >= step.start_seconds) & (starts < step.end_seconds)
    return rows[inside] if trace.steps else rows


def without_cost(trace: Trace, program: RankProgram, cost: RecordingCost) -> RankProgram:
    """The program as it would have run unrecorded, on its host."""
    if cost == RecordingCost():
        return program
    costs = _costs(trace, program, cost.seconds_per_event)
    return program.with_piece_seconds(
        [
            max(0.0, piece.seconds - own) * cost.factor
            for piece, own in zip(program.pieces, costs.tolist(), strict=True)
        ]
    )


def _costs(trace: Trace, program: RankProgram, seconds_per_event: float) -> Floats:
    """What the events in each piece cost it."""
    rows = trace.events.rows_in(Category.OPERATOR)
    return np.array(
        sums_within_pieces(trace, program, rows, np.full(len(rows), seconds_per_event), side="right")
    )


def own_without_cost(events: Events, parents: Integers, cost: RecordingCost) -> Floats:
    """Operators' own seconds as they would have been unrecorded, one for each row of the trace."""
    is_operator = events.is_in(Category.OPERATOR)
    own = own_seconds(events.end_seconds - events.start_seconds, parents, is_operator)
    rows = np.flatnonzero(is_operator)
    around = innermost(parents, parents[rows], is_operator)
    inside = np.bincount(around[around != NONE], minlength=len(own))
    return np.asarray(np.maximum(own - inside * cost.seconds_per_event, 0.0) * cost.factor)


def sums_within_pieces(
    trace: Trace,
    program: RankProgram,
    rows: Integers,
    values: Floats,
    side: Literal["left", "right"] = "left",
) -> list[float]:
    """For each piece of the host, the sum over the rows that start in it, on its thread; 0 between operators.

    Args:
        rows: Operators, in order.
        values: What is added up, one a row.
        side: 'right': a row that starts as the piece does counts to the piece before.
    """
    events = trace.events
    by_thread: dict[int, tuple[Floats, Floats]] = {}
    for thread in np.unique(events.threads[rows]).tolist():
        chosen = events.threads[rows] == thread
        sums = np.concatenate([[0.0], np.cumsum(values[chosen])])
        by_thread[thread] = (events.start_seconds[rows[chosen]], sums)
    found = []
    for piece in program.pieces:
        thread = int(events.threads[piece.row]) if piece.row != NONE else NONE
        starts, sums = by_thread.get(thread, _NOTHING)
        low, high = np.searchsorted(starts, piece.span, side=side)
        found.append(float(sums[high] - sums[low]))
    return found


_NOTHING: tuple[Floats, Floats] = (np.empty(0), np.zeros(1))
