"""When calls happened: their own times, the host's time between them, and where their kernels ran."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.link.kernels import link_kernels, nest
from perfcast.traces.link.traces import TraceLink


@dataclass(frozen=True)
class HostTimes:
    """Starts and ends of nodes in seconds on the timeline's clock, and the starts of its steps.

    ``streams`` has the nodes all of whose kernels ran on one device stream other than the busiest one.
    """

    spans: Mapping[int, tuple[float, float]]
    step_starts: tuple[float, ...]
    streams: Mapping[int, int]

    def seconds(self, node_id: int) -> float:
        """How long a node lasted; NaN where the timeline does not have it."""
        start, end = self.spans.get(node_id, (math.nan, math.nan))
        return end - start

    def gaps(self, node_ids: Sequence[int]) -> Mapping[int, float]:
        """Seconds between the end of all calls before and the start of each; NaN where not known.

        Before the first call of all it is the time since its step began, where steps are marked.
        """
        gaps: dict[int, float] = {}
        last_end = math.nan
        for node_id in node_ids:
            start, end = self.spans.get(node_id, (math.nan, math.nan))
            if math.isnan(start):
                gaps[node_id] = math.nan
                continue
            before = last_end if not math.isnan(last_end) else self._step_start(start)
            gaps[node_id] = max(0.0, start - before)
            last_end = end if math.isnan(last_end) else max(last_end, end)
        return gaps

    def _step_start(self, start: float) -> float:
        return max((one for one in self.step_starts if one <= start), default=start)


def host_times(timeline: Trace, found: TraceLink) -> HostTimes:
    """The times of linked nodes."""
    events = timeline.events
    spans = {
        node_id: (float(events.start_seconds[row]), float(events.end_seconds[row]))
        for node_id, row in found.rows.items()
    }
    starts = tuple(step.start_seconds for step in timeline.steps)
    return HostTimes(spans, starts, _side_streams(timeline, found))


def _side_streams(timeline: Trace, found: TraceLink) -> dict[int, int]:
    """The stream of each node that launched kernels, itself or below it, on one other than the busiest."""
    events = timeline.events
    nesting = nest(events)
    links = link_kernels(events, nesting)
    streams = events.streams[links.rows]
    kernels = Counter(streams[events.is_in(Category.KERNEL)[links.rows]].tolist())
    if len(kernels) < 2:
        return {}
    busiest = kernels.most_common(1)[0][0]
    used: dict[int, set[int]] = {}
    for row, stream in zip(links.calls.tolist(), streams.tolist(), strict=True):
        while row != NONE:
            used.setdefault(row, set()).add(stream)
            row = int(nesting.parents[row])
    by_node = {node_id: used[row] for node_id, row in found.rows.items() if row in used}
    return {node_id: one for node_id, (one, *more) in by_node.items() if not more and one != busiest}
