"""PyTorch's caching allocator: what a program reserves of a device, beyond what it allocates."""

from perfcast.memory_use.allocator.context import (
    Overhead,
    communicator,
    cublas_workspace_bytes,
    driver_context,
)
from perfcast.memory_use.allocator.driver import driver_requests
from perfcast.memory_use.allocator.events import (
    Allocate,
    AllocatorEvent,
    EmptyCache,
    Free,
    RecordStream,
    Synchronize,
    allocation_events,
    events_by_node,
    uses_workspace,
)
from perfcast.memory_use.allocator.repeating import RepeatingEvents, simulate_repeating
from perfcast.memory_use.allocator.settings import AllocatorSettings, parse_allocator_settings
from perfcast.memory_use.allocator.simulate import (
    AllocatorTrace,
    OutOfMemory,
    simulate_allocator,
    simulate_graph,
)

__all__ = [
    "Allocate",
    "AllocatorEvent",
    "AllocatorSettings",
    "AllocatorTrace",
    "EmptyCache",
    "Free",
    "OutOfMemory",
    "Overhead",
    "RecordStream",
    "RepeatingEvents",
    "Synchronize",
    "allocation_events",
    "communicator",
    "cublas_workspace_bytes",
    "driver_context",
    "driver_requests",
    "events_by_node",
    "parse_allocator_settings",
    "simulate_allocator",
    "simulate_graph",
    "simulate_repeating",
    "uses_workspace",
]
