"""What a step reserves of a GPU: its tensors through PyTorch's caching allocator, and the driver's context.

The first steps are followed without a limit. If what they reserve fits beside the context, so does the step.
If it does not, they are followed once more with the memory that there is: the allocator then gives cached
segments back before it fails, and the step may still run, only slower.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from perfcast.core.forecast.device import ReservedMemory
from perfcast.core.graph import Graph, Node
from perfcast.core.machine.hardware import Device
from perfcast.core.same import Same
from perfcast.core.tensor import Storage
from perfcast.memory_use.allocator import (
    AllocatorEvent,
    AllocatorSettings,
    AllocatorTrace,
    Overhead,
    RepeatingEvents,
    cublas_workspace_bytes,
    driver_context,
    events_by_node,
    parse_allocator_settings,
    simulate_allocator,
    simulate_repeating,
    uses_workspace,
)
from perfcast.memory_use.liveness import peak_bytes
from perfcast.memory_use.repeats import Repeats, find_repeats, fold

#: Vendors on whose devices PyTorch's caching allocator runs.
VENDORS = ("nvidia", "amd")
#: The first step makes the optimizer's state, the second reuses what the first left, the third is steady.
NUM_STEPS = 3
#: Equal micro-batches that are followed at first; twice as many where the allocator did not settle.
_FEWEST_KEPT = 5
#: They are left out by two, so that also two that repeat together are; where that does not settle by so many,
#: for three, four or six.
_LEFT_OUT_BY = 12


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
    followed = None if _depends_on_capacity(chosen) else _trace(asked, chosen, None, None)
    if followed is None or free_bytes < followed[0].peak_reserved_bytes:
        limited = _trace(asked, chosen, free_bytes, device.memory_bytes)
        if followed is None or limited[0].failure is None:
            followed = limited
    trace, starts = followed
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
def _repeats(asked: _Asked) -> Repeats | None:
    return find_repeats(asked.graph)


@lru_cache(maxsize=4)
def _events(asked: _Asked, num_kept: int | None) -> RepeatingEvents | None:
    """Requests of all steps with so many of the equal micro-batches (None: all); None if it cannot be."""
    graph, num_left_out = asked.graph, 0
    bounds: tuple[int, ...] = ()
    repeats = _repeats(asked)
    if num_kept is not None and repeats is not None:
        folded = fold(graph, repeats, num_kept)
        if folded is None:
            return None
        graph, num_left_out = folded, repeats.count - num_kept
        bounds = tuple(repeats.start + unit * repeats.length for unit in range(num_kept + 1))
    events: list[AllocatorEvent] = []
    starts, places = [], []
    for step in events_by_node(graph, NUM_STEPS, asked.workspace_bytes):
        starts.append(len(events))
        of_step = list(step)
        places.append(_places(bounds, [node for node, _ in of_step], len(events)))
        events.extend([event for _, event in of_step])
    return RepeatingEvents(tuple(events), tuple(starts), tuple(places), num_left_out)


def _places(bounds: tuple[int, ...], nodes: list[int], first_event: int) -> tuple[int, ...]:
    """The first event of each of these nodes or what follows it, before the step's last events (-1)."""
    num_last = next((i for i, node in enumerate(reversed(nodes)) if node >= 0), 0)
    num_first = next((i for i, node in enumerate(nodes) if node >= 0), len(nodes))
    inside = nodes[num_first : len(nodes) - num_last]
    return tuple(first_event + num_first + bisect_left(inside, bound) for bound in bounds)


@lru_cache(maxsize=16)
def _trace(
    asked: _Asked, settings: AllocatorSettings, capacity_bytes: int | None, device_bytes: int | None
) -> tuple[AllocatorTrace, tuple[int, ...]]:
    """What is held after each request, and at which of them each step begins."""
    repeats = _repeats(asked) if settings.garbage_collection_threshold == 0.0 else None
    for num_kept in _numbers_kept(repeats.count if repeats else 0):
        some = _events(asked, num_kept)
        found = simulate_repeating(some, settings, capacity_bytes, device_bytes) if some else None
        if found is not None:
            return found
    every = _events(asked, None)
    assert every is not None, "nothing is left out"
    trace = simulate_allocator(every.events, settings, capacity_bytes, device_bytes=device_bytes)
    return trace, every.step_starts


def _numbers_kept(count: int) -> Iterator[int]:
    """How many of so many equal micro-batches are followed at first, and where that does not settle."""
    num_kept = _FEWEST_KEPT
    if 2 * num_kept <= count:
        yield num_kept + (count - num_kept) % 2
    while 2 * num_kept <= count:
        num_left_out = count - num_kept
        num_kept += num_left_out % (_LEFT_OUT_BY if num_left_out >= _LEFT_OUT_BY else 2)
        yield num_kept
        num_kept *= 2


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
