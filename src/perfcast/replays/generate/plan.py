"""What a generated program says, before it is text: its different steps, their lines, and who lives how long.

Each step is made self-contained: what an earlier step had made is given instead, so that steps which do
the same are written once and looped over. Inside a step, a line is a call or a window onto memory that a
call made; a name is dropped after the last line that uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcast.replays.program.program import Argument, ReplayCall, ReplayProgram, Slot, SlotUse, slots_in
from perfcast.traces.events import NONE

#: A part ends where the module changes once it has so many lines, and in any case at so many.
_FEW_LINES, _MANY_LINES = 30, 120
#: Windows onto memory that a call made stand for no call.
WINDOW = NONE


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the index of its call, or ``WINDOW``; the slots it reads and those it makes."""

    call: int
    uses: tuple[int, ...]
    makes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some lines of a step in a row, written as one function.

    ``dropped`` are the slots, for each line, whose last use it is. ``given`` are the slots that are there
    before the step, ``shared`` those of its calls that live longer than a part. ``needs`` are the given
    slots used in it for the first time in the step, ``done`` those for the last time.
    """

    lines: tuple[Line, ...]
    dropped: tuple[tuple[int, ...], ...]
    given: frozenset[int]
    shared: frozenset[int]
    needs: tuple[int, ...]
    done: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One of the different steps: its parts, and the slots that have to be there before it."""

    parts: tuple[StepPart, ...]
    given: tuple[int, ...]
    num_calls: int


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """The different steps, and in which order they are played (indices of ``steps``).

    ``gaps`` is the host's time before each call of the different steps, in seconds.
    """

    steps: tuple[StepPlan, ...]
    order: tuple[int, ...]
    gaps: Mapping[int, float]

    @property
    def given(self) -> tuple[int, ...]:
        """The slots that have to be there before some step, in order of their first use."""
        return tuple(dict.fromkeys(slot for step in self.steps for slot in step.given))


def plan_program(program: ReplayProgram) -> ProgramPlan:
    """The different steps of a program, and their order."""
    known: dict[object, int] = {}
    steps: list[StepPlan] = []
    order: list[int] = []
    starts: list[list[int]] = []  # of every step that is played as this one
    for first, end in _runs(program.calls):
        signature = _signature(program, first, end)
        if signature not in known:
            known[signature] = len(steps)
            steps.append(_plan_step(program, first, end))
            starts.append([])
        starts[known[signature]].append(first)
        order.append(known[signature])
    gaps = {
        first[0] + place: gap
        for step, first in zip(steps, starts, strict=True)
        for place, gap in enumerate(_mean_gaps(program.calls, first, step.num_calls))
    }
    return ProgramPlan(tuple(steps), tuple(order), gaps)


def _mean_gaps(calls: Sequence[ReplayCall], starts: Sequence[int], num_calls: int) -> list[float]:
    """The host's gap before each call of a step, the mean over the steps that are played as it; NaN as 0."""
    seconds = [[calls[start + place].gap_seconds for start in starts] for place in range(num_calls)]
    known = ([one for one in row if math.isfinite(one)] for row in seconds)
    return [math.fsum(row) / len(row) if row else 0.0 for row in known]


def _runs(calls: Sequence[ReplayCall]) -> Iterator[tuple[int, int]]:
    """First and end of each row of calls of one step."""
    start = 0
    for place in range(1, len(calls) + 1):
        if place == len(calls) or calls[place].step != calls[start].step:
            yield start, place
            start = place


def _signature(program: ReplayProgram, first: int, end: int) -> object:
    """What a step does, without the numbers of its slots: equal for steps that do the same."""
    slots: dict[int, int] = {}
    buffers: dict[int, int] = {}
    shapes: list[object] = []

    def number(place: int) -> int:
        if place not in slots:
            slot = program.slots[place]
            slots[place] = len(slots)
            buffer = buffers.setdefault(slot.buffer, len(buffers))
            is_made = first <= slot.maker < end
            layout = (slot.dtype, slot.offset_elements, slot.shape, slot.strides, slot.device)
            shapes.append((buffer, is_made, *layout, _filling_key(slot)))
        return slots[place]

    def numbered(argument: Argument) -> object:
        if isinstance(argument, SlotUse):
            return ("slot", number(argument.slot))
        if isinstance(argument, tuple):
            return tuple(numbered(item) for item in argument)
        return (type(argument).__name__, repr(argument))

    def call_key(index: int) -> object:
        call = program.calls[index]
        made = tuple(slot if slot == NONE else number(slot) for slot in call.outputs)
        arguments = numbered(call.arguments)
        emulated = repr(call.emulated_seconds)
        waits_for = NONE if call.waits_for == NONE else call.waits_for - first
        kind = (call.kind, call.name, call.schema, call.stream, waits_for, call.is_asynchronous)
        return (kind, arguments, made, emulated, _collective_key(call))

    calls = tuple(call_key(index) for index in range(first, end))
    return (calls, tuple(shapes))


def _filling_key(slot: Slot) -> object:
    """What a tensor has to hold: whole numbers may be places in others, fractions are deviates anyhow."""
    if slot.filling is None or slot.is_floating:
        return None
    return (slot.filling.kind, slot.filling.low, slot.filling.high, slot.filling.reuse_fractions)


def _collective_key(call: ReplayCall) -> object:
    found = call.collective
    if found is None:
        return None
    return (found.name, found.group, found.ranks, found.in_splits, found.out_splits, found.dtype)


def _plan_step(program: ReplayProgram, first: int, end: int) -> StepPlan:
    lines, given = _lines(program, first, end)
    spans = _cut([_module(program, line) for line in lines])
    first_part: dict[int, int] = {}
    last_part: dict[int, int] = {}
    last_line: dict[int, int] = {}
    for part, (start, stop) in enumerate(spans):
        for place in range(start, stop):
            for slot in (*lines[place].uses, *lines[place].makes):
                first_part.setdefault(slot, part)
                last_part[slot] = part
                last_line[slot] = place
    is_given = frozenset(given)
    shared = frozenset(slot for slot, part in last_part.items() if first_part[slot] != part) - is_given
    dropped: list[list[int]] = [[] for _ in lines]
    for slot, place in last_line.items():
        if slot not in is_given:
            dropped[place].append(slot)
    parts = tuple(
        StepPart(
            lines=tuple(lines[start:stop]),
            dropped=tuple(tuple(slots) for slots in dropped[start:stop]),
            given=is_given,
            shared=shared,
            needs=tuple(slot for slot in given if first_part[slot] == part),
            done=tuple(slot for slot in given if last_part[slot] == part),
        )
        for part, (start, stop) in enumerate(spans)
    )
    return StepPlan(parts, tuple(given), end - first)


def _lines(program: ReplayProgram, first: int, end: int) -> tuple[list[Line], list[int]]:
    """The lines of a step, and the slots that have to be there before it."""
    lines: list[Line] = []
    given: dict[int, None] = {}
    bound: set[int] = set()
    base_of: dict[int, int] = {}  # buffer → a slot of it that a line made
    for index in range(first, end):
        call = program.calls[index]
        uses = tuple(dict.fromkeys(slots_in(call.arguments)))
        for slot in uses:
            if slot in bound or slot in given:
                continue
            base = base_of.get(program.slots[slot].buffer)
            if base is None:
                given[slot] = None
            else:
                lines.append(Line(WINDOW, (base,), (slot,)))
                bound.add(slot)
        makes = tuple(s for s in call.outputs if s != NONE and program.slots[s].maker == index)
        lines.append(Line(index, uses, makes))
        bound.update(makes)
        base_of.update((program.slots[slot].buffer, slot) for slot in makes)
    return lines, list(given)


def _module(program: ReplayProgram, line: Line) -> str | None:
    return None if line.call == WINDOW else program.calls[line.call].module


def _cut(modules: Sequence[str | None]) -> list[tuple[int, int]]:
    """Where parts start and end, given the module of each line (``None``: as the next)."""
    spans: list[tuple[int, int]] = []
    start = 0
    for place in range(1, len(modules)):
        length = place - start
        is_change = modules[place] != modules[place - 1] and modules[place - 1] is not None
        if length >= _MANY_LINES or (length >= _FEW_LINES and is_change):
            spans.append((start, place))
            start = place
    return [*spans, (start, len(modules))] if modules else []
