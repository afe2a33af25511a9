"""Steps and programs of a few operations, whose times can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.work import Call, Calls, Layer, LayerRun, StageWork, StepWork, Stream
from perfcast.simulate.closed_form.makespan import StageSeconds, forward_makespans, makespans
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, ProgramBuilder
from perfcast.simulate.schedule import Actions, Pass, num_parts, part_of


def kernel(name: str) -> Operation:
    return Operation(OperationKind.MATMUL, name, (), (), DType.BF16, 0, 0, 0)


def collective(name: str, message_bytes: int = 1000) -> Operation:
    return collective_operation(name, message_bytes, range(2))


FORWARD, INPUT, WEIGHT, UPDATE = (kernel(name) for name in ("forward", "input", "weight", "update"))
REDUCE, GATHER, SCATTER = collective("all_reduce"), collective("all_gather"), collective("reduce_scatter")
SEND = collective("send")

#: Of one run, in seconds.
SECONDS = {
    FORWARD: 1.0, INPUT: 1.0, WEIGHT: 1.0, UPDATE: 0.5, REDUCE: 0.2, GATHER: 0.4, SCATTER: 0.6, SEND: 0.0,
}  # fmt: skip


def small_layer(*, reduces: bool = False, gathers: bool = False, scatters: bool = False) -> Layer:
    """A forward of 1 s, gradients of inputs and of weights of 1 s each, and what is asked for around them."""
    forward: Calls = (Call(FORWARD, module="up"),)
    backward: Calls = (Call(INPUT, module="up"), Call(WEIGHT, module="up", is_weight_gradient=True))
    if reduces:
        forward += (Call(REDUCE, Stream.TENSOR, (0,), "down"),)
    gather = (Call(GATHER, Stream.DATA, module="weights"),) if gathers else ()
    scatter = (Call(SCATTER, Stream.DATA, (1,), "gradients"),) if scatters else ()
    return Layer("layer", forward, backward, gather, gather, scatter)


def small_step(
    num_stages: int = 1,
    num_micro_batches: int = 1,
    layers: int = 1,
    *,
    virtual: int = 1,
    schedule: str = "1f1b",
    layer: Layer | None = None,
    optimizer: Calls = (),
    reduces_each: bool = False,
    overlaps_boundary: bool = True,
    host_waits: bool = False,
    **plan: object,
) -> StepWork:
    """``layers`` equal layers in every chunk of every stage."""
    degrees = Plan(
        pipeline_parallel=num_stages, num_micro_batches=num_micro_batches, virtual_stages_per_rank=virtual,
        schedule=schedule, **plan,  # type: ignore[arg-type]
    )  # fmt: skip
    stage = StageWork(((LayerRun(0, layers),),) * virtual, optimizer)
    return StepWork(
        degrees,
        (layer or small_layer(),),
        (stage,) * num_stages,
        SEND if num_stages > 1 else None,
        reduces_gradients_each_micro_batch=reduces_each,
        overlaps_boundary=overlaps_boundary,
        host_waits=host_waits,
    )


def forwards_of(work: StepWork) -> StepWork:
    """The same as inference."""
    layers = (replace(one, backward=(), gather_again=(), gradient_reduction=()) for one in work.layers)
    return replace(work, layers=tuple(layers))


@dataclass(frozen=True)
class Stages:
    """Seconds of one micro-batch on each stage of one pipeline, as ``StageSeconds`` has them of many."""

    forward: Sequence[float]
    backward: Sequence[float]
    weight: Sequence[float] = ()
    joined: Sequence[float] = ()
    message: float = 0.0


def makespan(schedule: str, stages: Stages, num_micro_batches: int, virtual: int = 1) -> float:
    """The formula of one pipeline."""

    def column(seconds: Sequence[float]) -> np.ndarray | None:
        return np.array(seconds)[:, None] if seconds else None

    columns = StageSeconds(*map(column, (stages.forward, stages.backward, stages.weight, stages.joined)))
    counts, message = np.array([num_micro_batches]), np.array([stages.message])
    return float(makespans(schedule, columns, counts, message, virtual)[0])


def forward_makespan(stages: Stages, num_micro_batches: int, virtual: int = 1) -> float:
    """The same of forwards alone."""
    forward, count = np.array(stages.forward)[:, None], np.array([num_micro_batches])
    return float(forward_makespans(forward, count, np.array([stages.message]), virtual)[0])


def schedule_makespan(
    schedule: str,
    actions: tuple[Actions, ...],
    seconds: dict[Pass, list[float]],
    *,
    virtual: int = 1,
    message: float = 0.0,
) -> float:
    """Makespan of a schedule by the engine alone: passes of each part of the model, messages in between."""
    builder = ProgramBuilder()
    num_stages = len(actions)
    last = num_parts(schedule, num_stages, virtual) - 1
    arrivals: dict[tuple[Pass, int, int], int] = {}
    waits: list[tuple[int, tuple[Pass, int, int]]] = []
    wires: dict[tuple[int, bool], int] = {}
    for stage, row in enumerate(actions):
        lane = builder.add_lane(Lane(f"stage {stage}"))
        for action in row:
            part = part_of(schedule, num_stages, stage, action.chunk)
            task = builder.add(
                lane, seconds[action.kind][part], label=f"{action.kind.value}{action.micro_batch}"
            )
            if action.kind is Pass.WEIGHT_GRADIENT:
                continue
            is_forward = action.kind is Pass.FORWARD
            kind, step = (Pass.FORWARD, 1) if is_forward else (Pass.BACKWARD, -1)
            if 0 <= part - step <= last:
                waits.append((task, (kind, part - step, action.micro_batch)))
            if message and 0 <= part + step <= last:
                if (part, is_forward) not in wires:
                    wires[part, is_forward] = builder.add_lane(Lane(f"from {part}"))
                task = builder.add(wires[part, is_forward], message, [task])
            arrivals[kind, part, action.micro_batch] = task
    for task, key in waits:
        builder.wait(task, arrivals[key])
    return play(builder.build()).makespan_seconds
