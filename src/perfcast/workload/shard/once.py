"""What a rank of a stage runs once a step: the rest of the reductions, and the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.graph import Phase
from perfcast.core.operation import Operation
from perfcast.core.plans.placement import group_of
from perfcast.core.tensor import TensorType
from perfcast.core.work import Call, Calls, Stream
from perfcast.errors import PlanError
from perfcast.workload.shard.layout import Whole
from perfcast.workload.shard.reduction import gather_calls, pass_over
from perfcast.workload.shard.weights import distinct, ready_weights, shared_weights


def optimizer_of(whole: Whole, stage: int) -> Calls:
    """Everything behind the last backward of a stage.

    Raises:
        PlanError: Stages other than the first and the last share a weight.
    """
    plan, reduction, dtype = whole.plan, whole.reduction, whole.dtype
    mine = whole.weights_of(whole.parts_of_stage(stage))
    held = sum(weight.type.num_elements for weight in distinct(mine))
    trained = sum(weight.type.num_elements for weight in ready_weights(mine))
    is_reduced = plan.num_dense_replicas > 1 and plan.zero_stage == 0
    calls = []
    if trained and (is_reduced or reduction.runs_alone):
        names = {(1, 0): "norm", (1, 1): "mul_"}
        calls += [_over(names[p], trained, dtype, *p) for p in reduction.buffer_passes]
    calls += _sums(whole, stage)
    if trained and is_reduced and reduction.copies_back:
        calls.append(_over("copy_", trained, dtype, 1, 1))
    calls += _update(whole, held)
    if plan.zero_stage in (1, 2):
        calls += gather_calls(plan, dtype.bytes_of(held), dtype)
    if trained and reduction.clears:
        calls.append(_over("zero_", trained, dtype, 0, 1))
    return _chain(calls)


def _over(name: str, num_elements: int, dtype: DType, reads: int, writes: int) -> Call:
    return Call(pass_over(name, num_elements, dtype, reads, writes), module="gradients")


def _chain(calls: Sequence[Call]) -> Calls:
    """Each call behind the one before, whatever its stream."""
    chained: list[Call] = []
    for at, call in enumerate(calls):
        is_other = at > 0 and calls[at - 1].stream is not call.stream
        chained.append(replace(call, after=(at - 1,)) if is_other else call)
    return tuple(chained)


# ---- sums over other ranks than replicas --------------------------------------------------------


def _sums(whole: Whole, stage: int) -> list[Call]:
    """Gradients of weights that two stages share, and of whole weights of which each rank has a summand."""
    plan, calls = whole.plan, list[Call]()
    shared = _shared_bytes(whole, stage)
    if shared:
        ranks = group_of(plan, "embedding")
        operation = collective_operation(
            "all_reduce", shared, ranks, whole.dtype, num_groups=plan.ranks_per_stage
        )
        calls.append(Call(operation, Stream.PIPELINE, module="shared weights"))
    mine = set(whole.parts_of_stage(stage))
    summands = [e for e in whole.cutting.collectives if e.consumer is None]
    num_bytes = sum(e.tensor.num_bytes for e in summands if whole.parts.of_node[e.producer] in mine)
    if num_bytes:
        ranks = group_of(plan, "tensor")
        operation = collective_operation(
            "all_reduce", num_bytes, ranks, whole.dtype, num_groups=plan.world_size // len(ranks)
        )
        calls.append(Call(operation, Stream.TENSOR, module="summands of gradients"))
    return calls


def _shared_bytes(whole: Whole, stage: int) -> int:
    """Bytes of weights that both the first and the last stage hold; 0 where each rank is both.

    Raises:
        PlanError: Other stages share a weight.
    """
    last = whole.plan.pipeline_parallel - 1
    if not last or whole.plan.schedule == "dualpipe":
        return 0
    stage_of = {part: s for s in range(last + 1) for part in whole.parts_of_stage(s)}
    total = 0
    for uses in shared_weights(whole.weights).values():
        stages = {stage_of[use.part] for use in uses}
        if len(stages) > 1 and stages != {0, last}:
            raise PlanError(
                f"pp={last + 1}: stages {sorted(stages)} share a weight of {uses[0].type.num_elements} "
                "elements; only the first and the last can"
            )
        if stages == {0, last} and stage in stages:
            total += uses[0].num_bytes
    return total


# ---- the update ---------------------------------------------------------------------------------


def _update(whole: Whole, num_elements: int) -> list[Call]:
    """The optimizer's kernels, in proportion to the parameters that a rank updates."""
    graph, plan = whole.graph, whole.plan
    nodes = [node for node in graph.nodes if node.phase is Phase.OPTIMIZER]
    if not nodes:
        return []
    num_bytes = sum(graph.storages[weight.storage].num_bytes for weight in distinct(whole.weights))
    total = num_bytes * 8 // whole.dtype.bytes_of(8)
    mine = num_elements if plan.zero_stage == 0 else -(-num_elements // plan.shard_size)
    calls = _norm(whole, mine) if whole.reduction.clips else []
    for node in nodes:
        operation = graph.operations[node.operation]
        if mine != total:
            operation = _scaled(operation, mine, total)
        calls.append(Call(operation, module="optimizer", num_launches=0 if operation.is_free else 1))
    return calls


def _norm(whole: Whole, num_elements: int) -> list[Call]:
    """All gradients are read, and a number of each rank summed."""
    plan = whole.plan
    calls = [_over("norm", num_elements, whole.dtype, 1, 0)]
    ranks = group_of(plan, "model" if plan.zero_stage == 0 else "world")
    if len(ranks) > 1:
        operation = collective_operation(
            "all_reduce", DType.FP32.bytes_of(1), ranks, DType.FP32, num_groups=plan.world_size // len(ranks)
        )
        calls.append(Call(operation, Stream.DATA, module="gradients"))
    return calls


def _scaled(operation: Operation, part: int, whole: int) -> Operation:
    """The same update of other parameters, its lists joined to flat tensors."""
    if max((t.num_elements for t in operation.inputs), default=0) <= 1:
        return operation
    return replace(
        operation,
        inputs=_flat(operation.inputs, part, whole),
        outputs=_flat(operation.outputs, part, whole),
        flops=operation.flops * part // whole,
        executed_flops=operation.executed_flops * part // whole,
        memory_traffic_bytes=operation.memory_traffic_bytes * part // whole,
    )


def _flat(tensors: Sequence[TensorType], part: int, whole: int) -> tuple[TensorType, ...]:
    sizes: dict[DType, int] = {}
    for tensor in tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.num_elements
    return tuple(TensorType((size * part // whole,), dtype, (1,)) for dtype, size in sizes.items())
