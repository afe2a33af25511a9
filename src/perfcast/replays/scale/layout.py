"""Windows onto memory at another batch: strides and offset of a slot whose sizes have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.replays.program.program import Slot
from perfcast.traces.scaling.blanks.run import dense_strides

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resized:
    """A slot as recorded, and as it is with the other batch."""

    old: Slot
    new: Slot


def own_memory(slot: Slot, shape: Shape) -> Slot:
    """A slot of another shape that has its memory to itself, or is the first that is known of it."""
    strides = dense_strides(slot.shape, shape, slot.strides)
    new = replace(slot, shape=shape, strides=strides)
    return replace(new, offset_elements=_moved(slot.offset_elements, slot, new))


def window(slot: Slot, shape: Shape, base: Resized) -> Slot:
    """A slot of another shape onto memory that another slot is a window onto as well."""
    if base.old == base.new and slot.shape == shape:
        return slot
    if base.old.dtype != slot.dtype:
        return own_memory(slot, shape)
    strides = tuple(_stride(stride, base) for stride in slot.strides)
    if slot.strides == dense_strides(slot.shape, slot.shape, None):
        strides = dense_strides(slot.shape, shape, slot.strides)
    beyond = slot.offset_elements - base.old.offset_elements
    if beyond < 0:
        offset = _moved(slot.offset_elements, base.old, base.new)
    else:
        offset = base.new.offset_elements + _moved(beyond, base.old, base.new)
    return replace(slot, shape=shape, strides=strides, offset_elements=offset)


def _places(old: Slot, new: Slot) -> list[tuple[int, int, int, int]]:
    """Strides before and after, and sizes, of the dims that lie in memory; the outermost first."""
    found = [
        one
        for one in zip(old.strides, new.strides, old.shape, new.shape, strict=True)
        if one[0] > 0 and one[2] > 1
    ]
    return sorted(found, reverse=True)


def _stride(stride: int, base: Resized) -> int:
    """A stride: as many of the base's as before."""
    for before, after, _, _ in _places(base.old, base.new):
        if before <= stride and stride % before == 0:
            return stride // before * after
    return stride


def _moved(offset: int, old: Slot, new: Slot) -> int:
    """An offset: the place in each dim keeps its share of the dim."""
    found = 0
    for before, after, size, wanted in _places(old, new):
        index, offset = divmod(offset, before)
        found += (index if size == wanted else index * wanted // size) * after
    return found + offset


def reach_bytes(slot: Slot) -> int:
    """The byte behind the last that a slot reaches; 0 of an empty one."""
    return slot.span_bytes[1] if slot.reach_elements else 0


def elements(shape: Sequence[int]) -> int:
    """How many a shape has."""
    found = 1
    for size in shape:
        found *= size
    return found
