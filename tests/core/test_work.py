"""Calls, layers and stages."""

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.work import Call, Layer, LayerRun, StageWork, StepWork, Stream, shifted

KERNEL = Operation(OperationKind.ELEMENTWISE, "add", (), (), DType.BF16, 1, 1, 6)
COLLECTIVE = collective_operation("all_reduce", 1024, range(8))


def test_a_step_lists_each_different_operation_once():
    layer = Layer("layer", (Call(KERNEL), Call(COLLECTIVE, Stream.TENSOR, after=(0,))), (Call(KERNEL),))
    stage = StageWork(((LayerRun(0, 4),),), optimizer=(Call(KERNEL),))
    send = collective_operation("send", 64, (0, 8))
    work = StepWork(Plan(pipeline_parallel=2), (layer,), (stage, stage), boundary=send)
    assert work.operations() == (KERNEL, COLLECTIVE, send)


def test_only_communication_is_a_collective():
    assert not Call(KERNEL).is_collective
    assert Call(COLLECTIVE, Stream.TENSOR).is_collective


def test_calls_behind_others_still_wait_for_the_same_ones():
    calls = (Call(KERNEL), Call(COLLECTIVE, Stream.TENSOR, after=(0,)))
    assert [call.after for call in shifted(calls, 5)] == [(), (5,)]
