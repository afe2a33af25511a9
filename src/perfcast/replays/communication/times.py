"""When the collectives of a timeline were under way."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.events import NONE, Trace


def collective_spans(trace: Trace) -> Mapping[int, tuple[float, float]]:
    """Row of the operator that asked → start and end (seconds of the trace) of what carried it out.

    Kernels of a device, or gloo's range on a thread of its own; collectives of which no such work was
    recorded are left out.
    """
    events = trace.events
    spans = {}
    for part in recorded_collectives(trace):
        rows = list(part.work_rows)
        if part.host_row != NONE and rows:
            start, end = events.start_seconds[rows].min(), events.end_seconds[rows].max()
            spans[part.host_row] = (float(start), float(end))
    return spans
