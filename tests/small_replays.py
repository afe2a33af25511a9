"""A program of three calls written by hand, for tests of what plays programs."""

from __future__ import annotations

from dataclasses import replace

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

MATRIX_PRODUCT = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
INDEX = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"
_NORMAL = Filling(Fill.NORMAL, scale=1.0)


def call(
    operator: str,
    schema: str,
    arguments: tuple[Argument, ...],
    outputs: tuple[int, ...] = (),
    *,
    node_id: int = 1,
    overload: str = "",
) -> ReplayCall:
    """An operator's call."""
    return ReplayCall(node_id, CallKind.OPERATOR, operator, overload, schema, arguments, outputs)


def small_program() -> ReplayProgram:
    """(A · B), the upper half of it · A, rows of that by two given indices.

    The upper half is a tensor that no call returns. 64 + 64 + 16 bytes are given, 64 + 32 + 32 made.
    """
    buffers = (
        Buffer(64, "cpu", NONE, 0, 1),
        Buffer(64, "cpu", NONE, 0, 0),
        Buffer(64, "cpu", 0, 0, 1),
        Buffer(32, "cpu", 1, 1, 2),
        Buffer(16, "cpu", NONE, 2, 2),
        Buffer(32, "cpu", 2, 2, 2),
    )
    slots = (
        Slot(0, "float32", 0, (4, 4), (4, 1), "cpu", NONE, _NORMAL),
        Slot(1, "float32", 0, (4, 4), (4, 1), "cpu", NONE, _NORMAL),
        Slot(2, "float32", 0, (4, 4), (4, 1), "cpu", 0),
        Slot(2, "float32", 0, (2, 4), (4, 1), "cpu"),
        Slot(3, "float32", 0, (2, 4), (4, 1), "cpu", 1),
        Slot(4, "int64", 0, (2,), (1,), "cpu", NONE, Filling(Fill.UNIFORM, 0, 1)),
        Slot(5, "float32", 0, (2, 4), (4, 1), "cpu", 2),
    )
    calls = (
        call("aten::mm", MATRIX_PRODUCT, (SlotUse(0), SlotUse(1)), (2,), node_id=5),
        call("aten::mm", MATRIX_PRODUCT, (SlotUse(3), SlotUse(0)), (4,), node_id=6),
        call("aten::index", INDEX, (SlotUse(4), (SlotUse(5),)), (6,), node_id=7, overload="Tensor"),
    )
    return ReplayProgram(
        calls, slots, buffers, source="hand.json", source_hash="0" * 64, selection={"mode": "all"}
    )


def with_call(program: ReplayProgram, added: ReplayCall) -> ReplayProgram:
    """The program with one more call at its end."""
    return replace(program, calls=(*program.calls, added))
