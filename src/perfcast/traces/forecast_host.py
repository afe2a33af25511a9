"""Operators that a processor ran itself, with other sizes.

Each outermost operator is a stretch of the host. Its operators inside scale by their own work; what they
leave of it, dispatch and Python, stays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from perfcast.core.operation import Operation
from perfcast.traces.events import NONE, Category, Flags, Numbers, Trace
from perfcast.traces.recorded_operations import RecordedOperations
from perfcast.traces.repricing import KEPT, Floats, Side, price_ratios, work_ratios
from perfcast.traces.timeline_program import Overhead, RankProgram

#: An operator inside that does this share of the work of the one around it does all of it.
_MOST = 0.5


def reprice_host(
    trace: Trace,
    program: RankProgram,
    parents: Numbers,
    sizes: dict[int, int],
    batch: tuple[int, int],
    by_provenance: dict[str, float],
    side: Side | None,
) -> tuple[RankProgram, RankProgram, RankProgram]:
    """The program with its operators' times for another batch: best estimate, low and high end.

    Args:
        side: What prices the processor; None: by work, with the overhead that the recording itself shows.
    """
    events = trace.events
    rows = events.rows_in(Category.OPERATOR)
    own = _own_seconds(trace, rows, parents)
    recorded, wanted = RecordedOperations(trace, parents), RecordedOperations(trace, parents, sizes)
    before = [recorded.at(row) for row in rows.tolist()]
    after = [wanted.at(row) for row in rows.tolist()]
    counts = _does_work(rows, parents, before)
    overhead = _overhead_seconds(own, [b is not None and b.is_free for b in before])
    if side is None:
        ratios = work_ratios(before, after, own, overhead, batch[1] / batch[0])
    else:
        ratios = price_ratios(before, after, side, side, batch[1] / batch[0])
    for seconds, is_counted, provenance in zip(own.tolist(), counts.tolist(), ratios.provenance, strict=True):
        key = provenance if is_counted else KEPT
        by_provenance[key] = by_provenance.get(key, 0.0) + seconds
    low, middle, high = (
        _with_units(trace, program, rows, np.where(counts, own * (r - 1), 0.0))
        for r in (ratios.low, ratios.ratio, ratios.high)
    )
    return middle, low, high


def _does_work(rows: Numbers, parents: Numbers, operations: Sequence[Operation | None]) -> Flags:
    """Which operators do work of their own: not those that allocate, or that leave it to one inside."""
    of_row = dict(zip(rows.tolist(), operations, strict=True))
    leaves = set[int]()
    for row, operation in of_row.items():
        around = int(parents[row]) if operation is not None and not operation.is_free else NONE
        while around != NONE:
            outer = of_row.get(around)
            if operation is not None and outer is not None and _work(operation) >= _MOST * _work(outer):
                leaves.add(around)
            around = int(parents[around])
    found = [o is not None and not o.is_free and row not in leaves for row, o in of_row.items()]
    return np.array(found, dtype=np.bool_)


def _work(operation: Operation) -> int:
    """Flops of what matrix units do, bytes of the rest; a product outweighs any copy."""
    return operation.executed_flops if operation.uses_matrix_units else operation.memory_traffic_bytes


def _own_seconds(trace: Trace, rows: Numbers, parents: Numbers) -> Floats:
    """Of each operator, without the operators inside it."""
    events = trace.events
    seconds = np.zeros(len(events))
    seconds[rows] = events.end_seconds[rows] - events.start_seconds[rows]
    inside = np.zeros(len(events))
    around = parents[rows]
    nested = around != NONE
    np.add.at(inside, around[nested], seconds[rows][nested])
    return np.asarray(np.maximum(seconds - inside, 0.0)[rows])


def _overhead_seconds(own: Floats, is_free: list[bool]) -> float:
    """What an operator takes that does nothing; 0 where none was recorded."""
    free = own[np.array(is_free, dtype=np.bool_)]
    return float(np.median(free)) if len(free) else 0.0


def _with_units(trace: Trace, program: RankProgram, rows: Numbers, more: Floats) -> RankProgram:
    """Each outermost operator's stretch longer by what its operators take more."""
    events = trace.events
    by_thread: dict[int, tuple[list[float], list[float]]] = {}
    for thread in np.unique(events.threads[rows]).tolist():
        chosen = events.threads[rows] == thread
        sums = np.concatenate([[0.0], np.cumsum(more[chosen])])
        by_thread[thread] = (events.start_seconds[rows[chosen]].tolist(), sums.tolist())
    seconds = []
    for piece in program.pieces:
        extra = 0.0
        if piece.row != NONE and piece.overhead is Overhead.INSIDE:
            starts, sums_of = by_thread.get(int(events.threads[piece.row]), ([], [0.0]))
            low = bisect_left(starts, float(events.start_seconds[piece.row]))
            high = bisect_left(starts, float(events.end_seconds[piece.row]))
            extra = sums_of[high] - sums_of[low]
        seconds.append(max(0.0, piece.seconds + extra))
    return program.with_piece_seconds(seconds)
