"""Places of tensors: buffers with their lives, and one slot for every window onto them that is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.errors import TraceError
from perfcast.replays.play.limits import ReplayLimits, check_bytes
from perfcast.replays.program.draft import Draft, DraftValue, uses_in
from perfcast.replays.program.program import Argument, Buffer, CallKind, ReplayCall, Slot, SlotUse, slots_in
from perfcast.replays.program.strides import contiguous_strides
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import TensorUse
from perfcast.traces.execution_trace.storages import reach_elements

_Key = tuple[int, str, int, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Placed:
    """Calls with their slots, and all slots and buffers; given slots are not filled yet.

    ``by_storage`` has the buffers of each storage of the trace.
    """

    calls: list[ReplayCall]
    slots: list[Slot]
    buffers: list[Buffer]
    by_storage: dict[int, list[int]]


class _OpenBuffer:
    """A buffer while its uses are gathered."""

    def __init__(self, device: str, maker: int, call: int) -> None:
        self.device, self.maker = device, maker
        self.first_call = self.last_call = call
        self.num_bytes = 0


def place_tensors(drafts: Sequence[Draft], limits: ReplayLimits) -> Placed:
    """Give every tensor of the calls its slot, and every life of a storage its buffer.

    A life that first shows among the results of a call is made by that call; one that shows first among
    arguments is given.

    Raises:
        TraceError: A tensor of an unknown element type, or larger than the limit.
    """
    places = _Places(limits)
    calls = [places.call(index, draft) for index, draft in enumerate(drafts)]
    buffers = [
        Buffer(one.num_bytes, one.device, one.maker, one.first_call, one.last_call) for one in places.buffers
    ]
    by_storage: dict[int, list[int]] = {}
    for (storage, _), number in places.buffer_of.items():
        by_storage.setdefault(storage, []).append(number)
    return Placed(calls, places.slots, buffers, by_storage)


class _Places:
    def __init__(self, limits: ReplayLimits) -> None:
        self.slots: list[Slot] = []
        self.buffers: list[_OpenBuffer] = []
        self._limits = limits
        self._slot_of: dict[_Key, int] = {}
        self.buffer_of: dict[tuple[int, str], int] = {}
        self._steps: list[int] = []  # of each slot: the step in which it got its tensor
        self._given: set[int] = set()  # the slots among the current call's arguments
        self._given_sparse: set[int] = set()  # ids of the sparse tensors among them
        self._step = 0

    def call(self, index: int, draft: Draft) -> ReplayCall:
        """The call with places for tensors; arguments before results, so that results may be new."""
        self._step = draft.step
        arguments = tuple(self._argument(value, index) for value in draft.arguments)
        self._given = set(slots_in(arguments))
        self._given_sparse = {use.tensor_id for use in uses_in(draft.arguments) if use.is_sparse}
        outputs = tuple(NONE if use is None else self._output(use, index) for use in draft.outputs)
        return ReplayCall(
            node_id=draft.node_id,
            kind=draft.kind,
            operator=draft.operator,
            overload=draft.overload,
            schema=draft.schema,
            arguments=() if draft.kind is CallKind.WAIT else arguments,
            outputs=outputs,
            gap_seconds=draft.gap_seconds,
            recorded_seconds=draft.recorded_seconds,
            module=draft.module,
            step=draft.step,
            stream=draft.stream,
            collective=draft.collective,
            is_asynchronous=draft.is_asynchronous,
            is_differentiated=draft.is_differentiated,
        )

    def _argument(self, value: DraftValue, call: int) -> Argument:
        if isinstance(value, TensorUse):
            return SlotUse(self._slot(value, call, is_output=False)[0])
        if isinstance(value, tuple):
            return tuple(self._argument(item, call) for item in value)
        return value

    def _output(self, use: TensorUse, call: int) -> int:
        """The slot of a result, ``NONE`` where it has one from before."""
        if use.is_sparse and use.tensor_id not in self._given_sparse:
            self.buffer_of.pop(_life(use), None)
        slot, is_new = self._slot(use, call, is_output=True)
        return slot if is_new else NONE

    def _slot(self, use: TensorUse, call: int, *, is_output: bool) -> tuple[int, bool]:
        strides = use.strides if use.strides is not None else contiguous_strides(use.shape)
        buffer = self._buffer(use, call, strides, is_output=is_output)
        key = (buffer, use.dtype, use.offset_elements, use.shape, strides)
        known = self._slot_of.get(key)
        if known is not None and not (is_output and self._is_made_again(known)):
            return known, False
        slot = Slot(
            buffer=buffer,
            dtype=use.dtype,
            offset_elements=use.offset_elements,
            shape=use.shape,
            strides=strides,
            device=use.device or "cpu",
            maker=call if is_output else NONE,
        )
        self.slots.append(slot)
        self._steps.append(self._step)
        self._slot_of[key] = len(self.slots) - 1
        return len(self.slots) - 1, True

    def _is_made_again(self, slot: int) -> bool:
        """Whether a call of another step made this slot, so that each step has views of its own."""
        is_made = self.slots[slot].maker != NONE
        return is_made and self._steps[slot] != self._step and slot not in self._given

    def _buffer(self, use: TensorUse, call: int, strides: tuple[int, ...], *, is_output: bool) -> int:
        num_bytes = _reach_bytes(use, strides)
        check_bytes(num_bytes, f"a tensor of shape {list(use.shape)[:8]}", self._limits)
        device = use.device or "cpu"
        life = _life(use)
        number = self.buffer_of.get(life)
        if number is None:
            number = len(self.buffers)
            self.buffers.append(_OpenBuffer(device, call if is_output else NONE, call))
            self.buffer_of[life] = number
        buffer = self.buffers[number]
        buffer.num_bytes = max(buffer.num_bytes, num_bytes)
        buffer.last_call = call
        return number


def _life(use: TensorUse) -> tuple[int, str]:
    """The piece of memory that a tensor lies in, by its number and device; one without is its own."""
    return (use.storage if use.storage != NONE else -2 - use.tensor_id), use.device or "cpu"


def _reach_bytes(use: TensorUse, strides: tuple[int, ...]) -> int:
    """Bytes from the buffer's start to the end of the last element of a tensor."""
    width = dtype_bytes(use.dtype)
    if not width:
        raise TraceError(f"a tensor of an element type that is not known: {use.dtype[:40]!r}")
    if len(strides) != len(use.shape) or any(size < 0 for size in (*use.shape, *strides)):
        raise TraceError(f"a tensor that makes no sense: shape {use.shape[:8]}, strides {strides[:8]}")
    reach = reach_elements(use.shape, strides)
    return (use.offset_elements + reach) * width if reach else 0
