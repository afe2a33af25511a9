"""Calls of a program as the shared description of what follows the batch reads them."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.replays.build.differentiated import parameters
from perfcast.replays.program import program as replay
from perfcast.replays.program.program import (
    CallKind,
    DeviceName,
    ReplayCall,
    ReplayProgram,
    SlotUse,
    slots_in,
)
from perfcast.traces.events import NONE
from perfcast.traces.scaling.blanks.run import Blank, Blanks, Value, run_blank
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument

#: The label under which autograd adds to a parameter's gradient.
_ACCUMULATED = "torch::autograd::AccumulateGrad"
#: What optimizers write parameters with.
_UPDATES = ("aten::_foreach_", "aten::_fused_", "aten::add", "aten::sub_")


@dataclass(frozen=True, slots=True)
class SlotKey:
    """A slot; ``dropped`` ones are results that nobody asks for, and have none."""

    index: int
    dropped: int = NONE


def calls_of_program(program: ReplayProgram) -> list[ScalingCall]:
    """All operators, named by their places in the program; what only moves or waits computes nothing."""
    calls = [_call(program, index, call) for index, call in enumerate(program.calls)]
    trained = tuple(tensor_of(program, slot) for slot in sorted(_trained(program)))
    return [ScalingCall(NONE, _ACCUMULATED, None, trained, (), NONE, is_operator=False), *calls]


def _trained(program: ReplayProgram) -> set[int]:
    """Parameters that the program's optimizer updates; without one, none are known."""
    updated = {
        program.slots[slot].buffer
        for call in program.calls
        if not call.is_differentiated and call.operator.startswith(_UPDATES) and call.arguments
        for slot in slots_in(call.arguments[:1])
    }
    return {slot for slot in parameters(program) if program.slots[slot].buffer in updated}


def _call(program: ReplayProgram, index: int, call: ReplayCall) -> ScalingCall:
    if call.kind is not CallKind.OPERATOR:
        return _exchange(program, index, call)
    arguments = tuple(_argument(program, argument) for argument in call.arguments)
    overload = call.overload or "default"
    outputs: list[TensorArgument | None] = [
        None if slot == NONE else tensor_of(program, slot) for slot in call.outputs
    ]
    if None in outputs or not outputs:
        outputs = _completed(
            outputs, run_blank(call.operator, overload, tuple(map(_value, arguments))), index
        )
    return ScalingCall(index, call.operator, overload, arguments, tuple(outputs), index)


def _exchange(program: ReplayProgram, index: int, call: ReplayCall) -> ScalingCall:
    """A collective: what it receives is as large as what it sends, where these are alike."""
    arguments = tuple(_argument(program, argument) for argument in call.arguments)
    pairs = [one if isinstance(one, tuple) else (one,) for one in arguments[:2]]
    if call.kind is CallKind.COLLECTIVE and [len(pair) for pair in pairs] == [1, 1]:
        (received,), (sent,) = pairs
        both = isinstance(received, TensorArgument) and isinstance(sent, TensorArgument)
        if both and received != sent and received.shape == sent.shape:  # type: ignore[union-attr]
            assert isinstance(received, TensorArgument)
            return ScalingCall(index, "aten::copy_", "default", (received, sent, False), (received,), index)
    return ScalingCall(index, call.operator, None, arguments, (), index, is_operator=False)


def tensor_of(program: ReplayProgram, index: int) -> TensorArgument:
    """A slot as recorded; of a stand-in, the one whose place it takes."""
    stands_for = program.slots[index].stands_for
    index = index if stands_for == NONE else stands_for
    slot = program.slots[index]
    return TensorArgument(
        SlotKey(index), slot.buffer, slot.dtype, slot.shape, slot.strides, slot.offset_elements
    )


def _argument(program: ReplayProgram, argument: replay.Argument) -> Argument:
    if isinstance(argument, SlotUse):
        return tensor_of(program, argument.slot)
    if isinstance(argument, tuple):
        return tuple(_argument(program, item) for item in argument)
    return None if isinstance(argument, DeviceName) else argument


def _value(argument: Argument) -> Value:
    if isinstance(argument, TensorArgument):
        return Blank(argument.shape, argument.strides, argument.dtype)
    return tuple(map(_value, argument)) if isinstance(argument, tuple) else argument


def _completed(
    outputs: list[TensorArgument | None], blanks: Blanks | str, index: int
) -> list[TensorArgument | None]:
    """The results with those that nobody asks for, as they come out of sizes as recorded."""
    made = [known for known in outputs if known is not None]
    if isinstance(blanks, str):
        return outputs
    if len(blanks) < len(outputs):  # of gradients, those that nobody asked for
        return [*made] if len(blanks) == len(made) else outputs
    outputs = [*outputs, *(None for _ in blanks[len(outputs) :])]
    return [
        TensorArgument(SlotKey(index, place), None, blank.dtype, blank.shape, blank.strides)
        if known is None and blank is not None
        else known
        for place, (known, blank) in enumerate(zip(outputs, blanks, strict=True))
    ]
