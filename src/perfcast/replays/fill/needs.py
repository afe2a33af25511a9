"""Needs carried back to the given tensors from which values come.

Whole numbers are followed through the program. A need falls on a given tensor where its values come from
one, unchanged, through views and copies; it is met where the values are made within the needed bounds
(``arange``, ``randint``, places of a sort). Anywhere else (computed numbers, those that another rank sends,
given ones that the program changes in place), and where two needs on one tensor exclude each other, the call
gets a given *stand-in* of its own instead of the tensor, so that no replay fails by what its numbers happen
to be. Floating needs (variances, divisors) only steer how given tensors are filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.replays.fill.counts import count_needs
from perfcast.replays.fill.effects import Bounds, carried_slots, made_bounds
from perfcast.replays.fill.recorded import check_recorded
from perfcast.replays.fill.rules import Need, View, needs_of
from perfcast.replays.program.program import (
    Argument,
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    Slot,
    SlotUse,
    slots_in,
)
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.events import NONE

#: Where values come from: given slots, bounds, or nobody knows.
_Origin = tuple["int | Bounds", ...] | None
#: Tensors joined into one with more sources than this are nobody's; as many windows are filled by meaning.
_MAX_SOURCES = 256
_MAX_WINDOWS = 1024
_BOUNDED = (Fill.UNIFORM, Fill.LOOKUPS)


class Needs:
    """Needs of all calls, resolved call by call in their order.

    ``fillings`` holds what falls on given slots; ``calls``, ``slots`` and ``buffers`` are the program's,
    stand-ins among them.
    """

    def __init__(self, calls: Sequence[ReplayCall], slots: Sequence[Slot], buffers: Sequence[Buffer]) -> None:
        self.calls, self.slots, self.buffers = list(calls), list(slots), list(buffers)
        self.fillings: dict[int, Filling] = {}
        self._windows: dict[int, list[int]] = {}
        self._origins: dict[int, _Origin] = {}
        self._stand_ins: dict[tuple[int, Filling], int] = {}
        self._changed = {
            self.slots[slot].buffer
            for call in self.calls
            for slot in _written_in_place(call)
            if not self.slots[slot].is_floating
        }

    def resolve(self, index: int, recorded: Sequence[Need]) -> None:
        """Meet the needs of one call, those that the recording tells (``recorded``) first."""
        call = self.calls[index]
        if call.kind is not CallKind.OPERATOR or not call.schema:
            self._forget(call)
            return
        view = View(call, self.slots)
        by_rule = {need.slot: need for need in (*needs_of(view), *count_needs(view))}
        by_file = {need.slot: need for need in recorded}
        for slot in dict.fromkeys((*by_rule, *by_file)):
            need = _narrower(by_rule.get(slot), by_file.get(slot), view.count(slot))
            if not self._is_met(need, index) and need.is_strict:
                self._stand_in(index, need)
        self._follow(view)

    def _is_met(self, need: Need, index: int) -> bool:
        slot = self.slots[need.slot]
        sources = self._origins.get(slot.buffer, ()) if not slot.is_floating else ()
        if sources is None:
            return False
        if not sources:
            is_given = self.buffers[slot.buffer].is_given and slot.buffer not in self._changed
            return is_given and self._assign(need.slot, need.filling)
        for source in sources:
            if isinstance(source, Bounds):
                if not _fits(source, need.filling):
                    return False
            elif not self._carries(source, need) or not self._assign(source, need.filling):
                return False
        return True

    def _carries(self, source: int, need: Need) -> bool:
        """Whether a need may fall on a copy's source: what orders or counts values wants them all."""
        is_whole_need = need.filling.kind not in _BOUNDED
        return not is_whole_need or self.slots[source].shape == self.slots[need.slot].shape

    def _assign(self, slot: int, filling: Filling) -> bool:
        """Let a need fall on a given slot; false where it excludes another."""
        known = self.fillings.get(slot)
        wanted = filling if known is None else _merged(known, filling)
        windows = self._windows.setdefault(self.slots[slot].buffer, [])
        if wanted is None or len(windows) > _MAX_WINDOWS:
            return False
        changed = {slot: wanted}
        for other in windows:
            if other != slot and _overlap(self.slots[slot], self.slots[other]):
                common = _merged(self.fillings[other], wanted)
                if common is None or common.kind not in (*_BOUNDED, Fill.POSITIVE):
                    return False
                changed |= {other: common, slot: common}
        self.fillings |= changed
        if known is None:
            windows.append(slot)
        return True

    def _stand_in(self, index: int, need: Need) -> None:
        """Give the call a tensor of its own in the place of one whose values are not known to fit."""
        key = (need.slot, need.filling)
        number = self._stand_ins.get(key)
        if number is None:
            slot = self.slots[need.slot]
            num_bytes = slot.span_bytes[1] - slot.span_bytes[0]
            self.buffers.append(Buffer(num_bytes, slot.device, NONE, index, index, "stand-in"))
            self.slots.append(
                replace(
                    slot,
                    buffer=len(self.buffers) - 1,
                    offset_elements=0,
                    maker=NONE,
                    filling=None,
                    stands_for=need.slot,
                )
            )
            number = self._stand_ins[key] = len(self.slots) - 1
            self.fillings[number] = replace(
                need.filling, reason=f"{need.filling.reason}; made by the program"
            )
        buffer = self.slots[number].buffer
        self.buffers[buffer] = replace(self.buffers[buffer], last_call=index)
        call = self.calls[index]
        arguments = tuple(_exchanged(value, need.slot, number) for value in call.arguments)
        self.calls[index] = replace(call, arguments=arguments)

    def _follow(self, view: View) -> None:
        """Note where the whole numbers that a call makes or writes come from."""
        written = self._written(view)
        if not written:
            return
        carried = carried_slots(view)
        if view.call.operator == "aten::copy_":
            carried = (view.slot("src"),) if view.slot("src") != NONE else None
        bounds = made_bounds(view)
        origin: _Origin = (bounds,) if bounds is not None else self._joined(carried)
        for slot in written:
            buffer = self.slots[slot].buffer
            is_part = not self._covers(slot)
            before = self._source(slot) if is_part else ()
            joined = None if before is None or origin is None else tuple(dict.fromkeys((*before, *origin)))
            self._origins[buffer] = joined if joined is not None and len(joined) <= _MAX_SOURCES else None

    def _joined(self, carried: tuple[int, ...] | None) -> _Origin:
        if carried is None:
            return None
        sources: list[int | Bounds] = []
        for slot in carried:
            origin = self._source(slot)
            if origin is None:
                return None
            sources += origin
        return tuple(dict.fromkeys(sources))

    def _source(self, slot: int) -> _Origin:
        """Where the values of a slot come from now; a given one that nobody wrote to is its own source."""
        buffer = self.slots[slot].buffer
        if buffer in self._origins:
            return self._origins[buffer]
        is_kept = self.buffers[buffer].is_given and buffer not in self._changed
        return (slot,) if is_kept else None

    def _covers(self, slot: int) -> bool:
        low, high = self.slots[slot].span_bytes
        return low == 0 and high >= self.buffers[self.slots[slot].buffer].num_bytes

    def _written(self, view: View) -> list[int]:
        """Slots of whole numbers (or truth values) whose contents a call decides; views keep theirs."""
        call = view.call
        given = {self.slots[slot].buffer for slot in _slots_of(call.arguments)}
        made = [slot for slot in call.outputs if slot != NONE and self.slots[slot].buffer not in given]
        return [slot for slot in (*made, *_written_in_place(call)) if not self.slots[slot].is_floating]

    def _forget(self, call: ReplayCall) -> None:
        """A collective brings what others have."""
        for slot in _written_in_place(call):
            if not self.slots[slot].is_floating:
                self._origins[self.slots[slot].buffer] = None


def _written_in_place(call: ReplayCall) -> list[int]:
    """Slots that a call writes into, which were there before it."""
    if call.kind is not CallKind.OPERATOR:
        return _slots_of(call.arguments[:1]) if call.kind is CallKind.COLLECTIVE else []
    arguments = zip(parse_schema(call.schema).arguments, call.arguments, strict=False)
    return [slot for described, value in arguments if described.is_written for slot in _slots_of((value,))]


def _slots_of(arguments: tuple[Argument, ...]) -> list[int]:
    return list(slots_in(arguments))


def _exchanged(value: Argument, old: int, new: int) -> Argument:
    if isinstance(value, SlotUse):
        return SlotUse(new) if value.slot == old else value
    return tuple(_exchanged(item, old, new) for item in value) if isinstance(value, tuple) else value


def _overlap(one: Slot, other: Slot) -> bool:
    (low, high), (other_low, other_high) = one.span_bytes, other.span_bytes
    return low < other_high and other_low < high


def _fits(bounds: Bounds, filling: Filling) -> bool:
    if filling.kind in _BOUNDED:
        return filling.low <= bounds.low and bounds.high <= filling.high
    is_from_zero = bounds.low == 0 and bounds.is_rising and bounds.high <= filling.high
    return filling.kind is Fill.OFFSETS and is_from_zero and not filling.has_last


def _merged(one: Filling, other: Filling) -> Filling | None:
    """What satisfies both; ``None`` where nothing does."""
    if one.kind in _BOUNDED and other.kind in _BOUNDED:
        low, high = max(one.low, other.low), min(one.high, other.high)
        kept = one if one.kind is Fill.LOOKUPS else other
        return replace(kept, low=low, high=high) if low <= high else None
    if one.kind is other.kind is Fill.POSITIVE:
        return replace(
            one, low=max(one.low, other.low), high=max(min(one.high, other.high), max(one.low, other.low))
        )
    same = replace(one, reason="") == replace(other, reason="")
    is_recorded = Fill.RECORDED in (one.kind, other.kind)
    return one if same or (is_recorded and one.kind is Fill.RECORDED) else None


def _narrower(rule: Need | None, recorded: Need | None, count: int) -> Need:
    """What the operator needs of ``count`` elements, within what was recorded where that fits.

    Raises:
        TraceError: Recorded values are not what the operator needs.
    """
    if rule is None or recorded is None:
        found = rule or recorded
        assert found is not None
        return found
    if recorded.filling.kind is Fill.RECORDED:
        check_recorded(recorded.filling, rule.filling, count)
        return replace(recorded, is_strict=rule.is_strict)
    merged = _merged(rule.filling, recorded.filling)
    return replace(rule, filling=merged) if merged is not None else rule
