"""What given tensors hold before a program starts: whole numbers by their use, floating ones well-behaved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.replays.fill.counts import count_needs, is_counted
from perfcast.replays.fill.needs import Needs
from perfcast.replays.fill.recorded import recorded_needs
from perfcast.replays.fill.rules import View
from perfcast.replays.program.program import (
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    ReplayProgram,
    Slot,
)
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import ExecutionTrace


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """What is known of the whole numbers in given tensors.

    Attributes:
        reuse_fractions: Shares of the rows that a batch touches, by reuse bin (17, ``core.embedding``).
        folder: Where the trace's recorded tensors are ('…_resources').
    """

    reuse_fractions: tuple[float, ...] = ()
    folder: Path | None = None


def recorded_folder(trace: Path) -> Path | None:
    """Where PyTorch puts the tensors that it records beside a trace; ``None`` where there are none."""
    folder = trace.with_name(f"{trace.name.partition('.json')[0]}_resources")
    return folder if folder.is_dir() else None


def fill_given(program: ReplayProgram, trace: ExecutionTrace, options: FillOptions) -> ReplayProgram:
    """The program with fillings on its given slots, and stand-ins where values are not known to fit."""
    calls, slots, buffers = _with_given_results(program)
    needs = Needs(calls, slots, buffers)
    for index, call in enumerate(calls):
        needs.resolve(index, tuple(recorded_needs(call, slots, trace, options.folder)))
    fillings = {slot: _with_reuse(filling, options) for slot, filling in needs.fillings.items()}
    return replace(
        program,
        calls=tuple(needs.calls),
        slots=tuple(_filled(needs.slots, needs.buffers, fillings)),
        buffers=tuple(needs.buffers),
    )


def _with_reuse(filling: Filling, options: FillOptions) -> Filling:
    if filling.kind is not Fill.LOOKUPS:
        return filling
    if not options.reuse_fractions:
        return replace(filling, kind=Fill.UNIFORM)
    return replace(filling, reuse_fractions=options.reuse_fractions)


def _with_given_results(program: ReplayProgram) -> tuple[list[ReplayCall], list[Slot], list[Buffer]]:
    """Results that are as many as data say, and that no filling decides, are given instead."""
    calls, slots, buffers = list(program.calls), list(program.slots), list(program.buffers)
    for index, call in enumerate(calls):
        if call.kind is not CallKind.OPERATOR or not call.schema:
            continue
        view = View(call, slots)
        if is_counted(view) and not count_needs(view):
            for slot in call.outputs:
                if slot != NONE:
                    slots[slot] = replace(slots[slot], maker=NONE)
                    buffer = slots[slot].buffer
                    buffers[buffer] = replace(buffers[buffer], maker=NONE, made_up="result")
            calls[index] = replace(call, outputs=(NONE,) * len(call.outputs))
    return calls, slots, buffers


def _filled(
    slots: Sequence[Slot], buffers: Sequence[Buffer], fillings: Mapping[int, Filling]
) -> Iterator[Slot]:
    """Slots with their fillings: by need first; what is left of a buffer by element type."""
    of_buffer: dict[int, list[int]] = {}
    for number, slot in enumerate(slots):
        if slot.maker == NONE and buffers[slot.buffer].is_given:
            of_buffer.setdefault(slot.buffer, []).append(number)
    chosen = dict(fillings)
    for numbers in of_buffer.values():
        chosen |= _for_the_rest(numbers, slots, fillings)
    for number, slot in enumerate(slots):
        yield replace(slot, filling=chosen[number]) if number in chosen else slot


def _for_the_rest(
    numbers: Sequence[int], slots: Sequence[Slot], fillings: Mapping[int, Filling]
) -> dict[int, Filling]:
    """Fillings of the slots of one buffer that nothing is needed of, the largest first, none twice."""
    needed = [slots[number].span_bytes for number in numbers if number in fillings]
    covered: list[tuple[int, int]] = list(needed)
    found: dict[int, Filling] = {}
    for number in sorted(numbers, key=lambda one: (-_length(slots[one]), one)):
        low, high = slots[number].span_bytes
        is_needed = any(low < end and start < high for start, end in needed)
        if number in fillings or is_needed or any(start <= low and high <= end for start, end in covered):
            continue
        found[number] = default_filling(slots[number])
        covered.append((low, high))
    if not found and not needed:
        found[numbers[0]] = default_filling(slots[numbers[0]])
    return found


def default_filling(slot: Slot) -> Filling:
    """Without a need: deviates scaled by the number of terms of a product, zeros, half of a mask.

    Single numbers are positive and at most 1, so that repeated products with them neither grow nor change
    their sign.
    """
    if slot.is_whole:
        return Filling(Fill.ZEROS, reason="nothing is looked up by it")
    if slot.dtype == "bool":
        return Filling(Fill.MASK, high=math.prod(slot.shape) // 2, reason="a mask")
    if math.prod(slot.shape) == 1:
        return Filling(Fill.POSITIVE, low=0.5, high=1.0, reason="a single number: a rate, a count, a factor")
    terms = math.prod(slot.shape[1:])
    scale = 1 / math.sqrt(terms) if terms > 1 else 1.0
    return Filling(
        Fill.NORMAL, scale=scale, reason="deviates, so scaled that sums of products keep their size"
    )


def _length(slot: Slot) -> int:
    low, high = slot.span_bytes
    return high - low
