"""What a step reserves of a GPU: its tensors through PyTorch's caching allocator, and the driver's context.

The first steps are followed without a limit. If what they reserve fits beside the context, so does the step.
If it does not, they are followed once more with the memory that there is: the allocator then gives cached
segments back before it fails, and the step may still run, only slower.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from perfcast.core.forecast.device import ReservedMemory
from perfcast.core.graph import Graph, Node
from perfcast.core.hardware import Device
from perfcast.core.same import Same
from perfcast.core.tensor import Storage
from perfcast.memory_use.allocator import (
    AllocatorEvent,
    AllocatorSettings,
    AllocatorTrace,
    Overhead,
    cublas_workspace_bytes,
    driver_context,
    events_by_node,
    parse_allocator_settings,
    simulate_allocator,
    uses_workspace,
)
from perfcast.memory_use.liveness import peak_bytes

#: Vendors on whose devices PyTorch's caching allocator runs.
VENDORS = ("nvidia", "amd")
#: The first step makes the optimizer's state, the second reuses what the first left, the third is steady.
NUM_STEPS = 3


def reserve_memory(graph: Graph, device: Device, settings: str = "") -> ReservedMemory | None:
    """Reserved memory of a graph's first steps; None on devices that have no caching allocator.

    Args:
        settings: As ``PYTORCH_CUDA_ALLOC_CONF`` writes them, such as ``'expandable_segments:True'``.

    Raises:
        InputError: Settings that PyTorch refuses.
    """
    if device.vendor not in VENDORS:
        return None
    chosen = parse_allocator_settings(settings)
    context = context_of(device)
    free_bytes = max(device.memory_bytes - context.num_bytes, 0)
    workspace_bytes = cublas_workspace_bytes(device)
    asked = _Asked.of(graph, workspace_bytes)
    _, starts = _events(asked)
    trace = None if _depends_on_capacity(chosen) else _trace(asked, chosen, None, None)
    if trace is None or free_bytes < trace.peak_reserved_bytes:
        limited = _trace(asked, chosen, free_bytes, device.memory_bytes)
        if trace is None or limited.failure is None:
            trace = limited
    fits = trace.failure is None and trace.peak_reserved_bytes <= free_bytes
    return _summary(trace, settings, starts, context, fits, peak_bytes(graph))


def context_of(device: Device) -> Overhead:
    """The driver's context; nothing where none was measured."""
    if device.vendor != "nvidia":
        return Overhead(0, 0, 0, ())
    return driver_context(device)


def _depends_on_capacity(settings: AllocatorSettings) -> bool:
    return settings.garbage_collection_threshold > 0.0 or settings.memory_fraction < 1.0


@dataclass(frozen=True)
class _Asked:
    """What decides the requests of a graph's steps: one captured graph asks alike on all devices."""

    nodes: Same[tuple[Node, ...]]
    storages: Same[tuple[Storage, ...]]
    uses_workspace: tuple[bool, ...]
    workspace_bytes: int
    graph: Graph = field(compare=False)

    @classmethod
    def of(cls, graph: Graph, workspace_bytes: int) -> _Asked:
        uses = tuple(uses_workspace(operation) for operation in graph.operations)
        return cls(Same(graph.nodes), Same(graph.storages), uses, workspace_bytes, graph)


@lru_cache(maxsize=4)
def _events(asked: _Asked) -> tuple[tuple[AllocatorEvent, ...], tuple[int, ...]]:
    """The requests of all steps, and at which of them each step begins."""
    events: list[AllocatorEvent] = []
    starts = []
    for step in events_by_node(asked.graph, NUM_STEPS, asked.workspace_bytes):
        starts.append(len(events))
        events.extend(event for _, event in step)
    return tuple(events), tuple(starts)


@lru_cache(maxsize=16)
def _trace(
    asked: _Asked, settings: AllocatorSettings, capacity_bytes: int | None, device_bytes: int | None
) -> AllocatorTrace:
    events, _ = _events(asked)
    return simulate_allocator(events, settings, capacity_bytes, device_bytes=device_bytes)


def _summary(
    trace: AllocatorTrace,
    settings: str,
    starts: tuple[int, ...],
    context: Overhead,
    fits: bool,
    least_bytes: int,
) -> ReservedMemory:
    """A trace that failed needs at least what it could not get, and all that the graph holds at once."""
    failure = trace.failure
    wanted = failure.reserved_bytes + failure.requested_bytes if failure else 0
    return ReservedMemory(
        settings=settings,
        allocated_bytes=tuple(trace.allocated_bytes.tolist()),
        reserved_bytes=tuple(trace.reserved_bytes.tolist()),
        step_starts=tuple(start for start in starts if start < len(trace.allocated_bytes)),
        peak_bytes=max(trace.peak_reserved_bytes, wanted, least_bytes if failure else 0),
        fragmentation=trace.fragmentation_at_peak,
        context_bytes=context.num_bytes,
        context_low_bytes=context.low_bytes,
        context_high_bytes=context.high_bytes,
        num_retries=trace.num_retries,
        fits=fits,
    )
