"""Edges of a critical path on the device: launches, the order of streams, and synchronisations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcast.core.arrays import Integers
from perfcast.traces.critical_path.graph import EdgeKind, PathGraph, Window, nanoseconds
from perfcast.traces.events import CALL_CATEGORIES, NONE, Synchronization, Trace
from perfcast.traces.link.kernels import KernelLinks
from perfcast.traces.timeline.calls import CallKind, call_kind

#: A work that starts later than this after the one before it on its stream waited for something unseen.
MAX_GAP_NANOSECONDS = 1_500_000
#: Calls that count as launches when queues are measured.
LAUNCHES = frozenset(
    {
        "cudaMemsetAsync",
        "cudaMemcpyAsync",
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemcpyAsync",
        "hipMemsetAsync",
        "hipMemcpyWithStream",
    }
)


@dataclass
class _State:
    """What the walk over works and synchronisations knows.

    Attributes:
        queue_at_launch, queue_at_start: Works issued and not started on the stream, for each work.
        last: The end node of the last work on each stream.
        awaits: Of a work that a stream let wait, the work it waits for.
    """

    trace: Trace
    graph: PathGraph
    call_of: Mapping[int, int]
    call_starts: Mapping[int, int]
    queue_at_launch: Mapping[int, int]
    queue_at_start: Mapping[int, int]
    last: dict[int, int] = field(default_factory=dict)
    awaits: dict[int, int] = field(default_factory=dict)


def connect_device(trace: Trace, links: KernelLinks, window: Window, graph: PathGraph) -> None:
    """Add the device's edges, work by work in order of time; a synchronisation counts when it ends."""
    call_of = {row: call for row, call in links.call_of.items() if call != NONE}
    calls = sorted(set(call_of.values()))
    starts, _ = nanoseconds(trace.events, calls)
    call_starts = dict(zip(calls, starts, strict=True))
    at_launch, at_start = _queues(trace, call_of)
    state = _State(trace, graph, call_of, call_starts, at_launch, at_start)
    launches = _Launches.of(trace, call_of)
    synchronizations = {s.row: s for s in trace.synchronizations}
    for row in _in_order(trace, window, synchronizations):
        if row in synchronizations:
            _synchronize(state, launches, synchronizations[row])
        else:
            _connect_work(state, row)


def _in_order(trace: Trace, window: Window, synchronizations: Mapping[int, Synchronization]) -> list[int]:
    rows = list(window.device_rows)
    starts, _ = nanoseconds(trace.events, rows)
    _, ends = nanoseconds(trace.events, list(synchronizations))
    keyed = [*zip(starts, rows, strict=True), *zip(ends, synchronizations, strict=True)]
    return [row for _, row in sorted(keyed, key=lambda item: (item[0], trace.events.orders[item[1]]))]


def _queues(trace: Trace, call_of: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Length of its stream's queue when each work was launched, and when it started."""
    events = trace.events
    works = [row for row, call in call_of.items() if events.name(call) in LAUNCHES]
    moments: dict[int, list[tuple[int, int, int, int]]] = {}
    starts, _ = nanoseconds(events, works)
    calls, _ = nanoseconds(events, [call_of[row] for row in works])
    for row, start, call in zip(works, starts, calls, strict=True):
        stream = moments.setdefault(int(events.streams[row]), [])
        stream.append((call, 0, 1, row))
        stream.append((start, 1, -1, row))
    at_launch: dict[int, int] = {}
    at_start: dict[int, int] = {}
    for stream in moments.values():
        length = 0
        for _, is_start, change, row in sorted(stream):
            length += change
            (at_start if is_start else at_launch)[row] = length
    return at_launch, at_start


def _connect_work(state: _State, row: int) -> None:
    graph = state.graph
    if row not in graph.start_of:
        return
    start, end = graph.start_of[row], graph.end_of[row]
    graph.connect(start, end, EdgeKind.WORK, row)
    stream = int(state.trace.events.streams[row])
    call = state.call_of[row]
    awaited = graph.end_of.get(state.awaits.pop(row, NONE), NONE)
    if awaited != NONE:
        graph.connect(awaited, start, EdgeKind.SYNC)
    before, launched = state.last.get(stream, NONE), state.call_starts[call]
    was_idle = state.queue_at_launch.get(row, 0) == 1 and state.queue_at_start.get(row, 0) == 0
    is_after_before = before == NONE or graph.moments[before] < launched
    is_after_awaited = awaited == NONE or graph.moments[awaited] < launched
    if was_idle and is_after_before and is_after_awaited:
        if call in graph.start_of:
            graph.connect(graph.start_of[call], start, EdgeKind.LAUNCH)
    elif (
        before != NONE
        and graph.moments[start] - graph.moments[before] < MAX_GAP_NANOSECONDS
        and (awaited == NONE or graph.moments[awaited] < graph.moments[before])
    ):
        graph.connect(before, start, EdgeKind.STREAM_ORDER, graph.rows[before])
    state.last[stream] = end


@dataclass(frozen=True)
class _Launches:
    """Launching calls by stream, and by thread and stream, in order of time, with their works."""

    of_stream: Mapping[int, tuple[list[float], list[int]]]
    of_thread: Mapping[tuple[int, int], tuple[list[float], list[int]]]
    records: Mapping[int, float]
    calls: Mapping[int, int]

    @classmethod
    def of(cls, trace: Trace, call_of: Mapping[int, int]) -> _Launches:
        """All launches of a trace."""
        events = trace.events
        of_stream: dict[int, tuple[list[float], list[int]]] = {}
        of_thread: dict[tuple[int, int], tuple[list[float], list[int]]] = {}
        works = [row for row, call in call_of.items() if events.name(call) in LAUNCHES]
        for row in sorted(works, key=lambda work: call_of[work]):
            stream, thread = int(events.streams[row]), int(events.threads[call_of[row]])
            moment = float(events.start_seconds[call_of[row]])
            for times, rows in (
                of_stream.setdefault(stream, ([], [])),
                of_thread.setdefault((thread, stream), ([], [])),
            ):
                times.append(moment)
                rows.append(row)
        called: Integers = events.rows_in(*CALL_CATEGORIES)
        correlated = dict(zip(events.correlations[called].tolist(), called.tolist(), strict=True))
        records = {
            correlation: float(events.start_seconds[row])
            for correlation, row in correlated.items()
            if call_kind(events.name(row)) is CallKind.RECORD
        }
        return cls(of_stream, of_thread, records, correlated)


def _synchronize(state: _State, launches: _Launches, said: Synchronization) -> None:
    events = state.trace.events
    call = launches.calls.get(int(events.correlations[said.row]), NONE)
    if call == NONE:
        return
    if said.kind in ("Stream Sync", "Context Sync"):
        every = said.kind == "Context Sync"
        nodes = state.last.values() if every else [state.last.get(said.stream, NONE)]
        for node in nodes:
            if node != NONE and call in state.graph.end_of:
                state.graph.connect(node, state.graph.end_of[call], EdgeKind.SYNC)
        return
    source = _recorded_work(launches, said)
    if source == NONE:
        return
    if said.kind == "Event Sync":
        if source in state.graph.end_of and call in state.graph.end_of:
            state.graph.connect(state.graph.end_of[source], state.graph.end_of[call], EdgeKind.SYNC)
        return
    thread, moment = int(events.threads[call]), float(events.start_seconds[call])
    times, works = launches.of_thread.get((thread, said.stream), ([], []))
    place = bisect_right(times, moment)
    if place < len(works):
        state.awaits[works[place]] = source


def _recorded_work(launches: _Launches, said: Synchronization) -> int:
    """The last work issued to a stream before an event was recorded there, or -1."""
    moment = launches.records.get(said.wait_correlation)
    times, works = launches.of_stream.get(said.waits_for_stream, ([], []))
    place = bisect_left(times, moment) if moment is not None else 0
    return works[place - 1] if place else NONE
