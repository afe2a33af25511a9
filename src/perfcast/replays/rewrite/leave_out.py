"""A program without what a rehearsal found not to work: calls that fail, results that are not as recorded.

What such a call would have made is there before the steps instead, as in a replay, where stand-ins take the
places of those tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from perfcast.replays.program.program import (
    Buffer,
    CallKind,
    ReplayCall,
    ReplayProgram,
    Skipped,
    Slot,
)
from perfcast.traces.events import NONE


def leave_out(
    program: ReplayProgram,
    failures: Mapping[int, str],
    replaced: Collection[int] = (),
    undifferentiated: Collection[int] = (),
) -> ReplayProgram:
    """The program whose calls in ``failures`` only leave time, the reason noted with what was skipped.

    Args:
        failures: Reason by call that cannot run.
        replaced: Slots whose tensors do not come out as recorded: each is given, in memory of its own.
        undifferentiated: Calls that autograd cannot note.
    """
    if not failures and not replaced and not undifferentiated:
        return program
    slots, buffers = _given(program, frozenset(failures), frozenset(replaced))
    gone = frozenset(replaced)
    calls = []
    for index, call in enumerate(program.calls):
        if index in failures:
            call = replace(call, kind=CallKind.IDLE, arguments=(), outputs=(), is_differentiated=False)
        elif gone.intersection(call.outputs):
            call = replace(call, outputs=tuple(NONE if slot in gone else slot for slot in call.outputs))
        if index in undifferentiated:
            call = replace(call, is_differentiated=False)
        calls.append(call)
    skipped = [_skipped(program.calls[index], reason) for index, reason in failures.items()]
    return replace(
        program,
        calls=tuple(calls),
        slots=tuple(slots),
        buffers=tuple(buffers),
        skipped=(*program.skipped, *skipped),
    )


def _given(
    program: ReplayProgram, failures: frozenset[int], replaced: frozenset[int]
) -> tuple[list[Slot], list[Buffer]]:
    """Slots and buffers, those given that no call makes any more."""
    slots = [
        replace(slot, maker=NONE) if slot.maker in failures and slot.maker != NONE else slot
        for slot in program.slots
    ]
    buffers = [
        replace(buffer, maker=NONE) if buffer.maker in failures else buffer for buffer in program.buffers
    ]
    for index in sorted(replaced):
        slot = slots[index]
        own = replace(buffers[slot.buffer], num_bytes=slot.span_bytes[1] - slot.span_bytes[0], maker=NONE)
        buffers.append(own)
        slots[index] = replace(slot, buffer=len(buffers) - 1, offset_elements=0, maker=NONE)
    return slots, buffers


def _skipped(call: ReplayCall, reason: str) -> Skipped:
    return Skipped(call.node_id, call.operator, reason, call.recorded_seconds)
