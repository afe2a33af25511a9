"""Operators that a processor ran itself, on another processor."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.traces.events import Category, Trace
from perfcast.traces.forecast.host.operators import does_work
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import Side, price_ratios, sum_by_provenance
from perfcast.traces.forecast.recording_cost import RecordingCost, own_without_cost, sums_within_pieces
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.timeline.program import RankProgram


def on_other_processor(
    trace: Trace, program: RankProgram, parents: Integers, cost: RecordingCost, sides: tuple[Side, Side]
) -> Variant:
    """The program with each operator's own time by the ratio of its prices; the rest stays as recorded."""
    events = trace.events
    rows = events.rows_in(Category.OPERATOR)
    own = own_without_cost(events, parents, cost)[rows]
    recorded = RecordedOperations(trace, parents)
    operations = [recorded.at(row) for row in rows.tolist()]
    counts = does_work(rows, parents, operations)
    ratios = price_ratios(operations, operations, *sides)

    def scaled(ratio: Floats) -> RankProgram:
        more = sums_within_pieces(trace, program, rows, np.where(counts, own * (ratio - 1), 0.0))
        seconds = (max(0.0, p.seconds + extra) for p, extra in zip(program.pieces, more, strict=True))
        return program.with_piece_seconds(list(seconds))

    sums = sum_by_provenance(ratios.provenance_where(counts), own.tolist())
    return Variant(scaled(ratios.ratio), scaled(ratios.low), scaled(ratios.high), sums)
