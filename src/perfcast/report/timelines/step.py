"""The timeline of a step on one device: phases, nested modules, operations, and memory over time.

Nodes run one after another in program order; nodes that take no time have no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Graph, Node
from perfcast.core.operation import Operation
from perfcast.core.tensor import TensorType
from perfcast.report.timeline_events import Counter, Process, Slice, Thread, TimelineEvent, ticks

PROCESS, PHASES, MODULES, COMPUTE = 1, 1, 2, 3

Path = tuple[str, ...]


def about(forecast: Forecast) -> dict[str, str]:
    """What a viewer shows of the whole."""
    return {"model": forecast.model, "cost_model": forecast.cost_model, "dtype": forecast.dtype}


def events_of(forecast: Forecast) -> Iterator[TimelineEvent]:
    """The whole step."""
    graph = forecast.graph
    ends = list(accumulate(forecast.node_seconds))
    starts = [0.0, *ends[:-1]] if ends else []
    timed = [i for i, seconds in enumerate(forecast.node_seconds) if seconds > 0]
    yield Process(PROCESS, forecast.device_title or forecast.device)
    for thread, title in ((PHASES, "phases"), (MODULES, "modules"), (COMPUTE, "compute stream")):
        yield Thread(PROCESS, thread, title)
    phases = [(graph.nodes[i].phase.value,) for i in timed]
    modules = [_module_path(graph.nodes[i]) for i in timed]
    spans = [(starts[i], ends[i]) for i in timed]
    yield from _nested(phases, spans, PHASES, hidden=0)
    yield from _nested(modules, spans, MODULES, hidden=1)
    for i, span in zip(timed, spans, strict=True):
        yield _operation(graph, i, span)
    yield from _memory(forecast.memory.timeline_bytes, starts)


def _operation(graph: Graph, index: int, span: tuple[float, float]) -> Slice:
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
    return Slice(PROCESS, COMPUTE, *span, operation.name, operation.kind.value, args)


def _module_path(node: Node) -> Path:
    """Phase, then the parts of the module's path: a span never reaches across phases."""
    return (node.phase.value, *(node.module.split(".") if node.module else ()))


def _nested(
    paths: Sequence[Path], spans: Sequence[tuple[float, float]], thread: int, hidden: int
) -> list[Slice]:
    """One event per stretch of nodes that share a path's beginning, outer ones first.

    The first ``hidden`` parts of a path divide stretches but have no event.
    """
    events: list[tuple[float, float, Path, int]] = []
    opened: list[float] = []
    current: Path = ()
    end = 0.0
    for path, (start, stop) in [*zip(paths, spans, strict=True), ((), (0.0, 0.0))]:
        shared = _shared_length(current, path)
        while len(opened) > shared:
            events.append((opened.pop(), end, current[: len(opened) + 1], len(opened)))
        opened += [start] * (len(path) - shared)
        current, end = path, stop
    shown = [event for event in events if event[3] >= hidden]
    shown.sort(key=lambda event: (event[0], event[3]))
    category = "phase" if hidden == 0 else "module"
    return [
        Slice(
            PROCESS, thread, start, stop, _label(path[hidden:]), category, {category: ".".join(path[hidden:])}
        )
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


def _memory(timeline_bytes: Sequence[int], starts: Sequence[float]) -> Iterator[Counter]:
    """The counter where it changes. Of nodes that share an instant the largest counts: peaks stay."""
    largest: dict[int, tuple[float, int]] = {}
    for num_bytes, start in zip(timeline_bytes, starts, strict=False):
        first, most = largest.get(ticks(start), (start, num_bytes))
        largest[ticks(start)] = (first, max(num_bytes, most))
    before = None
    for start, num_bytes in largest.values():
        if num_bytes != before:
            yield Counter(PROCESS, start, "memory", {"bytes": num_bytes})
        before = num_bytes
