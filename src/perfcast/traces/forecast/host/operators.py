"""Operators that a processor ran itself, with other sizes.

Each outermost operator is a stretch of the host. Its operators inside scale by their own work; what they
leave of it, dispatch and Python, stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.operation import Operation
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.forecast.batch import BatchChange
from perfcast.traces.forecast.host.same_processor import call_seconds, work_ratios
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import (
    BOUNDED,
    UNRESOLVED,
    Ratios,
    Side,
    price_ratios,
    sum_by_provenance,
)
from perfcast.traces.forecast.recording_cost import RecordingCost, own_without_cost, sums_within_pieces
from perfcast.traces.forecast.unresolved import unresolved_sizes, widened
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.marks import GLOO
from perfcast.traces.timeline.program import RankProgram

#: An operator inside that does this share of the work of the one around it does all of it.
_MOST = 0.5


def runs_on_host(program: RankProgram) -> bool:
    """Whether all that a program does is its host's, collectives of the host's own threads among it."""
    return all(work.name.startswith(GLOO) for work in program.works)


def reprice_host(
    trace: Trace,
    program: RankProgram,
    parents: Integers,
    change: BatchChange,
    cost: RecordingCost,
    side: Side | None,
) -> Variant:
    """The program with its operators' times for another batch.

    Args:
        side: What prices the processor; None: by work (``same_processor``).
    """
    events = trace.events
    rows = events.rows_in(Category.OPERATOR)
    own = own_without_cost(events, parents, cost)[rows]
    recorded, wanted = (
        RecordedOperations(trace, parents),
        RecordedOperations(trace, parents, change.inputs_of),
    )
    before = [recorded.at(row) for row in rows.tolist()]
    after = [wanted.at(row) for row in rows.tolist()]
    counts = does_work(rows, parents, before)
    bounded, default = _without_rule(trace, rows, parents, counts, before, change)
    before = [None if is_bounded else b for is_bounded, b in zip(bounded.tolist(), before, strict=True)]
    known = [b if is_counted else None for is_counted, b in zip(counts.tolist(), before, strict=True)]
    call = call_seconds(known, own, [b is not None and b.is_free for b in before])

    def ratios_of(wanted: Sequence[Operation | None]) -> Ratios:
        if side is None:
            return work_ratios(known, wanted, own, beyond_call(own, call, default))
        return price_ratios(before, wanted, side, side, change.ratio)

    ratios = _with_bounds(ratios_of(after), bounded, beyond_call(own, call, default))
    scales = counts | bounded
    ratios = widened(change, rows.tolist(), RecordedOperations.at, recorded, ratios, ratios_of)
    program = _with_collectives(trace, program, change)

    def scaled(ratio: Floats) -> RankProgram:
        return _with_units(trace, program, rows, np.where(scales, own * (ratio - 1), 0.0))

    provenance = ratios.provenance_where(scales)
    return Variant(
        scaled(ratios.ratio),
        scaled(ratios.low),
        scaled(ratios.high),
        sum_by_provenance(provenance, own.tolist()),
        unresolved_sizes(
            change,
            [row for row, word in zip(rows.tolist(), provenance, strict=True) if word == UNRESOLVED],
            [seconds for seconds, word in zip(own.tolist(), provenance, strict=True) if word == UNRESOLVED],
            len(program.steps),
        ),
    )


def _with_collectives(trace: Trace, program: RankProgram, change: BatchChange) -> RankProgram:
    """Collectives grow with what they were given, beyond the time of the fastest one."""
    if not program.works:
        return program
    least = min(work.seconds for work in program.works)
    seconds = []
    for work in program.works:
        growth = change.bytes_ratio(work.operator) if work.operator != NONE else 1.0
        seconds.append(least + (work.seconds - least) * growth)
    return program.with_work_seconds(seconds)


def _without_rule(
    trace: Trace,
    rows: Integers,
    parents: Integers,
    counts: Flags,
    operations: Sequence[Operation | None],
    change: BatchChange,
) -> tuple[Flags, Floats]:
    """Operators that follow what they are given, and how many times more that is.

    Those that no rule knows and inside which nothing does work, and those that add sparse gradients.
    """
    events = trace.events
    around = set[int]()
    for row in rows[counts].tolist():
        outer = int(parents[row])
        while outer != NONE and outer not in around:
            around.add(outer)
            outer = int(parents[outer])
    bounded, growth = np.zeros(len(rows), dtype=np.bool_), np.ones(len(rows))
    is_leaf = np.ones(len(events), dtype=np.bool_)
    is_leaf[parents[rows[parents[rows] != NONE]]] = False
    for index, row in enumerate(rows.tolist()):
        more = change.growth_without_shapes(row)
        if more is not None and is_leaf[row]:
            bounded[index], growth[index] = True, more
        if events.inputs_of(row) is None or row in around:
            continue
        if operations[index] is None or change.is_sparse(row):
            bounded[index], growth[index] = True, change.bytes_ratio(row)
    return bounded, growth


def beyond_call(own: Floats, call: float, growth: Floats) -> Floats:
    """Ratios of operators whose time beyond a call follows what they are given."""
    beyond = np.maximum(own - call, 0.0) / np.where(own > 0, own, 1.0)
    return np.asarray(1 + beyond * (growth - 1))


def _with_bounds(ratios: Ratios, bounded: Flags, given: Floats) -> Ratios:
    """The ratios, those of operators without a rule by what they are given."""
    ratio = np.where(bounded, given, ratios.ratio)
    spread = np.abs(ratio - 1) / 2
    low, high = (np.where(bounded, ratio + s, r) for s, r in ((-spread, ratios.low), (spread, ratios.high)))
    provenance = [
        BOUNDED if is_bounded else p
        for is_bounded, p in zip(bounded.tolist(), ratios.provenance, strict=True)
    ]
    return Ratios(ratio, low, high, tuple(provenance))


def does_work(rows: Integers, parents: Integers, operations: Sequence[Operation | None]) -> Flags:
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


def _with_units(trace: Trace, program: RankProgram, rows: Integers, more: Floats) -> RankProgram:
    """Each outermost operator's stretch longer by what its operators take more."""
    extra = sums_within_pieces(trace, program, rows, more)
    seconds = (max(0.0, piece.seconds + own) for piece, own in zip(program.pieces, extra, strict=True))
    return program.with_piece_seconds(list(seconds))
