"""Replay programs of a few collectives, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from perfcast.replays.program.program import (
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    ReplayProgram,
    Slot,
    SlotUse,
)
from perfcast.traces.events import NONE, Collective, ProcessGroup

ZEROS = Filling(Fill.ZEROS)


class ProgramWriter:
    """Calls one after another; every tensor is float32, given, and alone in its buffer unless said."""

    def __init__(self, world_size: int = 2, rank: int = 0) -> None:
        self.world_size, self.rank = world_size, rank
        self.calls: list[ReplayCall] = []
        self.slots: list[Slot] = []
        self.buffers: list[Buffer] = []
        self.groups = [ProcessGroup("0", "default_pg", "gloo", tuple(range(world_size)))]

    def tensor(self, *shape: int, maker: int = NONE) -> int:
        """A slot; ``maker`` is the call that makes it."""
        elements = prod(shape)
        self.buffers.append(Buffer(4 * elements, "cpu", maker, 0, 0))
        filling = ZEROS if maker == NONE else None
        strides = tuple(prod(shape[place + 1 :]) for place in range(len(shape)))
        self.slots.append(Slot(len(self.buffers) - 1, "float32", 0, shape, strides, "cpu", maker, filling))
        return len(self.slots) - 1

    def collective(
        self,
        name: str,
        received: Sequence[int],
        sent: Sequence[int] | None = None,
        *,
        root: int | None = None,
        received_splits: tuple[int, ...] = (),
        sent_splits: tuple[int, ...] = (),
        group: str = "0",
        is_asynchronous: bool = False,
        seconds: float = float("nan"),
        step: int = 0,
    ) -> int:
        """A collective; without ``sent`` it works in place."""
        sent = received if sent is None else sent
        collective = Collective(
            row=len(self.calls),
            name=name,
            in_elements=sum(prod(self.slots[slot].shape) for slot in sent),
            out_elements=sum(prod(self.slots[slot].shape) for slot in received),
            dtype="float32",
            group=group,
            group_size=0,
            in_splits=sent_splits,
            out_splits=received_splits,
            sequence=len(self.calls),
        )
        arguments = (tuple(map(SlotUse, received)), tuple(map(SlotUse, sent)), root)
        call = ReplayCall(
            len(self.calls),
            CallKind.COLLECTIVE,
            "c10d::any",
            "",
            "",
            arguments,
            collective=collective,
            is_asynchronous=is_asynchronous,
            communication_seconds=seconds,
            step=step,
        )
        return self._add(call)

    def operator(self, name: str, *slots: int, outputs: tuple[int, ...] = (), step: int = 0) -> int:
        """An operator on tensors."""
        return self._add(
            ReplayCall(
                len(self.calls),
                CallKind.OPERATOR,
                name,
                "",
                "",
                tuple(map(SlotUse, slots)),
                outputs,
                step=step,
            )
        )

    def wait(self, collective: int) -> int:
        """A recorded wait."""
        return self._add(
            ReplayCall(len(self.calls), CallKind.WAIT, "record_param_comms", "", "", (), waits_for=collective)
        )

    def _add(self, call: ReplayCall) -> int:
        self.calls.append(call)
        return len(self.calls) - 1

    def program(self) -> ReplayProgram:
        """All of it; buffers live to the end."""
        buffers = tuple(replace(buffer, last_call=len(self.calls) - 1) for buffer in self.buffers)
        return ReplayProgram(
            calls=tuple(self.calls),
            slots=tuple(self.slots),
            buffers=buffers,
            groups=tuple(self.groups),
            rank=self.rank,
            world_size=self.world_size,
            num_steps=1 + max((call.step for call in self.calls), default=0),
        )
