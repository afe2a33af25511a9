"""A forecast as trace events, the JSON that Perfetto and chrome://tracing open.

Times in that format are microseconds; they are made here and go nowhere else. Every time is a multiple
of 1/1024 µs, so that a start plus a duration is exact in binary and neighbours touch without overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Graph, Node
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.units import MICRO

TICKS_PER_MICROSECOND = 1024
PROCESS, PHASES, MODULES, COMPUTE = 1, 1, 2, 3

Event = dict[str, Any]
Path = tuple[str, ...]


def forecast_to_trace_events(forecast: Forecast) -> dict[str, Any]:
    """The step as trace events: phases, nested modules, operations, and memory in bytes over time.

    Nodes run one after another in program order; nodes that take no time have no event.
    """
    graph = forecast.graph
    ends = [round(seconds / MICRO * TICKS_PER_MICROSECOND) for seconds in accumulate(forecast.node_seconds)]
    starts = [0, *ends[:-1]] if ends else []
    timed = [i for i, seconds in enumerate(forecast.node_seconds) if seconds > 0]
    events = [*_names(forecast)]
    phases = [(graph.nodes[i].phase.value,) for i in timed]
    modules = [_module_path(graph.nodes[i]) for i in timed]
    spans = [(starts[i], ends[i]) for i in timed]
    events += _nested(phases, spans, PHASES, hidden=0)
    events += _nested(modules, spans, MODULES, hidden=1)
    events += [_operation(graph, i, span) for i, span in zip(timed, spans, strict=True)]
    events += _memory(forecast.memory.timeline_bytes, starts)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": events,
        "otherData": {"model": forecast.model, "cost_model": forecast.cost_model, "dtype": forecast.dtype},
    }


def _names(forecast: Forecast) -> Iterator[Event]:
    yield _name("process_name", 0, forecast.device_title or forecast.device)
    for thread, title in ((PHASES, "phases"), (MODULES, "modules"), (COMPUTE, "compute stream")):
        yield _name("thread_name", thread, title)
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": PROCESS,
            "tid": thread,
            "args": {"sort_index": thread},
        }


def _name(what: str, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _complete(name: str, category: str, thread: int, start: int, end: int, args: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": PROCESS,
        "tid": thread,
        "ts": start / TICKS_PER_MICROSECOND,
        "dur": (end - start) / TICKS_PER_MICROSECOND,
        "args": args,
    }


def _operation(graph: Graph, index: int, span: tuple[int, int]) -> Event:
    node = graph.nodes[index]
    operation = graph.operations[node.operation]
    args = {
        "kind": operation.kind.value,
        "module": node.module,
        "phase": node.phase.value,
        "shapes": _shapes(operation),
        "flops": operation.flops,
        "memory_traffic_bytes": operation.memory_traffic_bytes,
        "node": index,
        "recomputed": node.recomputed,
    }
    return _complete(operation.name, operation.kind.value, COMPUTE, *span, args)


def _module_path(node: Node) -> Path:
    """Phase, then the parts of the module's path: a span never reaches across phases."""
    return (node.phase.value, *(node.module.split(".") if node.module else ()))


def _nested(paths: Sequence[Path], spans: Sequence[tuple[int, int]], thread: int, hidden: int) -> list[Event]:
    """One event per stretch of nodes that share a path's beginning, outer ones first.

    The first ``hidden`` parts of a path divide stretches but have no event.
    """
    events: list[tuple[int, int, Path, int]] = []
    opened: list[int] = []
    current: Path = ()
    end = 0
    for path, (start, stop) in [*zip(paths, spans, strict=True), ((), (0, 0))]:
        shared = _shared_length(current, path)
        while len(opened) > shared:
            events.append((opened.pop(), end, current[: len(opened) + 1], len(opened)))
        opened += [start] * (len(path) - shared)
        current, end = path, stop
    shown = [event for event in events if event[3] >= hidden]
    shown.sort(key=lambda event: (event[0], event[3]))
    category = "phase" if hidden == 0 else "module"
    return [
        _complete(_label(path[hidden:]), category, thread, start, stop, {category: ".".join(path[hidden:])})
        for start, stop, path, _ in shown
    ]


def _shared_length(a: Path, b: Path) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def _label(path: Path) -> str:
    """The last part; a bare number keeps the name before it (``h.0``)."""
    return ".".join(path[-2:]) if path[-1].isdigit() else path[-1]


def _shapes(operation: Operation) -> str:
    inputs = ", ".join(_type(type_) for type_ in operation.inputs)
    return f"{inputs} → {', '.join(_type(type_) for type_ in operation.outputs)}"


def _type(type_: TensorType) -> str:
    return f"{type_.dtype.label}[{','.join(map(str, type_.shape))}]"


def _memory(timeline_bytes: Sequence[int], starts: Sequence[int]) -> Iterator[Event]:
    """The counter where it changes. Of nodes that share an instant the largest counts: peaks stay."""
    largest: dict[int, int] = {}
    for num_bytes, start in zip(timeline_bytes, starts, strict=False):
        largest[start] = max(num_bytes, largest.get(start, 0))
    before = None
    for start, num_bytes in largest.items():
        if num_bytes != before:
            yield {
                "ph": "C",
                "name": "memory",
                "pid": PROCESS,
                "ts": start / TICKS_PER_MICROSECOND,
                "args": {"bytes": num_bytes},
            }
        before = num_bytes
