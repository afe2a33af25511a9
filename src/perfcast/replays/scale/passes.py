"""One pass through a program with some tensors assumed to carry the batch: what follows for all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfcast.errors import InputError, PerfcastError
from perfcast.replays.play.bind import bind_call
from perfcast.replays.play.prepare import element_type
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, SlotUse, slots_in
from perfcast.replays.scale.layout import (
    BatchChange,
    carried_after_view,
    carried_in_window,
    scaled_slot,
)
from perfcast.replays.scale.literals import (
    EXPANDS,
    RESHAPES,
    SPREADS,
    Place,
    attempts,
    cut,
    is_factory,
    number_at,
    reshaped,
    size_places,
    spread,
    unflattened,
    with_scaled,
)
from perfcast.traces.events import NONE


@dataclass(frozen=True, slots=True)
class Seed:
    """Where the batch may come in: a dimension of a given slot, or a literal of a call."""

    slot: int = NONE
    dim: int = NONE
    call: int = NONE
    place: Place = (NONE, None)


@dataclass(frozen=True, slots=True)
class Failure:
    """The call that could not be run with what was assumed, and why."""

    call: int
    reason: str


class ScalePass:
    """Follows the batch from its seeds; ``calls`` and ``carried`` (by slot) are what comes out."""

    def __init__(self, program: ReplayProgram, batch: BatchChange, seeds: frozenset[Seed]) -> None:
        self.seeds = seeds
        self.calls: list[ReplayCall] = []
        self.carried: dict[int, dict[int, int]] = {}
        self._program, self._batch = program, batch
        self._bases: dict[int, int] = {}  # buffer → the slot that was first seen of it
        self._literals: dict[int, list[Place]] = {}
        for seed in sorted(seeds, key=lambda one: (one.call, str(one.place))):
            if seed.call != NONE:
                self._literals.setdefault(seed.call, []).append(seed.place)

    def run(self) -> Failure | None:
        """Goes through all calls; the first that fails, or ``None``."""
        for index, call in enumerate(self._program.calls):
            try:
                for slot in slots_in(call.arguments):
                    self._enter(slot)
                self.calls.append(self._follow(index, call))
            except PerfcastError as error:
                return Failure(index, str(error))
        return None

    def _enter(self, index: int) -> None:
        """A slot that no call made: as its memory, or as it is assumed."""
        if index in self.carried:
            return
        slot = self._program.slots[index]
        base = self._bases.setdefault(slot.buffer, index)
        if base != index:
            found = carried_in_window(
                slot, self._program.slots[base], self.carried.get(base, {}), self._batch
            )
        else:
            dims = [seed.dim for seed in self.seeds if seed.slot == index]
            found = {dim: slot.shape[dim] // self._batch.recorded for dim in dims}
        self.carried[index] = found

    def _follow(self, index: int, call: ReplayCall) -> ReplayCall:
        """The call with its literals, once its results are known.

        Raises:
            InputError: It cannot be run with these sizes.
        """
        if call.kind is CallKind.COLLECTIVE:
            return self._collective(call)
        if call.kind is not CallKind.OPERATOR:
            return call
        reason = ""
        for attempt in self._attempts(index, call):
            found = _run_without_memory(attempt, self._meta)
            if isinstance(found, str):
                reason = reason or found
                continue
            carried = self._carried_by(call, found)
            if carried is None:
                reason = reason or "gives a tensor of a size that is neither the recorded one nor scaled"
                continue
            for slot, dims in carried.items():
                self.carried[slot] = dims
                self._bases.setdefault(self._program.slots[slot].buffer, slot)
            return attempt
        if not any(slot != NONE for slot in call.outputs) and isinstance(self._as_recorded(call), str):
            return call  # needs numbers, not sizes, and nothing follows from it
        raise InputError(f"cannot be run with these sizes: {reason}")

    def _attempts(self, index: int, call: ReplayCall) -> Iterator[ReplayCall]:
        """The call with its literals as the batch asks for; where that is not known, with some of them."""
        own = next(iter(slots_in(call.arguments)), NONE)
        carried = self.carried.get(own, {})
        old = self._program.slots[own].shape if own != NONE else ()
        made = call.outputs[0] if call.outputs else NONE
        if call.operator in RESHAPES and own != NONE and (made != NONE or not carried):
            new = self._program.slots[made].shape if made != NONE else old
            yield reshaped(call, old, carried, new, self._batch)
        elif call.operator in EXPANDS:
            yield with_scaled(call, self._expanded(index, call, own), self._batch)
        elif call.operator in SPREADS:
            yield spread(call, carried, self._batch)
        elif call.operator == "aten::unflatten":
            yield unflattened(call, carried, self._batch) or call
        elif call.operator == "aten::as_strided" and made != NONE:
            yield self._strided(call, own, made)
        elif is_factory(call):
            yield with_scaled(call, self._literals.get(index, ()), self._batch)
        else:
            changed = cut(call, carried, len(old), self._batch)
            yield from (changed,) if changed is not call else attempts(call, self._batch)

    def _expanded(self, index: int, call: ReplayCall, own: int) -> list[Place]:
        """The sizes of an expansion that carry the batch: its argument's, and those that are assumed."""
        shape, carried = self._program.slots[own].shape, self.carried.get(own, {})
        places = size_places(call)
        found = []
        for position, place in enumerate(places):
            dim = position - len(places) + len(shape)
            is_kept = dim >= 0 and shape[dim] == number_at(call, place)
            if (is_kept and dim in carried and shape[dim] > 1) or (
                not is_kept and place in self._literals.get(index, ())
            ):
                found.append(place)
        return found

    def _strided(self, call: ReplayCall, own: int, made: int) -> ReplayCall:
        """``aten::as_strided`` onto memory whose sizes have changed."""
        slot = self._program.slots[made]
        carried = carried_in_window(slot, self._program.slots[own], self.carried.get(own, {}), self._batch)
        new = scaled_slot(slot, carried, self._batch)
        rest = (new.offset_elements,) if len(call.arguments) > 3 and call.arguments[3] is not None else ()
        kept = call.arguments[3 + len(rest) :]
        return replace(call, arguments=(call.arguments[0], new.shape, new.strides, *rest, *kept))

    def _carried_by(self, call: ReplayCall, found: Sequence[Any]) -> dict[int, dict[int, int]] | None:
        """Which dimensions of the results carry the batch; ``None``: sizes that make no sense."""
        shapes = [None if tensor is None else tuple(tensor.shape) for tensor in found]
        if all(self._changed(old, new) is not None for _, old, new in self._pairs(call, shapes)):
            expected = [old for _, old, _ in self._pairs(call, shapes)]
        else:  # the operator tells other sizes without memory than it does with it
            recorded_results = self._as_recorded(self._program.calls[len(self.calls)])
            if isinstance(recorded_results, str):
                return None
            known = [None if tensor is None else tuple(tensor.shape) for tensor in recorded_results]
            expected = [shape for _, _, shape in self._pairs(call, known)]
        result: dict[int, dict[int, int]] = {}
        for (slot, recorded, new), old in zip(self._pairs(call, shapes), expected, strict=True):
            dims = self._changed(old, new)
            if dims is None:
                return None
            is_as_recorded = old == recorded
            result[slot] = {dim: self._inner(call, recorded, dim) for dim in dims} if is_as_recorded else {}
        return result

    def _pairs(
        self, call: ReplayCall, shapes: Sequence[tuple[int, ...] | None]
    ) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """The slots that come out, their recorded sizes, and those that came out."""
        return [
            (slot, self._program.slots[slot].shape, shape)
            for slot, shape in zip(call.outputs, shapes, strict=False)
            if slot != NONE and shape is not None
        ]

    def _changed(self, old: Sequence[int], new: Sequence[int]) -> list[int] | None:
        """The dimensions that are larger by the ratio; ``None`` where another one has changed."""
        if len(old) != len(new):
            return None
        dims = [dim for dim, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
        is_right = all(
            self._batch.divides(old[dim]) and self._batch.scaled(old[dim]) == new[dim] for dim in dims
        )
        return dims if is_right else None

    def _inner(self, call: ReplayCall, shape: Sequence[int], dim: int) -> int:
        """How many elements of a result's dimension stand inside one place of the batch."""
        sources = list(slots_in(call.arguments))
        if call.operator in RESHAPES and sources:
            own = self._program.slots[sources[0]]
            moved = carried_after_view(own.shape, self.carried[sources[0]], shape, self._batch)
            if dim in moved:
                return moved[dim]
        for slot in sources:
            for other, inner in self.carried[slot].items():
                if self._program.slots[slot].shape[other] == shape[dim]:
                    return inner
        return shape[dim] // self._batch.recorded

    def _collective(self, call: ReplayCall) -> ReplayCall:
        """A collective of tensors that carry the batch moves as many more elements, split alike."""
        collective = call.collective
        if collective is None or not any(self.carried[slot] for slot in slots_in(call.arguments)):
            return call
        sent = list(slots_in((call.arguments[1],))) or list(slots_in(call.arguments))
        if not all(self.carried[slot] for slot in sent):
            raise InputError("exchanges some tensors that carry the batch and some that do not")
        scaled = self._batch.scaled
        return replace(
            call,
            collective=replace(
                collective,
                in_elements=scaled(collective.in_elements),
                out_elements=scaled(collective.out_elements),
                in_splits=tuple(scaled(size) for size in collective.in_splits),
                out_splits=tuple(scaled(size) for size in collective.out_splits),
            ),
        )

    def _meta(self, index: int) -> Any:
        """A slot as a tensor without memory, of its new sizes."""
        slot = self._program.slots[index]
        new = scaled_slot(slot, self.carried.get(index, {}), self._batch)
        return _without_memory(new.shape, new.strides, slot.dtype)

    def _as_recorded(self, call: ReplayCall) -> Any:
        def recorded(index: int) -> Any:
            slot = self._program.slots[index]
            return _without_memory(slot.shape, slot.strides, slot.dtype)

        return _run_without_memory(call, recorded)


def _without_memory(shape: Sequence[int], strides: Sequence[int], dtype: str) -> Any:
    import torch

    return torch.empty_strided(tuple(shape), tuple(strides), dtype=element_type(dtype), device="meta")


def _run_without_memory(call: ReplayCall, tensor: Any) -> list[Any] | str:
    """What an operator gives for tensors without memory, lists opened; why it fails, if it does."""
    import torch

    def placed(value: Any) -> Any:
        if isinstance(value, SlotUse):
            return tensor(value.slot)
        if isinstance(value, torch.device):
            return torch.device("meta")
        return [placed(item) for item in value] if isinstance(value, (list, tuple)) else value

    bound = bind_call(call)
    keywords = {key: placed(value) for key, value in bound.keywords.items() if key != "pin_memory"}
    try:
        with torch.no_grad():
            return _opened(bound.function(*[placed(value) for value in bound.positional], **keywords))
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return (str(error).strip().splitlines() or ["it fails"])[0][:200]


def _opened(found: Any) -> list[Any]:
    import torch

    if isinstance(found, (list, tuple)):
        return [tensor for item in found for tensor in _opened(item)]
    return [found] if found is None or isinstance(found, torch.Tensor) else []
