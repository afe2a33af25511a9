"""A program played by another number of ranks: groups, splits and sizes recomputed.

Operators keep their shapes; what a rank exchanges changes with the number of partners:

* an all-gather receives, a reduce-scatter sends, a gather or scatter moves at its root: ranks × the part,
* an all-to-all sends each partner what it sent it: splits of fewer ranks are the first ones, those of more
  ranks repeat in turn, and sizes are their sums,
* all-reduce, broadcast and reduce are what they were.

A collective whose tensors grow or shrink works on windows of the same memory where that may grow, and on
memory of its own where an operator made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from perfcast.errors import TraceError
from perfcast.replays.communication.groups import GroupKey, collectives_in, group_of
from perfcast.replays.communication.shapes import shape_of
from perfcast.replays.program.program import (
    Argument,
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    ReplayProgram,
    Slot,
    SlotUse,
    slots_in,
)
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE, Collective

#: More ranks than this are no machine.
MOST_RANKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of each tensor received and sent, and their splits; empty splits are even ones."""

    received: tuple[int, ...]
    sent: tuple[int, ...]
    received_splits: tuple[int, ...] = ()
    sent_splits: tuple[int, ...] = ()


def scaled(program: ReplayProgram, world_size: int, rank: int) -> ReplayProgram:
    """The program as ``rank`` of ``world_size`` would run it.

    Raises:
        TraceError: An impossible number of ranks.
    """
    if not 0 <= rank < world_size <= MOST_RANKS:
        raise TraceError(f"rank {rank} of {world_size} ranks cannot replay")
    if (world_size, rank) == (program.world_size, program.rank):
        return program
    changes: dict[int, tuple[Collective, Sizes]] = {}
    for index, call in enumerate(program.calls):
        if call.kind is not CallKind.COLLECTIVE or call.collective is None:
            continue
        before = group_of(call.collective, program.groups, program.world_size)
        ranks = scaled_ranks(before.ranks, program.world_size, world_size, rank)
        sizes = _sizes(program, call, len(before.ranks), len(ranks))
        changes[index] = (_as_asked(call.collective, before, ranks), sizes)
    groups = tuple(
        replace(
            group,
            ranks=scaled_ranks(
                group.ranks or tuple(range(program.world_size)), program.world_size, world_size, rank
            ),
        )
        for group in program.groups
    )
    program = replace(program, world_size=world_size, rank=rank, groups=groups)
    return resized(program, changes)


def scaled_ranks(ranks: Sequence[int], before: int, after: int, rank: int) -> tuple[int, ...]:
    """A group of ``before`` ranks as the group that ``rank`` is in among ``after``.

    A group of all stays one of all. Ranks at even distances (data or tensor parallel groups) are an axis of
    a mesh: the group is that of ``rank`` along this axis, as far as there are ranks. Of others, those that
    are there remain. A rank's group of its own stays its own.
    """
    if len(ranks) == 1 < before:
        return (rank,)
    if len(ranks) == before:
        return tuple(range(after))
    distances = {second - first for first, second in pairwise(ranks)}
    if len(distances) == 1 and (distance := distances.pop()) > 0:
        block = distance * len(ranks)
        first = rank // block * block + rank % distance
        return tuple(one for one in range(first, first + block, distance) if one < after)
    return tuple(one for one in ranks if one < after) or (rank,)


def _as_asked(collective: Collective, before: GroupKey, ranks: tuple[int, ...]) -> Collective:
    return replace(collective, group=before.name, group_size=len(ranks), ranks=ranks)


def _sizes(program: ReplayProgram, call: ReplayCall, before: int, after: int) -> Sizes:
    """What a collective moves in a group of another size."""
    assert call.collective is not None
    shape, name = shape_of(program, call), canonical_name(call.collective.name)
    received, sent = shape.received, shape.sent
    if name == "all_gather":
        return Sizes(_of_all(received, sent, after), sent)
    if name == "reduce_scatter":
        return Sizes(received, _of_all(sent, received, after))
    if name == "all_to_all":
        into, into_splits = _of_partners(received, shape.received_splits, before, after)
        source, source_splits = _of_partners(sent, shape.sent_splits, before, after)
        return Sizes(into, source, into_splits, source_splits)
    if name == "gather_to_root" and len(received) == before:
        return Sizes(_in_turn(received, after), sent)
    if name == "scatter_from_root" and len(sent) == before:
        return Sizes(received, _in_turn(sent, after))
    return Sizes(received, sent)


def _of_all(whole: tuple[int, ...], parts: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Sizes of what holds every rank's part: one tensor a part, or one a part and rank."""
    if len(whole) == len(parts):
        return tuple(part * size for part in parts)
    return tuple(part for part in parts for _ in range(size))


def _of_partners(
    elements: tuple[int, ...], splits: tuple[int, ...], before: int, after: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements and splits of one side of an all-to-all among another number of partners."""
    if len(elements) == before > 1:
        return _in_turn(elements, after), ()
    total = sum(elements)
    if len(splits) != before:
        return (total // before * after,), ()
    unit = total // max(sum(splits), 1)
    parts = _in_turn(tuple(split * unit for split in splits), after)
    return (sum(parts),), parts


def _in_turn(parts: tuple[int, ...], count: int) -> tuple[int, ...]:
    return tuple(parts[place % len(parts)] for place in range(count))


def splits_sent(program: ReplayProgram) -> list[tuple[GroupKey, tuple[int, ...]]]:
    """Group of each all-to-all, in order, and the elements that this rank sends to each of its ranks."""
    found = []
    for _, call, collective in collectives_in(program):
        if canonical_name(collective.name) == "all_to_all":
            key = group_of(collective, program.groups, program.world_size)
            found.append((key, _parts_sent(program, call, len(key.ranks))))
    return found


def _parts_sent(program: ReplayProgram, call: ReplayCall, size: int) -> tuple[int, ...]:
    shape = shape_of(program, call)
    if len(shape.sent) == size > 1:
        return shape.sent
    total, splits = sum(shape.sent), shape.sent_splits
    if len(splits) != size:
        return (total // size,) * size
    unit = total // max(sum(splits), 1)
    return tuple(split * unit for split in splits)


def with_splits(
    program: ReplayProgram,
    sent: Mapping[int, Sequence[tuple[GroupKey, tuple[int, ...]]]],
    *,
    is_rebalanced: bool = False,
) -> ReplayProgram:
    """The program receiving in each all-to-all what the others send.

    Needed where one trace is played by several ranks, whose uneven splits do not fit together.

    Args:
        sent: Of every rank, what ``splits_sent`` says.
        is_rebalanced: Every rank sends and receives the same: what all send together, rounded up to a
            multiple of ranks², shared evenly.

    Raises:
        TraceError: Ranks with other numbers of all-to-alls in one group.
    """
    places: dict[GroupKey, int] = {}
    changes: dict[int, tuple[Collective, Sizes]] = {}
    for index, call, collective in collectives_in(program):
        if canonical_name(collective.name) != "all_to_all":
            continue
        key = group_of(collective, program.groups, program.world_size)
        place = places.get(key, 0)
        places[key] = place + 1
        every = [_nth(sent.get(member, ()), key, place, member) for member in key.ranks]
        mine = key.ranks.index(program.rank)
        if is_rebalanced:
            size = len(key.ranks)
            part = -(-sum(map(sum, every)) // size**2)
            into = source = (part,) * size
        else:
            into, source = tuple(parts[mine] for parts in every), every[mine]
        is_list = len(shape_of(program, call).sent) > 1
        sizes = Sizes(into, source) if is_list else Sizes((sum(into),), (sum(source),), into, source)
        changes[index] = (collective, sizes)
    return resized(program, changes)


def _nth(
    mine: Sequence[tuple[GroupKey, tuple[int, ...]]], key: GroupKey, place: int, rank: int
) -> tuple[int, ...]:
    of_group = [parts for group, parts in mine if group == key]
    if place >= len(of_group):
        raise TraceError(f"rank {rank} has {len(of_group)} all-to-alls in its group, others have more")
    return of_group[place]


def resized(program: ReplayProgram, changes: Mapping[int, tuple[Collective, Sizes]]) -> ReplayProgram:
    """The program with other sizes of some collectives (by index of the call)."""
    memory = _Memory(program)
    calls = list(program.calls)
    for index, (collective, sizes) in changes.items():
        call = calls[index]
        is_flat = bool(sizes.sent_splits or sizes.received_splits)
        received = memory.windows(index, call.arguments[0], sizes.received, is_flat=is_flat)
        is_in_place = call.arguments[0] == call.arguments[1]
        sent = received
        if not is_in_place:
            sent = memory.windows(index, call.arguments[1], sizes.sent, is_flat=is_flat)
        calls[index] = replace(
            call,
            arguments=(received, sent, *call.arguments[2:]),
            collective=replace(
                collective,
                in_elements=sum(sizes.sent),
                out_elements=sum(sizes.received),
                in_splits=sizes.sent_splits,
                out_splits=sizes.received_splits,
            ),
        )
    return replace(program, calls=tuple(calls), slots=tuple(memory.slots), buffers=tuple(memory.buffers))


class _Memory:
    """Slots and buffers while windows of other sizes are added."""

    def __init__(self, program: ReplayProgram) -> None:
        self.slots, self.buffers = list(program.slots), list(program.buffers)
        self._waits = {c.waits_for: i for i, c in enumerate(program.calls) if c.kind is CallKind.WAIT}

    def windows(
        self, index: int, argument: Argument, elements: tuple[int, ...], *, is_flat: bool
    ) -> Argument:
        """Tensors of these sizes in place of the argument's; ``is_flat``: splits count their elements."""
        before = list(slots_in((argument,)))
        if not before:
            return argument
        found = []
        for place, count in enumerate(elements):
            slot, is_more = before[place % len(before)], place >= len(before)
            shape = self.slots[slot].shape
            is_kept = prod(shape) == count and not is_more and (len(shape) == 1 or not is_flat)
            found.append(SlotUse(slot if is_kept else self._window(index, slot, count, is_more=is_more)))
        return tuple(found)

    def _window(self, index: int, slot: int, count: int, *, is_more: bool) -> int:
        old = self.slots[slot]
        width = dtype_bytes(old.dtype)
        end_bytes = (old.offset_elements + count) * width
        buffer = self.buffers[old.buffer]
        fits = end_bytes <= buffer.num_bytes or buffer.is_given
        if is_more or not fits:
            return self._own(index, old, count)
        self.buffers[old.buffer] = replace(buffer, num_bytes=max(buffer.num_bytes, end_bytes))
        return self._add(replace(old, shape=(count,), strides=(1,), maker=NONE, filling=self._filling(old)))

    def _filling(self, old: Slot) -> Filling | None:
        return old.filling if self.buffers[old.buffer].is_given else None

    def _own(self, index: int, old: Slot, count: int) -> int:
        """A window of memory that only this collective uses."""
        self.buffers.append(
            Buffer(count * dtype_bytes(old.dtype), old.device, NONE, index, self._waits.get(index, index))
        )
        filling = Filling(Fill.ZEROS, reason="a part for a rank that was not recorded")
        number = len(self.buffers) - 1
        return self._add(Slot(number, old.dtype, 0, (count,), (1,), old.device, NONE, filling))

    def _add(self, slot: Slot) -> int:
        if slot in self.slots:
            return self.slots.index(slot)
        self.slots.append(slot)
        return len(self.slots) - 1
