"""When the exchanges of a timeline were under way."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.traces.collectives.recorded import exchanges_of
from perfcast.traces.events import NONE, Trace


def exchange_spans(trace: Trace) -> Mapping[int, tuple[float, float]]:
    """Row of the operator that asked → start and end (seconds of the trace) of what carried it out.

    Kernels of a device, or gloo's range on a thread of its own; exchanges of which no such work was
    recorded are left out.
    """
    events = trace.events
    spans = {}
    for exchange in exchanges_of(trace):
        rows = list(exchange.work_rows)
        if exchange.host_row != NONE and rows:
            start, end = events.start_seconds[rows].min(), events.end_seconds[rows].max()
            spans[exchange.host_row] = (float(start), float(end))
    return spans
