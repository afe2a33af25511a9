"""What a step asks of the driver when the caching allocator holds nothing that is free.

So it is in a program that empties the cache before a step (``torch.cuda.empty_cache``), and nearly so in a
first step. A request stops the host for some hundred microseconds (``cost/host``); a step in steady state
makes none.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.memory_use.allocator.blocks import Block
from perfcast.memory_use.allocator.caching import CachingAllocator
from perfcast.memory_use.allocator.context import cublas_workspace_bytes
from perfcast.memory_use.allocator.events import Allocate, EmptyCache, Free, events_by_node
from perfcast.memory_use.allocator.settings import AllocatorSettings


def driver_requests(graph: Graph, device: Device) -> dict[int, tuple[int, ...]]:
    """Bytes of each request that a node makes of the driver in a step that begins with an empty cache.

    The step before has made what outlives it (the optimizer's state, workspaces of cuBLAS).
    """
    allocator, blocks = CachingAllocator(AllocatorSettings()), dict[int, Block]()
    first, second = events_by_node(graph, 2, cublas_workspace_bytes(device))
    found: defaultdict[int, list[int]] = defaultdict(list)
    is_measured = False
    for node, event in chain(first, [(-1, EmptyCache())], second):
        before = allocator.memory.reserved_bytes
        if isinstance(event, Allocate):
            block = allocator.allocate(event.num_bytes, event.stream)
            assert block is not None, "an allocator without a limit gives what is asked for"
            blocks[event.block] = block
        elif isinstance(event, Free):
            allocator.free(blocks.pop(event.block))
        else:
            allocator.release_cached()
            is_measured = True
        taken = allocator.memory.reserved_bytes - before
        if is_measured and node >= 0 and taken > 0:
            found[node].append(taken)
    return {node: tuple(sizes) for node, sizes in found.items()}
