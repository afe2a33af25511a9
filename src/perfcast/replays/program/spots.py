"""Where tensors stand in the arguments of calls: who puts which tensor into which list.

The arguments of all calls are made once. A tensor that a call makes is written right into the argument
lists of the calls that use it, and a call clears its own places when it is done: that frees memory after
the last use, and nothing is looked up while the time runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfcast.errors import TraceError
from perfcast.replays.play.bind import bind_call
from perfcast.replays.play.kernels import register_kernels
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, SlotUse
from perfcast.traces.events import NONE

#: A place: a list or mapping, and the key in it.
Spot = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """``slot`` is taken out of the buffer of another slot, ``source``, whose tensor is in ``place[0]``."""

    slot: int
    source: int
    place: list[Any]


@dataclass(slots=True)
class LaidOutCall:
    """One call with its arguments: a bound operator, or a collective's tensors.

    ``spots`` are the places of its tensors with their slots. ``windows`` are what is taken out of buffers
    just before. ``problem`` says why the call cannot be bound.
    """

    index: int
    call: ReplayCall
    function: Any = None
    positional: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    written: tuple[int, ...] = ()
    spots: list[tuple[Spot, int]] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class Layout:
    """Entries of all calls; ``targets[slot]`` are the places that a tensor goes to.

    ``orphans`` are slots of buffers made by calls that nothing gives a tensor to, each with the call that
    needs it first. ``kept`` holds tensors that stay beyond their last use.
    """

    entries: tuple[LaidOutCall, ...]
    targets: tuple[list[Spot], ...]
    orphans: Mapping[int, int]
    kept: list[Any]


def lay_out(program: ReplayProgram) -> Layout:
    """Bind all calls and say where every tensor goes."""
    register_kernels(program.kernels)
    entries = tuple(_entry(index, call) for index, call in enumerate(program.calls))
    targets: list[list[Spot]] = [[] for _ in program.slots]
    for entry in entries:
        for spot, slot in entry.spots:
            targets[slot].append(spot)
    orphans = _add_windows(program, entries, targets)
    return Layout(entries, tuple(targets), orphans, _keep(program, entries, targets))


def _keep(program: ReplayProgram, entries: Sequence[LaidOutCall], targets: list[list[Spot]]) -> list[Any]:
    """Places for a tensor of each buffer that stays beyond its last use, cleared by the call that ends it."""
    used = {program.slots[slot].buffer: entry.index for entry in entries for _, slot in entry.spots}
    kept: list[Any] = []
    seen: set[int] = set()
    for index, slot in enumerate(program.slots):
        own = program.buffers[slot.buffer]
        if slot.maker == NONE or slot.maker != own.maker or slot.buffer in seen:
            continue
        seen.add(slot.buffer)
        last = (
            len(entries)
            if own.stays_until == 0
            else own.stays_until
            if own.stays_until > 0
            else own.last_call + 1
        )
        if own.stays_until == NONE and own.last_call <= used.get(slot.buffer, slot.maker):
            continue
        ending = _calling(entries, last - 1)
        if ending is not None:
            spot = (kept, len(kept))
            kept.append(None)
            targets[index].append(spot)
            ending.spots.append((spot, index))
    return kept


def _calling(entries: Sequence[LaidOutCall], index: int) -> LaidOutCall | None:
    """The entry, or else the last before it, that calls something: only these clear places."""
    earlier = (entry for entry in reversed(entries[: index + 1]) if entry.call.kind is not CallKind.IDLE)
    return next(earlier, None)


def _entry(index: int, call: ReplayCall) -> LaidOutCall:
    entry = LaidOutCall(index, call)
    if call.kind is CallKind.OPERATOR:
        try:
            bound = bind_call(call)
        except TraceError as error:
            entry.problem = str(error)
            return entry
        entry.function, entry.written = bound.function, bound.written
        entry.positional, entry.keywords = bound.positional, bound.keywords
    elif call.kind is CallKind.COLLECTIVE:
        entry.positional = [list(part) for part in call.arguments[:2] if isinstance(part, tuple)]
    entry.spots = list(_spots_in(entry.positional, enumerate(entry.positional)))
    entry.spots += list(_spots_in(entry.keywords, entry.keywords.items()))
    for (container, key), _ in entry.spots:
        container[key] = None
    return entry


def _spots_in(container: Any, items: Any) -> Iterator[tuple[Spot, int]]:
    for key, value in items:
        if isinstance(value, SlotUse):
            yield (container, key), value.slot
        elif isinstance(value, list):
            yield from _spots_in(value, enumerate(value))


def _add_windows(
    program: ReplayProgram, entries: Sequence[LaidOutCall], targets: list[list[Spot]]
) -> dict[int, int]:
    """Tensors that no call returns, in buffers that calls make: taken out before their first use.

    Returns those for which no tensor of the buffer is known by then, with the call that needs them.
    """
    made: dict[int, list[int]] = {}
    for index, slot in enumerate(program.slots):
        if slot.maker != NONE:
            made.setdefault(slot.buffer, []).append(index)
    known: set[int] = set()
    orphans: dict[int, int] = {}
    for entry in entries:
        for _, index in entry.spots:
            slot = program.slots[index]
            if slot.maker != NONE or index in known or program.buffers[slot.buffer].is_given:
                continue
            known.add(index)
            source = _source(program, made.get(slot.buffer, ()), entry.index)
            if source is None:
                orphans[index] = entry.index
                continue
            place: list[Any] = [None]
            targets[source].append((place, 0))
            entry.windows.append(Window(index, source, place))
    return orphans


def _source(program: ReplayProgram, made: Sequence[int], before: int) -> int | None:
    """A slot of the buffer that has been made by then, the latest one."""
    earlier = [index for index in made if program.slots[index].maker < before]
    return max(earlier, key=lambda index: program.slots[index].maker, default=None)
