"""Where the batch stands in a tensor, and what its sizes, strides and offset become with another batch.

A dimension that carries the batch holds outer · batch · inner elements; ``inner`` says where the batch
stands when the dimension is taken apart again. In memory, the batch then stands at stride · inner elements:
whatever lies further out moves by the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from perfcast.errors import InputError
from perfcast.replays.program.program import Slot

#: Dimensions that carry the batch → elements of the dimension inside one place of the batch.
Carried: TypeAlias = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class BatchChange:
    """From how many samples to how many."""

    recorded: int
    wanted: int

    @property
    def ratio(self) -> Fraction:
        """How many times as many."""
        return Fraction(self.wanted, self.recorded)

    def divides(self, size: int) -> bool:
        """Whether a size can be a number of samples, or of things of which each sample has as many."""
        return size > 0 and size % self.recorded == 0

    def scaled(self, size: int) -> int:
        """The size with the other batch.

        Raises:
            InputError: It would not be whole.
        """
        found = size * self.ratio
        if found.denominator != 1:
            raise InputError(f"{size} elements at batch {self.recorded} would be {found} at {self.wanted}")
        return found.numerator


def scaled_shape(shape: Sequence[int], carried: Carried, batch: BatchChange) -> tuple[int, ...]:
    """The sizes with the other batch."""
    return tuple(batch.scaled(size) if dim in carried else size for dim, size in enumerate(shape))


def scaled_slot(slot: Slot, carried: Carried, batch: BatchChange) -> Slot:
    """Sizes, strides and offset with the other batch; the filling is left as it is.

    Raises:
        InputError: They would not be whole.
    """
    from dataclasses import replace

    places = [slot.strides[dim] * inner for dim, inner in carried.items()]
    strides = tuple(_further_out(stride, places, batch) for stride in slot.strides)
    return replace(
        slot,
        shape=scaled_shape(slot.shape, carried, batch),
        strides=strides,
        offset_elements=_moved(slot.offset_elements, places, batch),
    )


def _further_out(stride: int, places: Sequence[int], batch: BatchChange) -> int:
    for place in places:
        if place and stride > place:
            stride = batch.scaled(stride)
    return stride


def _moved(offset: int, places: Sequence[int], batch: BatchChange) -> int:
    """An offset: what of it counts whole batches moves by the ratio."""
    for place in places:
        whole = place * batch.recorded
        if whole:
            offset = offset // whole * batch.scaled(whole) + offset % whole
    return offset


def carried_in_window(slot: Slot, base: Slot, carried: Carried, batch: BatchChange) -> dict[int, int]:
    """Which dimensions of a window carry the batch that another window onto the same memory carries."""
    found: dict[int, int] = {}
    for dim, inner in carried.items():
        place = base.strides[dim] * inner
        for own, (size, stride) in enumerate(zip(slot.shape, slot.strides, strict=True)):
            is_there = 0 < stride <= place and place * batch.recorded <= stride * size and place % stride == 0
            if is_there and batch.divides(size) and own not in found:
                found[own] = place // stride
                break
    return found


def carried_after_view(
    old: Sequence[int], carried: Carried, new: Sequence[int], batch: BatchChange
) -> dict[int, int]:
    """The same for a view that keeps the order of elements: from sizes ``old`` to sizes ``new``."""
    found: dict[int, int] = {}
    for dim, inner in carried.items():
        inside = math.prod(old[dim + 1 :]) * inner  # elements inside one place of the batch
        for own in reversed(range(len(new))):
            after = math.prod(new[own + 1 :])
            is_there = after <= inside and inside * batch.recorded <= after * new[own]
            if is_there and inside % max(after, 1) == 0 and batch.divides(new[own]):
                found[own] = inside // after
                break
    return found
