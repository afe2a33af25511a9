"""Growing segments (``expandable_segments``): a long range of addresses, backed by memory where needed.

Memory is mapped in granules of 2 MiB (small pool) or 20 MiB (large pool) at the lowest addresses where a
request fits, and whole granules that lie free are unmapped when the device is full. Each segment has room
for the device's memory and an eighth, so that one per pool and stream suffices as a rule.
Source: class ExpandableSegment and its note in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from perfcast.memory_use.allocator.blocks import Block, DeviceMemory, Pool


def extend(pool: Pool, stream: int, size: int, granule: int, memory: DeviceMemory) -> Block | None:
    """A block of at least ``size`` bytes, in part newly mapped, out of the pool; None if memory is short."""
    start = _place(pool, stream, size, granule, memory)
    block = start if start.is_mapped else _map(pool, start, min(start.size, size), memory)
    while block is not None and block.size < size:
        following = block.next
        assert following is not None, "the place was chosen for its room"
        block = _map(pool, following, min(size - block.size, following.size), memory)
    if block is not None:
        pool.remove(block)
    return block


def shrink(pool: Pool, block: Block, memory: DeviceMemory) -> None:
    """Unmap the whole granules inside a free block; what is left on either side stays free."""
    begin = -(-(block.address - block.segment_address) // block.granule) * block.granule
    end = (block.address + block.size - block.segment_address) // block.granule * block.granule
    if begin >= end:
        return
    pool.remove(block)
    before = block.segment_address + begin - block.address
    if before > 0:
        pool.add(block.cut(before))
    if block.size > end - begin:
        unmapped = block.cut(end - begin)
        pool.add(block)
        block = unmapped
    block.is_mapped = False
    pool.join_neighbours(block)
    memory.give_back(end - begin)
    if block.is_part:
        pool.add(block)
    else:
        memory.num_segments -= 1


def _place(pool: Pool, stream: int, size: int, granule: int, memory: DeviceMemory) -> Block:
    """The lowest run of free and unmapped blocks with room, or a new segment."""
    for _, candidate in pool.unmapped(stream):
        before = candidate.previous
        start = before if before is not None and before.is_free else candidate
        if _has_room(start, size):
            return start
    room = memory.capacity_bytes + memory.capacity_bytes // 8
    length = -(-room // granule) * granule
    block = Block(memory.new_addresses(length), length, stream, pool.is_small, granule)
    block.is_mapped = False
    pool.add(block)
    return block


def _has_room(start: Block, size: int) -> bool:
    found = 0
    following: Block | None = start
    while found < size and following is not None and following.is_free:
        found += following.size
        following = following.next
    return found >= size


def _map(pool: Pool, block: Block, size: int, memory: DeviceMemory) -> Block | None:
    """Put memory behind the first granules of an unmapped block and join them to their free neighbours."""
    mapped = -(-size // block.granule) * block.granule
    if not memory.take(mapped):
        return None
    pool.remove(block)
    if mapped < block.size:
        rest, block = block, block.cut(mapped)
        pool.add(rest)
    block.is_mapped = True
    pool.join_neighbours(block)
    pool.add(block)
    return block
