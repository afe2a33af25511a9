"""Programs put one after the other.

That only renumbers: calls, slots, buffers and steps are named by their places, and collectives by the names
of their groups.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from perfcast.errors import InputError
from perfcast.replays.program.program import (
    Argument,
    Buffer,
    CallKind,
    ReplayCall,
    ReplayProgram,
    Slot,
    SlotUse,
)
from perfcast.traces.events import NONE, Collective, ProcessGroup


def concatenate(programs: Sequence[ReplayProgram]) -> ReplayProgram:
    """One program that plays all of them in order; each keeps its own tensors.

    Groups of one name with other ranks get names of their own. The hash of several sources is the SHA-256
    of their hashes.

    Raises:
        InputError: No program; or programs of several ranks, or worlds, that exchange something.
    """
    if not programs:
        raise InputError("no program to concatenate")
    if len(programs) == 1:
        return programs[0]
    home = _home(programs)
    calls: list[ReplayCall] = []
    slots: list[Slot] = []
    buffers: list[Buffer] = []
    groups: dict[str, ProcessGroup] = {}
    num_steps = 0
    for program in programs:
        names = _join_groups(groups, program.groups)
        steps = {step: num_steps + i for i, step in enumerate(_steps_of(program))}
        first_call, first_slot, first_buffer = len(calls), len(slots), len(buffers)
        calls += (
            replace(
                _shifted_call(call, first_call, first_slot),
                step=steps[call.step],
                collective=_renamed_group(call, names),
            )
            for call in program.calls
        )
        slots += (_shifted_slot(slot, first_call, first_slot, first_buffer) for slot in program.slots)
        buffers += (_shifted_buffer(buffer, first_call) for buffer in program.buffers)
        num_steps += max(program.num_steps, len(steps))
    return ReplayProgram(
        calls=tuple(calls),
        slots=tuple(slots),
        buffers=tuple(buffers),
        groups=tuple(groups.values()),
        skipped=tuple(skipped for program in programs for skipped in program.skipped),
        rank=home.rank,
        world_size=home.world_size,
        num_steps=num_steps,
        source=" + ".join(program.source for program in programs),
        source_hash=_joined_hash([program.source_hash for program in programs]),
        selection=_joined_selection(programs),
        rebuilt=tuple(dict.fromkeys(words for program in programs for words in program.rebuilt)),
        assumed=tuple(dict.fromkeys(words for program in programs for words in program.assumed)),
        kernels=tuple(dict.fromkeys(kernel for program in programs for kernel in program.kernels)),
        num_unselected=sum(program.num_unselected for program in programs),
        unselected_seconds=math.fsum(program.unselected_seconds for program in programs),
    )


def _steps_of(program: ReplayProgram) -> list[int]:
    return sorted({call.step for call in program.calls})


def _home(programs: Sequence[ReplayProgram]) -> ReplayProgram:
    """The program whose rank and world all share that exchange something."""
    exchanging = [p for p in programs if any(call.kind is CallKind.COLLECTIVE for call in p.calls)]
    places = {(program.rank, program.world_size) for program in exchanging}
    if len(places) > 1:
        names = ", ".join(f"rank {rank} of {world}" for rank, world in sorted(places))
        raise InputError(
            f"programs of {names} cannot follow each other on one rank: their collectives differ"
        )
    return exchanging[0] if exchanging else programs[0]


def _join_groups(groups: dict[str, ProcessGroup], more: Sequence[ProcessGroup]) -> Mapping[str, str]:
    """Adds ``more`` to ``groups``; the new name of each."""
    names: dict[str, str] = {}
    for group in more:
        name, count = group.name, 1
        while name in groups and groups[name].ranks != group.ranks:
            count += 1
            name = f"{group.name}.{count}"
        names[group.name] = name
        groups.setdefault(name, replace(group, name=name))
    return names


def _joined_hash(hashes: Sequence[str]) -> str:
    if len(set(hashes)) == 1:
        return hashes[0]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _joined_selection(programs: Sequence[ReplayProgram]) -> Mapping[str, str]:
    if all(program.selection == programs[0].selection for program in programs):
        return programs[0].selection
    return {
        f"{place} {key}": value
        for place, program in enumerate(programs, 1)
        for key, value in program.selection.items()
    }


def _shifted(place: int, by: int) -> int:
    return NONE if place == NONE else place + by


def _shifted_call(call: ReplayCall, calls: int, slots: int) -> ReplayCall:
    moved = _with_slots(call, lambda slot: slot + slots)
    return replace(moved, waits_for=_shifted(call.waits_for, calls))


def _shifted_slot(slot: Slot, calls: int, slots: int, buffers: int) -> Slot:
    return replace(
        slot,
        buffer=slot.buffer + buffers,
        maker=_shifted(slot.maker, calls),
        stands_for=_shifted(slot.stands_for, slots),
    )


def _shifted_buffer(buffer: Buffer, calls: int) -> Buffer:
    return replace(
        buffer,
        maker=_shifted(buffer.maker, calls),
        first_call=buffer.first_call + calls,
        last_call=buffer.last_call + calls,
        stays_until=_shifted(buffer.stays_until, calls),
    )


def _renamed_group(call: ReplayCall, names: Mapping[str, str]) -> Collective | None:
    if call.collective is None:
        return None
    return replace(call.collective, group=names.get(call.collective.group, call.collective.group))


def _with_slots(call: ReplayCall, renumber: Callable[[int], int]) -> ReplayCall:
    """The call with every slot, among arguments and outputs, renumbered."""
    return replace(
        call,
        arguments=tuple(_with_slot(argument, renumber) for argument in call.arguments),
        outputs=tuple(NONE if slot == NONE else renumber(slot) for slot in call.outputs),
    )


def _with_slot(argument: Argument, renumber: Callable[[int], int]) -> Argument:
    if isinstance(argument, SlotUse):
        return SlotUse(renumber(argument.slot))
    if isinstance(argument, tuple):
        return tuple(_with_slot(item, renumber) for item in argument)
    return argument
