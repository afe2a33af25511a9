"""What a trace file is and holds, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.events import DEVICE_CATEGORIES, Category, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace, tensors_in
from perfcast.traces.execution_trace.reader import read_execution_traces
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES, open_members
from perfcast.traces.files.json_stream import JsonStream
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.link.kernels import KernelLinks, link_kernels

TIMELINE, EXECUTION_TRACE = "timeline", "execution trace"
_KEYS = {"traceEvents": TIMELINE, "nodes": EXECUTION_TRACE}


@dataclass(frozen=True)
class TraceSummary:
    """One rank's file.

    ``schema`` is the format's own version. ``step_seconds`` are those of marked steps on the host.
    ``kernel_link_rate`` is the share of kernels, launched while recording, whose operator is known.
    Of an execution trace, ``num_storages`` counts lives and ``storage_bytes`` adds them up.
    """

    source: str
    kind: str
    schema: str
    platform: str
    devices: tuple[str, ...]
    rank: int | None
    world_size: int | None
    backend: str
    seconds: float
    step_seconds: tuple[float, ...]
    num_operators: int
    num_kernels: int
    num_collectives: int
    num_threads: int
    num_synchronizations: int = 0
    num_storages: int = 0
    storage_bytes: int = 0
    has_shapes: bool = False
    kernel_link_rate: float | None = None
    num_kernels_launched_before: int = 0
    warnings: tuple[str, ...] = ()


def kind_of(path: str | Path, max_bytes: int = DEFAULT_MAX_BYTES) -> str:
    """``TIMELINE`` or ``EXECUTION_TRACE``, by the first file in ``path``; only its start is read.

    Raises:
        TraceError: Neither.
    """
    for member in open_members(path, max_bytes):
        stream = JsonStream(member.blocks, member.name, frozenset(_KEYS))
        for batch in stream:
            if batch.key in _KEYS or not batch.key:
                return _KEYS.get(batch.key, TIMELINE)
        empty = next((_KEYS[key] for key in stream.header if key in _KEYS), None)
        if empty is not None:
            return empty
        keys = ", ".join(list(stream.header)[:5]) or "no keys"
        raise TraceError(
            f"'{member.name}' is neither a timeline nor an execution trace of PyTorch's profiler ({keys})"
        )
    raise TraceError(f"'{path}' holds no file")


def summarize(paths: Sequence[str | Path], max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[TraceSummary, ...]:
    """Summaries of all ranks in some files or archives of them, in their order.

    Raises:
        TraceError: One of them cannot be read.
    """
    found: list[TraceSummary] = []
    for path in paths:
        if kind_of(path, max_bytes) == TIMELINE:
            found += [of_timeline(trace) for trace in read_ranks([path], max_bytes=max_bytes)]
        else:
            traces = read_execution_traces([path], max_bytes=max_bytes)
            found += [of_execution_trace(trace) for trace in traces]
    return tuple(found)


def of_timeline(trace: Trace) -> TraceSummary:
    """What a timeline holds."""
    events = trace.events
    links: KernelLinks = link_kernels(events)
    names = sorted({device.name for device in trace.devices})
    return TraceSummary(
        source=trace.source,
        kind=TIMELINE,
        schema=str(trace.metadata.get("schemaVersion", "")),
        platform=trace.platform,
        devices=tuple(f"{sum(d.name == name for d in trace.devices)} × {name}" for name in names),
        rank=trace.rank,
        world_size=trace.world_size,
        backend=trace.backend,
        seconds=trace.end_seconds,
        step_seconds=tuple(step.seconds for step in trace.steps),
        num_operators=int(events.is_in(Category.OPERATOR).sum()),
        num_kernels=int(events.is_in(*DEVICE_CATEGORIES).sum()),
        num_collectives=len(recorded_collectives(trace, links)),
        num_threads=len({int(t) for t in events.threads[events.is_in(Category.OPERATOR)]}),
        num_synchronizations=len(trace.synchronizations),
        has_shapes=bool(events.inputs_table),
        kernel_link_rate=links.operator_rate if len(links.rows) else None,
        num_kernels_launched_before=int(links.is_earlier.sum()),
        warnings=trace.warnings,
    )


def of_execution_trace(trace: ExecutionTrace) -> TraceSummary:
    """What an execution trace holds; it has no time."""
    devices = {use.device for node in trace.nodes for use in tensors_in(node.inputs) if use.device}
    sizes = {group.size for group in trace.process_groups}
    return TraceSummary(
        source=trace.source,
        kind=EXECUTION_TRACE,
        schema=".".join(map(str, trace.version)),
        platform="cuda" if any(device.startswith("cuda") for device in devices) else "cpu",
        devices=tuple(sorted(devices)),
        rank=None,
        world_size=max(sizes) if sizes else None,
        backend=next((group.backend for group in trace.process_groups if group.backend), ""),
        seconds=0.0,
        step_seconds=(),
        num_operators=sum(node.is_operator for node in trace.nodes),
        num_kernels=sum(bool(node.kernel_backend) for node in trace.nodes),
        num_collectives=len(trace.collectives),
        num_threads=len({node.thread for node in trace.nodes if node.is_operator}),
        num_storages=len(trace.storages),
        storage_bytes=sum(storage.num_bytes for storage in trace.storages),
        has_shapes=True,
        warnings=trace.warnings,
    )
