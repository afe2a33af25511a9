"""A program with another batch size: which dimensions carry the batch is found by following it.

It starts from what is given (whole numbers, and fractions that no call writes and no operator calls a
weight, with as many rows as the batch) and from the sizes of tensors made out of nothing. Each call is then
run on tensors without memory (PyTorch's ``meta`` device): what comes out has to have, in every dimension,
the recorded size or that size times the ratio. Where a call cannot be run so, the nearest assumption about
a start is turned round; where that does not help, the call is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from perfcast.errors import InputError
from perfcast.replays.program.program import CallKind, Fill, ReplayCall, ReplayProgram, Slot, slots_in
from perfcast.replays.program.schema_text import parse_schema
from perfcast.replays.scale.layout import BatchChange, scaled_slot
from perfcast.replays.scale.literals import EXPANDS, Place, is_factory, number_at, size_places
from perfcast.replays.scale.passes import Failure, ScalePass, Seed
from perfcast.traces.events import NONE

#: Assumptions turned round at most, over the whole program.
_MOST_PASSES = 80
#: Names of arguments that are parameters, whatever their sizes.
_PARAMETERS = frozenset({"weight", "bias", "running_mean", "running_var", "normalized_shape"})
Seeds: TypeAlias = "frozenset[Seed]"


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
    batch = BatchChange(recorded, wanted)
    seeds, every = _first_seeds(program, batch)
    if not seeds:
        raise InputError(
            f"nothing in '{program.source}' has {recorded} rows; which batch size was it recorded with?"
        )
    done = _search(program, batch, seeds, every)
    return _assembled(program, done, batch)


def _search(program: ReplayProgram, batch: BatchChange, seeds: Seeds, every: Seeds) -> ScalePass:
    """A pass that goes through, from the first assumptions or from some turned round."""
    one = ScalePass(program, batch, seeds)
    failure = first = one.run()
    passes = 1
    while failure is not None:
        for seed in _nearest(program, failure, every):
            other = ScalePass(program, batch, one.seeds ^ {seed})
            further = other.run()
            passes += 1
            if further is None or further.call > failure.call:
                one, failure = other, further
                break
            if passes >= _MOST_PASSES:
                raise _refusal(program, failure, batch)
        else:
            raise _refusal(program, failure, batch)
    if first is not None and not any(one.carried.values()):
        raise _refusal(program, first, batch)
    return one


def _refusal(program: ReplayProgram, failure: Failure, batch: BatchChange) -> InputError:
    call = program.calls[failure.call]
    return InputError(
        f"the batch cannot be changed from {batch.recorded} to {batch.wanted}: {call.name} (node "
        f"{call.node_id}) {failure.reason}"
    )


def _first_seeds(program: ReplayProgram, batch: BatchChange) -> tuple[Seeds, Seeds]:
    """What is assumed to carry the batch at first, and all that could."""
    every: set[Seed] = set()
    chosen: set[Seed] = set()
    parameters = _parameter_buffers(program)
    for index, slot in enumerate(program.slots):
        if slot.maker != NONE or not program.buffers[slot.buffer].is_given:
            continue
        for dim, size in enumerate(slot.shape):
            if not batch.divides(size):
                continue
            every.add(Seed(slot=index, dim=dim))
            is_rows = not slot.is_floating and len(slot.shape) == 1 and size > 1
            is_batch = size == batch.recorded and (not slot.is_floating or dim == 0)
            if (is_batch or is_rows) and slot.buffer not in parameters:
                chosen.add(Seed(slot=index, dim=dim))
    for index, call in enumerate(program.calls):
        for place in _made_places(call):
            value = number_at(call, place)
            if not batch.divides(value):
                continue
            every.add(Seed(call=index, place=place))
            if batch.recorded > 1 and (value == batch.recorded or _makes_rows(program, call, batch)):
                chosen.add(Seed(call=index, place=place))
    return frozenset(chosen), frozenset(every)


def _makes_rows(program: ReplayProgram, call: ReplayCall, batch: BatchChange) -> bool:
    """Whether a call makes a row of whole numbers out of nothing, as many for each sample."""
    made = [program.slots[slot] for slot in call.outputs if slot != NONE]
    return (
        len(made) == 1
        and not made[0].is_floating
        and len(made[0].shape) == 1
        and batch.divides(made[0].shape[0])
        and call.operator not in EXPANDS
    )


def _made_places(call: ReplayCall) -> Iterator[Place]:
    """The literal sizes of calls that make tensors out of nothing, or repeat what there is."""
    is_making = call.kind is CallKind.OPERATOR and (call.operator in EXPANDS or is_factory(call))
    yield from size_places(call) if is_making else ()


def _parameter_buffers(program: ReplayProgram) -> set[int]:
    """Memory that a call writes, or that an operator calls a weight."""
    found: set[int] = set()
    for call in program.calls:
        if call.kind is not CallKind.OPERATOR or not call.schema:
            continue
        for described, value in zip(parse_schema(call.schema).arguments, call.arguments, strict=False):
            if described.is_written or described.name in _PARAMETERS:
                found.update(program.slots[slot].buffer for slot in slots_in((value,)))
    return found


def _nearest(program: ReplayProgram, failure: Failure, every: Seeds) -> list[Seed]:
    """The assumptions that a call's arguments come from, nearest first."""
    by_slot: dict[int, list[Seed]] = {}
    by_call: dict[int, list[Seed]] = {}
    for seed in sorted(every, key=lambda one: (one.slot, one.dim, one.call, str(one.place))):
        (
            by_slot.setdefault(seed.slot, []) if seed.slot != NONE else by_call.setdefault(seed.call, [])
        ).append(seed)
    found = list(by_call.get(failure.call, ()))
    reached: dict[int, None] = dict.fromkeys(slots_in(program.calls[failure.call].arguments))
    queue = list(reached)
    while queue:
        slot = queue.pop(0)
        found += by_slot.get(slot, ())
        maker = program.slots[slot].maker
        if maker == NONE:
            continue
        found += by_call.get(maker, ())
        for source in slots_in(program.calls[maker].arguments):
            if source not in reached:
                reached[source] = None
                queue.append(source)
    return found


@dataclass(frozen=True, slots=True)
class _Extents:
    """Furthest byte of any slot of a buffer, before and after."""

    before: int = 0
    after: int = 0


def _assembled(program: ReplayProgram, done: ScalePass, batch: BatchChange) -> ReplayProgram:
    """The program with the calls of a pass, and slots and buffers of their new sizes."""
    slots: list[Slot] = []
    extents: dict[int, _Extents] = {}
    for index, slot in enumerate(program.slots):
        carried = done.carried.get(index, {})
        new = _refilled(slot, scaled_slot(slot, carried, batch), batch)
        slots.append(new)
        known = extents.get(slot.buffer, _Extents())
        extents[slot.buffer] = _Extents(
            max(known.before, _reach_bytes(slot)), max(known.after, _reach_bytes(new))
        )
    buffers = tuple(
        replace(buffer, num_bytes=buffer.num_bytes - extents[i].before + extents[i].after)
        if i in extents
        else buffer
        for i, buffer in enumerate(program.buffers)
    )
    selection = {**program.selection, "batch": f"{batch.recorded} scaled to {batch.wanted}"}
    return replace(program, calls=tuple(done.calls), slots=tuple(slots), buffers=buffers, selection=selection)


def _reach_bytes(slot: Slot) -> int:
    return slot.span_bytes[1] if slot.reach_elements else 0


def _refilled(old: Slot, new: Slot, batch: BatchChange) -> Slot:
    """A filling whose numbers count elements counts as many as there are now.

    Raises:
        InputError: Recorded values, which are of the recorded batch.
    """
    filling = old.filling
    if filling is None or old.shape == new.shape:
        return new
    if filling.kind is Fill.RECORDED:
        raise InputError("recorded values are of the recorded batch; leave them out to change it")
    if filling.kind in (Fill.OFFSETS, Fill.MASK):
        return replace(new, filling=replace(filling, high=batch.scaled(int(filling.high))))
    return new
