"""Replay programs written by hand, in a few lines."""

from __future__ import annotations

import math

from perfcast.replays.program.program import (
    Argument,
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    ReplayProgram,
    Slot,
    SlotUse,
)
from perfcast.traces.events import NONE

NORMAL = Filling(Fill.NORMAL, scale=0.02)
ELEMENT_BYTES = {"float32": 4, "int64": 8, "bool": 1}
SCHEMAS = {
    "aten::mm": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
    "aten::t": "aten::t(Tensor(a) self) -> Tensor(a)",
    "aten::relu": "aten::relu(Tensor self) -> Tensor",
    "aten::view": "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "aten::add_": "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::sum": "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    "aten::embedding": (
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
        "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"
    ),
    "aten::max": "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "aten::split": "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::cat": "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
}


class Script:
    """Writes a program: tensors that are given, then calls, step by step."""

    def __init__(self) -> None:
        self.calls: list[ReplayCall] = []
        self.slots: list[Slot] = []
        self.buffers: list[Buffer] = []
        self.step = 0

    def given(self, *shape: int, dtype: str = "float32", filling: Filling = NORMAL) -> int:
        """A tensor that is there before the program."""
        buffer = self._buffer(shape, dtype, NONE)
        return self._slot(buffer, dtype, shape, NONE, filling)

    def call(self, operator: str, *arguments: Argument, makes: tuple[int, ...] = (), **named: object) -> int:
        """A call that makes one new tensor of the shape ``makes``."""
        return self.calls_many(operator, *arguments, makes=(makes,), **named)[0]

    def calls_many(
        self, operator: str, *arguments: Argument, makes: tuple[tuple[int, ...], ...] = (), **named: object
    ) -> list[int]:
        """A call that makes new tensors of these shapes."""
        dtypes = named.get("dtypes", ("float32",) * len(makes))
        assert isinstance(dtypes, tuple)
        index = len(self.calls)
        made = [
            self._slot(self._buffer(shape, dtype, index), dtype, shape, index)
            for shape, dtype in zip(makes, dtypes, strict=True)
        ]
        self._append(operator, arguments, tuple(made), str(named.get("module", "")))
        return made

    def view(self, operator: str, slot: int, *arguments: Argument, shape: tuple[int, ...]) -> int:
        """A call that makes a row-by-row view of a tensor."""
        index = len(self.calls)
        made = self._slot(self.slots[slot].buffer, self.slots[slot].dtype, shape, index)
        self._append(operator, (SlotUse(slot), *arguments), (made,), "")
        return made

    def write(self, operator: str, *arguments: Argument) -> None:
        """A call that makes nothing new."""
        self._append(operator, arguments, (NONE,), "")

    def program(self, **fields: object) -> ReplayProgram:
        """What was written."""
        lives: dict[int, tuple[int, int]] = {}
        for place, call in enumerate(self.calls):
            for slot in (*_slots(call.arguments), *(s for s in call.outputs if s != NONE)):
                buffer = self.slots[slot].buffer
                lives[buffer] = (lives.get(buffer, (place, place))[0], place)
        buffers = (
            Buffer(one.num_bytes, one.device, one.maker, *lives.get(i, (0, 0)))
            for i, one in enumerate(self.buffers)
        )
        return ReplayProgram(
            tuple(self.calls),
            tuple(self.slots),
            tuple(buffers),
            num_steps=self.step + 1,
            source="made up",
            source_hash="0" * 64,
            **fields,  # type: ignore[arg-type]
        )

    def _buffer(self, shape: tuple[int, ...], dtype: str, maker: int) -> int:
        self.buffers.append(Buffer(math.prod(shape) * ELEMENT_BYTES[dtype], "cpu", maker, 0, 0))
        return len(self.buffers) - 1

    def _slot(
        self, buffer: int, dtype: str, shape: tuple[int, ...], maker: int, filling: Filling | None = None
    ) -> int:
        strides, expected = [], 1
        for size in reversed(shape):
            strides.append(expected)
            expected *= size
        dense = tuple(reversed(strides))
        self.slots.append(Slot(buffer, dtype, 0, shape, dense, "cpu", maker, filling))
        return len(self.slots) - 1

    def _append(
        self, operator: str, arguments: tuple[Argument, ...], outputs: tuple[int, ...], module: str
    ) -> None:
        schema = SCHEMAS[operator]
        overload = schema.partition("(")[0].partition(".")[2]
        self.calls.append(
            ReplayCall(
                node_id=len(self.calls) + 1,
                kind=CallKind.OPERATOR,
                operator=operator,
                overload=overload,
                schema=schema,
                arguments=arguments,
                outputs=outputs,
                module=module,
                step=self.step,
            )
        )


def _slots(arguments: tuple[Argument, ...]) -> list[int]:
    found = []
    for argument in arguments:
        if isinstance(argument, SlotUse):
            found.append(argument.slot)
        elif isinstance(argument, tuple):
            found += _slots(argument)
    return found


def two_layers(batch: int = 8, num_steps: int = 1) -> ReplayProgram:
    """A small perceptron's forward pass: lookups, a product, a view, an activation, a product, a sum."""
    script = Script()
    table, first, second = script.given(100, 16), script.given(16, 32), script.given(32, 4)
    for step in range(num_steps):
        script.step = step
        rows = script.given(batch, dtype="int64", filling=Filling(Fill.UNIFORM, 0, 99))
        looked = script.call(
            "aten::embedding", SlotUse(table), SlotUse(rows), -1, False, False, makes=(batch, 16)
        )
        hidden = script.call("aten::mm", SlotUse(looked), SlotUse(first), makes=(batch, 32), module="up")
        folded = script.view("aten::view", hidden, (batch, 4, 8), shape=(batch, 4, 8))
        active = script.call("aten::relu", SlotUse(folded), makes=(batch, 4, 8))
        flat = script.view("aten::view", active, (batch, 32), shape=(batch, 32))
        answer = script.call("aten::mm", SlotUse(flat), SlotUse(second), makes=(batch, 4), module="down")
        script.call("aten::sum", SlotUse(answer), None)
    return script.program()
