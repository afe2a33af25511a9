"""What the host does around the messages of a pipeline.

DeepSpeed's engine runs a list of instructions for every micro-batch (runtime/pipe/engine.py: load, send,
receive, forward, backward), and nanotron's sends each tensor's shape and type before it, which the receiving
host reads (parallel/pipeline_parallel/p2p.py); Megatron-LM posts sends and receives of a known shape. That is
work of the host alone: nothing on the device takes time.
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.work import Call, Layer, LayerRun, StageWork, StepWork
from perfcast.workload.blocks import kernels

MESSAGES = "messages"


def with_messages(work: StepWork, launches: int) -> StepWork:
    """The same step where each chunk of a stage costs the host so many launches a pass beside its layers."""
    if not launches or len(work.stages) == 1:
        return work
    call = Call(kernels.copy(1, 1, DType.FP32, DType.FP32), module=MESSAGES, num_launches=launches)
    run = LayerRun(len(work.layers), 1)
    return replace(
        work,
        layers=(*work.layers, Layer(MESSAGES, (call,), (call,))),
        stages=tuple(_with_run(stage, run) for stage in work.stages),
    )


def _with_run(stage: StageWork, run: LayerRun) -> StageWork:
    return replace(stage, chunks=tuple((*chunk, run) for chunk in stage.chunks))
