"""The tensors that a generated program starts from: one line each, which makes and fills it.

Recorded values are data, so they never reach a program: what was known of them does, as bounds, as a
histogram of reuse, or as the fact that they rise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.embedding.reuse import count_reuse
from perfcast.replays.build.differentiated import parameters
from perfcast.replays.fill.values import recorded_values
from perfcast.replays.generate.names import Names
from perfcast.replays.generate.plan import ProgramPlan, StepPlan
from perfcast.replays.generate.text import main_device
from perfcast.replays.generate.tokens import device_token, dtype_token, number_token
from perfcast.replays.program.program import Fill, Filling, ReplayProgram, Slot
from perfcast.replays.program.strides import contiguous_strides
from perfcast.traces.events import NONE

#: Scale of deviates that stand in for what a call had made.
_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Given:
    """One line: the tensor's name, the expression that makes it, its buffer."""

    name: str
    expression: str
    buffer: int


class GivenTensors:
    """The lines of all tensors that are there before the steps, and when which step needs them."""

    def __init__(self, program: ReplayProgram, plan: ProgramPlan, names: Names) -> None:
        self._program, self._names = program, names
        self._device = main_device(program)
        self._parameters = parameters(program)
        self._slots: dict[int, list[int]] = {program.slots[slot].buffer: [] for slot in plan.given}
        wanted = set(plan.given)
        for index, slot in enumerate(program.slots):
            is_filled = slot.maker == NONE and slot.filling is not None
            if slot.buffer in self._slots and (index in wanted or is_filled):
                self._slots[slot.buffer].append(index)
        self.lines = tuple(line for buffer in self._slots for line in self._buffer(buffer))

    def by_part(self, step: StepPlan) -> Iterator[tuple[list[str], list[str]]]:
        """For each part of a step: names first needed in it, names last used in it."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for place, part in enumerate(step.parts):
            for slot in part.needs:
                first.setdefault(self._program.slots[slot].buffer, place)
            for slot in part.done:
                last[self._program.slots[slot].buffer] = place
        for place in range(len(step.parts)):
            needs = [line.name for line in self.lines if first.get(line.buffer) == place]
            done = [line.name for line in self.lines if last.get(line.buffer) == place]
            yield needs, done

    def _buffer(self, buffer: int) -> Iterator[Given]:
        """The lines of one piece of memory: one tensor, or windows onto it."""
        slots = self._slots[buffer]
        fillings = self._fillings(buffer)
        whole = self._program.slots[slots[0]]
        own = self._program.buffers[buffer]
        if len(slots) == 1 and _is_plain(whole, own.num_bytes):
            made = f"t.new({dtype_token(whole.dtype)}, {_tuple(whole.shape)}{self._on(own.device)})"
            filling = fillings[slots[0]]
            yield Given(self._names.of_given(slots[0]), self._finished(slots[0], made, filling), buffer)
            return
        num_bytes = max(own.num_bytes, *(self._program.slots[slot].span_bytes[1] for slot in slots))
        made = f"t.new(torch.uint8, ({number_token(num_bytes)},){self._on(own.device)})"
        memory = f"memory_{buffer}"
        yield Given(memory, made, buffer)
        for index in slots:
            slot = self._program.slots[index]
            place = f"{_tuple(slot.shape)}, {_tuple(slot.strides)}, {number_token(slot.offset_elements)}"
            made = f"window(t.{memory}, {dtype_token(slot.dtype)}, {place})"
            filling = fillings[index]
            yield Given(self._names.of_given(index), self._finished(index, made, filling), buffer)

    def _finished(self, slot: int, made: str, filling: Filling) -> str:
        """The expression that fills what another one makes; parameters require a gradient."""
        is_parameter = slot in self._parameters and self._program.slots[slot].is_floating
        return _filled(made, filling) + (".requires_grad_()" if is_parameter else "")

    def _fillings(self, buffer: int) -> dict[int, Filling]:
        """How each slot of a buffer is filled: as the program says, or in place of who made it."""
        slots = self._slots[buffer]
        found: dict[int, Filling] = {}
        is_filled = any(self._program.slots[slot].filling is not None for slot in slots)
        for index in slots:
            slot = self._program.slots[index]
            filling = slot.filling
            if filling is None and not is_filled:
                filling, is_filled = _without_its_maker(slot), True
            found[index] = without_data(filling or Filling(Fill.ZEROS), slot)
        return found

    def _on(self, device: str) -> str:
        kind = device.partition(":")[0] or "cpu"
        return "" if kind == self._device else f", {device_token(device)}"


def without_data(filling: Filling, slot: Slot) -> Filling:
    """A filling that needs no file: of recorded values, what tells how they are used.

    Raises:
        TraceError: The recorded values cannot be read.
    """
    if filling.kind is not Fill.RECORDED:
        return replace(filling, path="")
    values = recorded_values(int(np.prod(slot.shape, dtype=np.int64)), filling)
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    reason = f"as the recorded values are: from {low} to {high}"
    if len(values) > 1 and values[0] == 0 and bool((np.diff(values) >= 0).all()):
        step = round(high * len(values) / (len(values) - 1))
        return Filling(Fill.OFFSETS, high=step, reason=f"{reason}, rising")
    low = int(values.min()) if len(values) else 0
    reuse = count_reuse(values)
    return Filling(
        Fill.LOOKUPS,
        low=low,
        high=high,
        reuse_fractions=tuple(float(share) for share in reuse.row_fractions),
        reason=f"{reason}, reused alike",
    )


def _is_plain(slot: Slot, num_bytes: int) -> bool:
    """Whether a slot is its whole buffer, row by row."""
    is_dense = all(
        size <= 1 or stride == dense
        for size, stride, dense in zip(slot.shape, slot.strides, contiguous_strides(slot.shape), strict=True)
    )
    return is_dense and slot.offset_elements == 0 and num_bytes <= slot.span_bytes[1]


def _without_its_maker(slot: Slot) -> Filling:
    """What a tensor holds whose maker was left out: deviates, or zeros where numbers may be places."""
    kind = Fill.NORMAL if slot.is_floating else Fill.ZEROS
    return Filling(kind, scale=_SCALE, reason="made by a call that was left out")


def _filled(made: str, filling: Filling) -> str:
    """The expression that fills what another one makes."""
    low, high = _number(filling.low), _number(filling.high)
    match filling.kind:
        case Fill.NORMAL:
            return f"t.normal({made}, {number_token(float(filling.scale))})"
        case Fill.POSITIVE:
            return f"t.positive({made}, {low}, {high})"
        case Fill.UNIFORM:
            return f"t.uniform({made}, {low}, {high})"
        case Fill.MASK:
            return f"t.mask({made}, {high})"
        case Fill.OFFSETS:
            return f"t.offsets({made}, {high}{', has_last=True' if filling.has_last else ''})"
        case Fill.PERMUTATION:
            return f"t.permutation({made})"
        case Fill.LOOKUPS:
            shares = ", ".join(number_token(round(float(share), 6)) for share in filling.reuse_fractions)
            return f"t.lookups({made}, {low}, {high}, ({shares}{',' if shares else ''}))"
    return made


def _number(value: float) -> str:
    return number_token(int(value) if float(value).is_integer() else float(value))


def _tuple(values: tuple[int, ...]) -> str:
    inner = ", ".join(number_token(value) for value in values)
    return f"({inner}{',' if len(values) == 1 else ''})"
