"""One pass through a program at another batch: every slot is laid out, every call is run to check it.

What follows the batch is decided before (``traces/scaling``). Each call is run on tensors without memory
(PyTorch's ``meta`` device), as recorded and with the new sizes: it has to give what was decided, and says
how its results lie in memory. Calls whose results depend on data cannot be run so, and keep what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfcast.errors import InputError
from perfcast.replays.play.bind import bind_call
from perfcast.replays.play.prepare import element_type
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, Slot, SlotUse, slots_in
from perfcast.replays.scale.calls import SlotKey
from perfcast.replays.scale.layout import Resized, Shape, elements, own_memory, window
from perfcast.replays.scale.literals import scaled_literals, window_arguments
from perfcast.traces.events import NONE
from perfcast.traces.scaling.blanks.run import dense_strides, needs_memory
from perfcast.traces.scaling.extents import Dim, size_of
from perfcast.traces.scaling.scaling import Scaling

Dims = tuple[Dim, ...]


class ScalePass:
    """``calls`` and ``slots`` are what comes out; slots that no call uses stay.

    Args:
        dims: Of each slot that a call uses: what its sizes are made of.
    """

    def __init__(self, program: ReplayProgram, scaling: Scaling, dims: Mapping[SlotKey, Dims]) -> None:
        self.calls: list[ReplayCall] = []
        self._program, self._scaling, self._dims = program, scaling, dims
        self._shapes: dict[SlotKey, Shape] = {key: tuple(map(scaling.size, own)) for key, own in dims.items()}
        self._new: dict[int, Slot] = {}
        self._bases: dict[int, int] = {}  # buffer → the slot that was first seen of it

    @property
    def slots(self) -> list[Slot]:
        """All slots with their new sizes."""
        return [self._new.get(index, slot) for index, slot in enumerate(self._program.slots)]

    def run(self) -> None:
        """Goes through all calls.

        Raises:
            InputError: A call that cannot be run with the new sizes, by its name.
        """
        for index, call in enumerate(self._program.calls):
            for slot in slots_in(call.arguments):
                self._enter(slot)
            try:
                self.calls.append(self._follow(index, call))
            except InputError as error:
                raise InputError(
                    f"the batch cannot be changed from {self._scaling.recorded} to {self._scaling.wanted}: "
                    f"{call.name} (node {call.node_id}) {error}"
                ) from error

    def _shape(self, index: int) -> Shape:
        return self._shapes.get(SlotKey(index), self._program.slots[index].shape)

    def _enter(self, index: int) -> None:
        """A slot that no call has made yet: by the memory that it is a window onto."""
        if index in self._new:
            return
        slot = self._program.slots[index]
        if slot.stands_for != NONE:
            self._enter(slot.stands_for)
            like = self._new[slot.stands_for]
            self._new[index] = replace(slot, shape=like.shape, strides=like.strides)
            return
        base = self._bases.setdefault(slot.buffer, index)
        shape = self._shape(index)
        self._new[index] = own_memory(slot, shape) if base == index else window(slot, shape, self._pair(base))

    def _pair(self, index: int) -> Resized:
        return Resized(self._program.slots[index], self._new[index])

    def _follow(self, index: int, call: ReplayCall) -> ReplayCall:
        if call.kind is CallKind.COLLECTIVE:
            return self._collective(call)
        if call.kind is not CallKind.OPERATOR:
            return call
        made = [self._expected(slot, SlotKey(index, at)) for at, slot in enumerate(call.outputs)]
        given = [self._pair(slot) for slot in slots_in(call.arguments)]
        if call.operator == "aten::as_strided" and made and made[0] is not None:
            new = window_arguments(call, made[0])
        else:
            new = scaled_literals(call, index, self._scaling, made, given, self._first_dims(index, call))
        if new == call and all(one is None or one.old == one.new for one in (*made, *given)):
            self._settle(call, made)
            return call
        self._settle(call, self._checked(index, call, new, made))
        return new

    def _first_dims(self, index: int, call: ReplayCall) -> tuple[Dims, Dims]:
        """What the first argument's sizes, and the first result's, are made of."""
        first = next(iter(slots_in(call.arguments)), NONE)
        made = next(iter(call.outputs), NONE)
        key = SlotKey(made) if made != NONE else SlotKey(index, 0)
        return self._dims.get(SlotKey(first), ()), self._dims.get(key, ())

    def _expected(self, index: int, dropped: SlotKey) -> Resized | None:
        """A result as was decided, its place in memory by that memory's other windows."""
        if index == NONE:
            return self._dropped(dropped)
        slot, shape = self._program.slots[index], self._shape(index)
        base = self._bases.get(slot.buffer)
        new = own_memory(slot, shape) if base is None else window(slot, shape, self._pair(base))
        return Resized(slot, new)

    def _dropped(self, key: SlotKey) -> Resized | None:
        """A result that nobody asks for: only its sizes."""
        if key not in self._shapes:
            return None
        old = tuple(map(size_of, self._dims[key]))
        one = Slot(NONE, "float32", 0, old, dense_strides(old, old, None), "")
        return Resized(one, own_memory(one, self._shapes[key]))

    def _settle(self, call: ReplayCall, made: Sequence[Resized | None]) -> None:
        for slot, resized in zip(call.outputs, made, strict=True):
            if slot != NONE and resized is not None:
                self._new[slot] = resized.new
                self._bases.setdefault(resized.old.buffer, slot)

    def _checked(
        self, index: int, call: ReplayCall, new: ReplayCall, made: Sequence[Resized | None]
    ) -> list[Resized | None]:
        """Results as they come out with the new sizes.

        Raises:
            InputError: None come out, or of other sizes than was decided.
        """
        before = _run(call, dict(enumerate(self._program.slots)))
        if isinstance(before, str):
            reason = self._scaling.followed.reasons.get(index, "")
            if reason and any(slot != NONE for slot in call.outputs):
                raise InputError(f"does not show what it makes of these sizes: {reason}")
            return list(made)  # what it gives depends on data
        after = _run(new, self._new)
        if isinstance(after, str):
            raise InputError(f"cannot be run with these sizes: {after}")
        pairs = zip(before, after, strict=True) if len(before) == len(after) else ()
        found = [_laid_out(one, *pair) for one, pair in zip(made, pairs, strict=False)]
        return [*found, *made[len(found) :]]

    def _collective(self, call: ReplayCall) -> ReplayCall:
        """A collective moves as many more elements as its tensors have, split alike."""
        collective = call.collective
        if collective is None:
            return call
        received = self._growth(call.arguments[:1])
        sent = self._growth(call.arguments[1:2]) if len(call.arguments) > 1 else received
        if received != sent:
            raise InputError("exchanges some tensors that follow the batch and some that do not")

        def scaled(size: int) -> int:
            count, rest = divmod(size * sent[0], sent[1])
            if rest:
                raise InputError(f"would exchange {size * sent[0] / sent[1]:g} elements in place of {size}")
            return count

        return replace(
            call,
            collective=replace(
                collective,
                in_elements=scaled(collective.in_elements),
                out_elements=scaled(collective.out_elements),
                in_splits=tuple(map(scaled, collective.in_splits)),
                out_splits=tuple(map(scaled, collective.out_splits)),
            ),
        )

    def _growth(self, arguments: tuple[Any, ...]) -> tuple[int, int]:
        """Elements after and before, of tensors that all grow alike; in lowest terms."""
        from math import gcd

        found = {(1, 1)} if not any(True for _ in slots_in(arguments)) else set()
        for slot in slots_in(arguments):
            old, new = elements(self._program.slots[slot].shape), elements(self._new[slot].shape)
            found.add((new // gcd(new, old), old // gcd(new, old)) if old else (1, 1))
        if len(found) > 1:
            raise InputError("exchanges some tensors that follow the batch and some that do not")
        return found.pop()


def _laid_out(made: Resized | None, before: Any, after: Any) -> Resized | None:
    """A result that lies in memory as it came out, where what came out as recorded lies as recorded."""
    if made is None or before is None or after is None or tuple(before.shape) != made.old.shape:
        return made  # the operator tells other sizes without memory than it does with it
    if tuple(after.shape) != made.new.shape:
        raise InputError(
            f"gives {list(after.shape)} where {list(made.new.shape)} would follow from {list(made.old.shape)}"
        )
    if tuple(before.stride()) != made.old.strides or before.storage_offset() != made.old.offset_elements:
        return made
    new = replace(made.new, strides=tuple(after.stride()), offset_elements=after.storage_offset())
    return Resized(made.old, new)


def _run(call: ReplayCall, slots: Mapping[int, Slot]) -> list[Any] | str:
    """What an operator gives for tensors without memory, lists opened; why it fails, if it does."""
    import torch

    if needs_memory(call.operator):
        return f"{call.operator} needs memory"

    def placed(value: Any) -> Any:
        if isinstance(value, SlotUse):
            return _without_memory(slots[value.slot])
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


def _without_memory(slot: Slot) -> Any:
    import torch

    dtype = element_type(slot.dtype)
    if not slot.offset_elements:
        return torch.empty_strided(slot.shape, slot.strides, dtype=dtype, device="meta")
    whole = torch.empty(slot.offset_elements + slot.reach_elements, dtype=dtype, device="meta")
    return whole.as_strided(slot.shape, slot.strides, slot.offset_elements)


def _opened(found: Any) -> list[Any]:
    import torch

    if isinstance(found, (list, tuple)):
        return [tensor for item in found for tensor in _opened(item)]
    return [found] if found is None or isinstance(found, torch.Tensor) else []
