"""Blocks, the pools in which free ones wait, and the device's memory that they were cut from."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

Entry = tuple[int, int, "Block"]


class Block:
    """A range of addresses inside one segment; neighbours are linked.

    Attributes:
        address, size: In bytes.
        previous, next: Neighbours in the segment; None at its ends.
        is_free: Whether it may be handed out or joined to a neighbour.
        is_mapped: Whether memory lies behind its addresses; false only in growing segments.
        in_small_pool: Which of the two pools it returns to.
        granule: Bytes by which its segment grows; 0 if it does not.
        segment_address: Where its segment begins.
        used_on: Other streams that were said to use it, in ascending order.
        num_events: Streams whose work must end before it is free.
        idle_since: Count of requests to the pool when it became free.
    """

    __slots__ = (
        "address", "granule", "idle_since", "in_small_pool", "is_free", "is_mapped", "next", "num_events",
        "previous", "segment_address", "size", "stream", "used_on",
    )  # fmt: skip

    def __init__(self, address: int, size: int, stream: int, in_small_pool: bool, granule: int = 0) -> None:
        self.address, self.size, self.stream = address, size, stream
        self.in_small_pool, self.granule, self.segment_address = in_small_pool, granule, address
        self.previous: Block | None = None
        self.next: Block | None = None
        self.is_free, self.is_mapped = True, True
        self.used_on: tuple[int, ...] = ()
        self.num_events = self.idle_since = 0

    @property
    def is_part(self) -> bool:
        """Whether its segment holds other blocks too."""
        return self.previous is not None or self.next is not None

    def cut(self, size: int) -> Block:
        """Make the first ``size`` bytes a block of their own, before this one; returns it."""
        front = Block(self.address, size, self.stream, self.in_small_pool, self.granule)
        front.segment_address, front.is_mapped = self.segment_address, self.is_mapped
        front.previous, front.next = self.previous, self
        if self.previous is not None:
            self.previous.next = front
        self.previous = front
        self.address += size
        self.size -= size
        return front


@dataclass
class Pool:
    """Free blocks of one kind, by stream: mapped ones by size, unmapped ones by address."""

    is_small: bool
    num_requests: int = 0
    _free: defaultdict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    _unmapped: defaultdict[int, list[tuple[int, Block]]] = field(default_factory=lambda: defaultdict(list))

    def free(self, stream: int) -> list[Entry]:
        """(size, address, block) of the free blocks of a stream, in that order."""
        return self._free[stream]

    def unmapped(self, stream: int) -> list[tuple[int, Block]]:
        """(address, block) of the address ranges of a stream without memory, in that order."""
        return self._unmapped[stream]

    def every_free(self) -> Iterator[Block]:
        """All free blocks, stream by stream; may be changed while they are read."""
        for stream in sorted(self._free):
            for _, _, block in tuple(self._free[stream]):
                yield block

    def state(self) -> tuple[object, ...]:
        """Sizes and addresses of its blocks by stream."""
        free = [(stream, *[entry[:2] for entry in self._free[stream]]) for stream in sorted(self._free)]
        ranges = [
            (stream, *[(address, block.size) for address, block in self._unmapped[stream]])
            for stream in sorted(self._unmapped)
        ]
        return tuple(free), tuple(ranges)

    def add(self, block: Block) -> None:
        """Put a block among the free ones."""
        block.is_free = True
        if block.is_mapped:
            block.idle_since = self.num_requests
            insort(self._free[block.stream], (block.size, block.address, block))
        else:
            insort(self._unmapped[block.stream], (block.address, block))

    def remove(self, block: Block) -> None:
        """Take a block from among the free ones."""
        block.is_free = False
        if block.is_mapped:
            entries = self._free[block.stream]
            del entries[bisect_left(entries, (block.size, block.address))]
        else:
            ranges = self._unmapped[block.stream]
            del ranges[bisect_left(ranges, (block.address,))]

    def join_neighbours(self, block: Block) -> int:
        """Join free neighbours of the same kind to a block that is not in the pool; returns their bytes."""
        before, after, joined = block.previous, block.next, 0
        if before is not None and before.is_free and before.is_mapped == block.is_mapped:
            self.remove(before)
            joined += before.size
            block.address = before.address
            block.previous = before.previous
            if block.previous is not None:
                block.previous.next = block
        if after is not None and after.is_free and after.is_mapped == block.is_mapped:
            self.remove(after)
            joined += after.size
            block.next = after.next
            if block.next is not None:
                block.next.previous = block
        block.size += joined
        return joined


@dataclass
class DeviceMemory:
    """What the driver has to give.

    ``allowed_bytes`` is PyTorch's own limit, ``capacity_bytes`` the driver's. Addresses are never used twice.
    """

    capacity_bytes: int
    allowed_bytes: int
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    num_segments: int = 0
    _next_address: int = 0

    def take(self, num_bytes: int) -> bool:
        """Reserve, if so much is left."""
        if self.reserved_bytes + num_bytes > self.capacity_bytes:
            return False
        self.reserved_bytes += num_bytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return True

    def give_back(self, num_bytes: int) -> None:
        """The opposite of ``take``."""
        self.reserved_bytes -= num_bytes

    def new_addresses(self, num_bytes: int) -> int:
        """Where a new segment of so many bytes begins."""
        address = self._next_address
        self._next_address += num_bytes
        self.num_segments += 1
        return address
