"""A program with another batch size.

What follows the batch is what ``traces/scaling`` says of the same calls, as it does for forecasts. Slots,
strides, offsets and literals then take their new sizes, and each call is checked by running it on tensors
without memory (``passes``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from perfcast.errors import InputError
from perfcast.replays.program.program import CallKind, Fill, ReplayCall, ReplayProgram, Slot, slots_in
from perfcast.replays.scale.calls import SlotKey, calls_of_program
from perfcast.replays.scale.layout import elements, reach_bytes
from perfcast.replays.scale.passes import Dims, ScalePass
from perfcast.traces.events import NONE
from perfcast.traces.scaling.extents import fixed
from perfcast.traces.scaling.recorded.calls import ScalingCall, tensors_in
from perfcast.traces.scaling.scaling import Scaling, scale


def scale_batch(program: ReplayProgram, recorded: int, wanted: int) -> ReplayProgram:
    """The program with ``wanted`` samples a step in place of ``recorded``.

    Raises:
        InputError: A batch below 1; nothing in the program has the recorded size; an operator whose sizes
            cannot be changed so, or would not be whole.
    """
    if recorded < 1 or wanted < 1:
        raise InputError(f"a batch of {recorded} to {wanted}: both are at least 1")
    if recorded == wanted:
        return program
    calls = calls_of_program(program)
    scaling = scale(calls, recorded, wanted, program.world_size)
    done = ScalePass(program, scaling, _dims_of_slots(program, calls, scaling))
    done.run()
    slots = done.slots
    if not any(_grows(old, new, recorded) for old, new in zip(program.slots, slots, strict=True)):
        raise _nothing_follows(program, scaling)
    return _assembled(program, done, scaling)


def _grows(old: Slot, new: Slot, recorded: int) -> bool:
    """Whether a size that may be a number of samples, or as many for each, follows the batch."""
    return any(a != b and a % recorded == 0 for a, b in zip(old.shape, new.shape, strict=True))


def _nothing_follows(program: ReplayProgram, scaling: Scaling) -> InputError:
    """Why nothing follows: no tensor has such rows, or the first call with them needs them as they are."""
    for call in program.calls if scaling.recorded > 1 else ():
        sizes = [program.slots[slot].shape for slot in slots_in(call.arguments)]
        if call.kind is CallKind.OPERATOR and any(scaling.recorded in shape for shape in sizes):
            return InputError(
                f"the batch cannot be changed from {scaling.recorded} to {scaling.wanted}: {call.name} (node "
                f"{call.node_id}) cannot be run with other sizes than the recorded ones"
            )
    return InputError(
        f"nothing in '{program.source}' has {scaling.recorded} rows; which batch size was it recorded with?"
    )


def _dims_of_slots(
    program: ReplayProgram, calls: Sequence[ScalingCall], scaling: Scaling
) -> dict[SlotKey, Dims]:
    """What the sizes of each slot are made of, as the first call that has it says."""
    found: dict[SlotKey, Dims] = {}
    followed = scaling.followed
    for call in calls:
        own = zip(tensors_in(call.arguments), followed.dims.get(call.place, ()), strict=False)
        made = zip(call.outputs or (), followed.outputs.get(call.place, ()), strict=False)
        for tensor, dims in (*own, *made):
            if tensor is not None and isinstance(tensor.key, SlotKey):  # sparse ones: sizes of parameters
                found.setdefault(tensor.key, dims if dims is not None else tuple(map(fixed, tensor.shape)))
    for index, slot in enumerate(program.slots):
        if SlotKey(slot.stands_for) in found:
            found[SlotKey(index)] = found[SlotKey(slot.stands_for)]
    return found


@dataclass(frozen=True, slots=True)
class _Extents:
    """Furthest byte of any slot of a buffer, before and after."""

    before: int = 0
    after: int = 0


def _assembled(program: ReplayProgram, done: ScalePass, scaling: Scaling) -> ReplayProgram:
    """The program with the calls of a pass, and slots and buffers of their new sizes."""
    slots: list[Slot] = []
    extents: dict[int, _Extents] = {}
    for slot, resized in zip(program.slots, done.slots, strict=True):
        new = _refilled(slot, resized, scaling)
        slots.append(new)
        known = extents.get(slot.buffer, _Extents())
        extents[slot.buffer] = _Extents(
            max(known.before, reach_bytes(slot)), max(known.after, reach_bytes(new))
        )
    buffers = tuple(
        replace(buffer, num_bytes=buffer.num_bytes - extents[i].before + extents[i].after)
        if i in extents
        else buffer
        for i, buffer in enumerate(program.buffers)
    )
    selection = {**program.selection, "batch": f"{scaling.recorded} scaled to {scaling.wanted}"}
    calls = tuple(_with_inner(call, program.slots, slots) for call in done.calls)
    return replace(
        program,
        calls=calls,
        slots=tuple(slots),
        buffers=buffers,
        selection=selection,
        assumed=(*program.assumed, *_assumed(calls, scaling)),
    )


def _assumed(calls: Sequence[ReplayCall], scaling: Scaling) -> Iterator[str]:
    """Sizes that nothing decides, in words; those of most calls first."""
    counts = Counter(variable for place in range(len(calls)) for variable in scaling.assumed(place))
    for variable, count in counts.most_common():
        origin = scaling.origin(variable)
        way = "follows" if scaling.followed.assumptions.follows(variable) else "does not follow"
        yield (
            f"assumed: {origin.what}, {origin.size}, {way} the batch "
            f"({scaling.recorded} to {scaling.wanted}; in {count} {'calls' if count > 1 else 'call'})"
        )


def _with_inner(call: ReplayCall, before: Sequence[Slot], after: Sequence[Slot]) -> ReplayCall:
    """What the operators below a call hold grows as the largest of its tensors does."""
    own = [slot for slot in (*slots_in(call.arguments), *call.outputs) if slot != NONE]
    if not call.inner_bytes or not own:
        return call
    largest = max(own, key=lambda slot: elements(before[slot].shape))
    ratio = Fraction(elements(after[largest].shape), max(elements(before[largest].shape), 1))
    return replace(call, inner_bytes=round(call.inner_bytes * ratio))


def _refilled(old: Slot, new: Slot, scaling: Scaling) -> Slot:
    """A filling whose numbers count elements counts as many as there are now.

    Raises:
        InputError: Recorded values, which are of the recorded batch.
    """
    filling = old.filling
    if filling is None or old.shape == new.shape:
        return new
    if filling.kind is Fill.RECORDED:
        raise InputError("recorded values are of the recorded batch; leave them out to change it")
    ratio = Fraction(scaling.wanted, scaling.recorded)
    if filling.kind is Fill.MASK:
        ratio = Fraction(elements(new.shape), max(elements(old.shape), 1))
    if filling.kind in (Fill.OFFSETS, Fill.MASK):
        return replace(new, filling=replace(filling, high=round(int(filling.high) * ratio)))
    return new
