"""PyTorch's caching allocator, followed block by block.

Requests are served by the smallest free block of their stream and pool that is large enough; what it has over
becomes a free block, and free neighbours join again. Only when none fits is the driver asked for a segment.
When the driver has nothing left, cached segments that lie wholly free go back to it, and it is asked again.
Source: class DeviceCachingAllocator in c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.13.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace

from perfcast.memory_use.allocator import growing, rules
from perfcast.memory_use.allocator.blocks import Block, DeviceMemory, Entry, Pool
from perfcast.memory_use.allocator.settings import UNLIMITED_BYTES, AllocatorSettings


class CachingAllocator:
    """State of the allocator of one device.

    ``capacity_bytes`` is what the driver can give to this process, None for no limit; ``device_bytes`` the
    whole device, of which ``settings.memory_fraction`` and the threshold of garbage collection are parts.
    """

    def __init__(
        self, settings: AllocatorSettings, capacity_bytes: int | None = None, device_bytes: int | None = None
    ) -> None:
        capacity = UNLIMITED_BYTES if capacity_bytes is None else capacity_bytes
        device = capacity if device_bytes is None else device_bytes
        allowed = UNLIMITED_BYTES if device == UNLIMITED_BYTES else int(settings.memory_fraction * device)
        self.memory = DeviceMemory(capacity, allowed)
        self.allocated_bytes = self.inactive_split_bytes = self.num_retries = 0
        self._settings = settings
        self._small, self._large = Pool(is_small=True), Pool(is_small=False)
        self._waiting: defaultdict[int, list[tuple[Block, Pool]]] = defaultdict(list)
        self._done: list[tuple[Block, Pool]] = []

    def allocate(self, num_bytes: int, stream: int) -> Block | None:
        """A block of at least ``num_bytes`` (more than 0); None if the memory does not suffice."""
        if self._done:
            self._free_done()
        settings = self._settings
        size = rules.round_request(num_bytes, settings)
        pool = self._small if rules.is_small(size) else self._large
        pool.num_requests += 1
        block = self._find(pool, size, stream) or self._obtain(pool, size, stream)
        if block is None:
            return None
        was_part = block.is_part
        block.is_free = False
        if rules.is_split(block.size, size, pool.is_small, settings):
            rest, block = block, block.cut(size)
            block.is_free = False
            pool.add(rest)
            if not settings.expandable_segments:
                self.inactive_split_bytes += -size if was_part else rest.size
        elif was_part and not settings.expandable_segments:
            self.inactive_split_bytes -= block.size
        self.allocated_bytes += block.size
        return block

    def free(self, block: Block) -> None:
        """Give a block up; it returns to its pool when the other streams that use it are done with it."""
        self.allocated_bytes -= block.size
        pool = self._small if block.in_small_pool else self._large
        if not block.used_on:
            self._return(block, pool)
            return
        block.num_events = len(block.used_on)
        for stream in block.used_on:
            self._waiting[stream].append((block, pool))
        block.used_on = ()

    def record_stream(self, block: Block, stream: int) -> None:
        """Note that work on another stream uses the block."""
        if stream != block.stream:
            block.used_on = tuple(sorted({*block.used_on, stream}))

    def synchronize(self, stream: int | None) -> None:
        """The work on a stream (None: on all) has ended; the next request sees what that sets free."""
        for done in sorted(self._waiting) if stream is None else [stream]:
            self._done += self._waiting.pop(done, [])

    def release_cached(self) -> None:
        """Wait for all streams, then give back every segment, or granule of one, that lies wholly free."""
        self.synchronize(None)
        self._free_done()
        for pool in (self._large, self._small):
            for block in pool.every_free():
                if block.granule:
                    growing.shrink(pool, block, self.memory)
                elif not block.is_part:
                    self._release(pool, block)

    def state(self) -> tuple[object, ...]:
        """All that decides what comes next, but for the blocks in use and what garbage collection counts.

        Blocks in use fill what the free ones leave of the segments, whose addresses are never used twice.
        """
        pools = tuple(pool.state() for pool in (self._small, self._large))
        waiting = [(stream, [b.address for b, _ in some]) for stream, some in sorted(self._waiting.items())]
        counts = (self.allocated_bytes, self.inactive_split_bytes, self.num_retries)
        return (*counts, waiting, [b.address for b, _ in self._done], replace(self.memory), *pools)

    def _free_done(self) -> None:
        done, self._done = self._done, []
        for block, pool in done:
            block.num_events -= 1
            if block.num_events == 0:
                self._return(block, pool)

    def _return(self, block: Block, pool: Pool) -> None:
        joined = pool.join_neighbours(block)
        pool.add(block)
        if not block.granule:
            self.inactive_split_bytes += (block.size if block.is_part else 0) - joined

    def _find(self, pool: Pool, size: int, stream: int) -> Block | None:
        """The best fit among the free blocks, taken from its pool; None if there is none."""
        entries = pool.free(stream)
        index = bisect_left(entries, (size,))
        if index == len(entries):
            return None
        if self._settings.expandable_segments:
            index = _least_extensible(entries, index)
        block = entries[index][2]
        most_split = self._settings.most_split_bytes
        if size < most_split <= block.size:
            return None
        if size >= most_split and block.size >= size + self._settings.most_unsplit_excess_bytes:
            return None
        del entries[index]
        return block

    def _obtain(self, pool: Pool, size: int, stream: int) -> Block | None:
        """Memory from the driver, if need be after giving some back to it."""
        if self._settings.garbage_collection_threshold > 0.0:
            self._collect_garbage()
        block = self._new_segment(pool, size, stream)
        if block is None and self._release_oversize(pool, size, stream):
            block = self._new_segment(pool, size, stream)
        if block is None:
            self.release_cached()
            self.num_retries += 1
            block = self._new_segment(pool, size, stream)
        return block

    def _new_segment(self, pool: Pool, size: int, stream: int) -> Block | None:
        num_bytes = rules.segment_bytes(size, self._settings)
        if self.memory.reserved_bytes + num_bytes > self.memory.allowed_bytes:
            return None
        if self._settings.expandable_segments:
            granule = rules.SMALL_SEGMENT_BYTES if pool.is_small else self._settings.large_segment_bytes
            return growing.extend(pool, stream, size, granule, self.memory)
        if not self.memory.take(num_bytes):
            return None
        return Block(self.memory.new_addresses(num_bytes), num_bytes, stream, pool.is_small)

    def _release(self, pool: Pool, block: Block) -> None:
        pool.remove(block)
        self.memory.give_back(block.size)
        self.memory.num_segments -= 1

    def _release_oversize(self, pool: Pool, size: int, stream: int) -> bool:
        """Give back just enough segments too large to be split; whether that could make room."""
        most_split = self._settings.most_split_bytes
        if most_split == UNLIMITED_BYTES or self._settings.expandable_segments:
            return False
        wanted, released = max(size, most_split), 0
        entries = pool.free(stream)
        index = bisect_left(entries, (wanted,))
        if index < len(entries):
            self._release(pool, entries[index][2])
            return True
        while entries and released < wanted and entries[-1][0] >= most_split:
            released += entries[-1][0]
            self._release(pool, entries[-1][2])
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Give back large segments that lay free for longer than the average, until the threshold is met."""
        threshold = int(self._settings.garbage_collection_threshold * self.memory.allowed_bytes)
        excess = self.memory.reserved_bytes - threshold
        pool = self._large
        idle = [b for b in pool.every_free() if not b.is_part and not b.granule]
        while excess > 0 and idle:
            ages = [pool.num_requests - block.idle_since for block in idle]
            average, kept = sum(ages) / len(ages), []
            for block, age in zip(idle, ages, strict=True):
                if age < average:
                    kept.append(block)
                    continue
                excess -= block.size
                self._release(pool, block)
            idle = kept


def _least_extensible(entries: list[Entry], index: int) -> int:
    """From the best fit on, as long as the next block with what can be mapped behind it is smaller.

    A block at the end of a growing segment thus counts with all that it could become, and is spared.
    """
    size = _extensible_bytes(entries[index][2])
    while index + 1 < len(entries):
        following = _extensible_bytes(entries[index + 1][2])
        if following >= size:
            break
        index, size = index + 1, following
    return index


def _extensible_bytes(block: Block) -> int:
    following = block.next
    return block.size + (following.size if following is not None and not following.is_mapped else 0)
