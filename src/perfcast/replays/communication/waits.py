"""Waits that a recording does not show: where a program needs what a collective under way brings.

NCCL's recorder notes a wait for a collective; that of gloo does not, and neither does data-parallel
training, whose reducer waits on a future. There the wait stands before the first call that touches what
the collective receives, or that writes into what it still sends, and at the latest where the step ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfcast.replays.communication.groups import with_place
from perfcast.replays.communication.times import collective_spans
from perfcast.replays.program.program import Buffer, CallKind, ReplayCall, ReplayProgram, slots_in
from perfcast.traces.events import NONE, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.link.traces import TraceLink

#: What a call that waits is called.
WAIT = "wait"


def place_waits(
    program: ReplayProgram,
    execution_trace: ExecutionTrace | None = None,
    timeline: Trace | None = None,
    link: TraceLink | None = None,
) -> ReplayProgram:
    """The program with a wait for every asynchronous collective, its place among ranks, and recorded times.

    Args:
        execution_trace: What the program was made of; with the next two it tells how long collectives took.
        timeline: Of the same rank.
        link: Joins the two.
    """
    program = with_place(program, execution_trace)
    if execution_trace is not None and timeline is not None and link is not None:
        program = _with_seconds(program, execution_trace, timeline, link)
    waits = _missing_waits(program)
    return _kept_until_waited(with_calls(program, waits) if waits else program)


def _with_seconds(
    program: ReplayProgram, execution_trace: ExecutionTrace, timeline: Trace, link: TraceLink
) -> ReplayProgram:
    """Collectives with the seconds for which they were under way."""
    spans, rows = collective_spans(timeline), link.rows
    calls = []
    for call in program.calls:
        if call.kind is CallKind.COLLECTIVE:
            # the timeline may call the operator or the record below or above it the collective
            node = execution_trace.by_id.get(call.node_id)
            below = execution_trace.children.get(call.node_id, ())
            near = [call.node_id, *(child.id for child in below), *([node.parent] if node else [])]
            known = (spans[rows[near_id]] for near_id in near if rows.get(near_id) in spans)
            start, end = next(known, (float("nan"), float("nan")))
            call = replace(call, communication_seconds=end - start)
        calls.append(call)
    return replace(program, calls=tuple(calls))


def _missing_waits(program: ReplayProgram) -> dict[int, list[ReplayCall]]:
    """Place → waits that go before the call there."""
    waited = {call.waits_for for call in program.calls if call.kind is CallKind.WAIT}
    waits: dict[int, list[ReplayCall]] = {}
    for index, call in enumerate(program.calls):
        if call.kind is CallKind.COLLECTIVE and call.is_asynchronous and index not in waited:
            place = _first_need(program, index)
            step = program.calls[place - 1].step
            waits.setdefault(place, []).append(
                ReplayCall(
                    NONE, CallKind.WAIT, WAIT, "", "", (), waits_for=index, step=step, module=call.module
                )
            )
    return waits


def _first_need(program: ReplayProgram, collective: int) -> int:
    """The first call after a collective that cannot go on without it, or where its step is over."""
    call = program.calls[collective]
    received, sent = (_buffers(program, (argument,)) for argument in call.arguments[:2])
    for index in range(collective + 1, len(program.calls)):
        later = program.calls[index]
        if later.step != call.step or not received.isdisjoint(_touched(program, later)):
            return index
        if not sent.isdisjoint(_written(program, later)):
            return index
    return len(program.calls)


def _touched(program: ReplayProgram, call: ReplayCall) -> set[int]:
    made = {program.slots[slot].buffer for slot in call.outputs if slot != NONE}
    return _buffers(program, call.arguments) | made


def _written(program: ReplayProgram, call: ReplayCall) -> set[int]:
    """What an operator that works in place, by its name, writes into."""
    is_in_place = call.kind is CallKind.COLLECTIVE or call.operator.endswith("_")
    return _buffers(program, call.arguments[:1]) if is_in_place else set()


def _buffers(program: ReplayProgram, arguments: tuple[object, ...]) -> set[int]:
    return {program.slots[slot].buffer for slot in slots_in(arguments)}  # type: ignore[arg-type]


def _kept_until_waited(program: ReplayProgram) -> ReplayProgram:
    """Memory of a collective lives until it is waited for."""
    last: dict[int, int] = {}
    for index, call in enumerate(program.calls):
        if call.kind is CallKind.WAIT and call.waits_for != NONE:
            for buffer in _buffers(program, program.calls[call.waits_for].arguments):
                last[buffer] = index
    buffers = [
        replace(buffer, last_call=max(buffer.last_call, last.get(number, NONE)))
        for number, buffer in enumerate(program.buffers)
    ]
    return replace(program, buffers=tuple(buffers))


def with_calls(program: ReplayProgram, added: Mapping[int, Sequence[ReplayCall]]) -> ReplayProgram:
    """The program with more calls, each before the one that stands at its place now; all is renumbered.

    ``waits_for`` of added calls counts in the program as it is before.
    """
    moved = list(_new_places(len(program.calls), added))
    calls: list[ReplayCall] = []
    for place in range(len(program.calls) + 1):
        calls += added.get(place, ())
        calls += program.calls[place : place + 1]

    def moved_to(index: int) -> int:
        return moved[index] if index >= 0 else index

    return replace(
        program,
        calls=tuple(replace(call, waits_for=moved_to(call.waits_for)) for call in calls),
        slots=tuple(replace(slot, maker=moved_to(slot.maker)) for slot in program.slots),
        buffers=tuple(_moved(buffer, moved) for buffer in program.buffers),
    )


def _new_places(num_calls: int, added: Mapping[int, Sequence[ReplayCall]]) -> Iterator[int]:
    before = 0
    for place in range(num_calls):
        before += len(added.get(place, ()))
        yield place + before


def _moved(buffer: Buffer, moved: Sequence[int]) -> Buffer:
    places = (buffer.first_call, buffer.last_call, buffer.maker, buffer.stays_until)
    first, last, maker, until = (moved[index] if index >= 0 else index for index in places)
    return replace(buffer, first_call=first, last_call=last, maker=maker, stays_until=until)
