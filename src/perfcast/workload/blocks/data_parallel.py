"""What data parallelism exchanges for a layer: gradients behind its backward, sharded weights before it.

With ψ parameters of a rank and N replicas: unsharded gradients are all-reduced, sharded ones (ZeRO 1 and 2)
reduce-scattered and the weights gathered once a step, sharded weights (ZeRO 3) gathered for the forward and
again for the backward (Rajbhandari et al.: ZeRO, SC 2020, section 7). Hybrid sharding reduces the shards of a
group over its copies (Zhao et al.: PyTorch FSDP, VLDB 2023, section 3.2.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.placement import group_of
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import gradient_type, weight_type

GRADIENTS, WEIGHTS = "gradients", "weights"


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Parameters of one rank's layer: dense ones, and those of experts, which have replicas of their own."""

    num_dense: int
    num_expert: int = 0

    def __add__(self, other: Exchanged) -> Exchanged:
        return Exchanged(self.num_dense + other.num_dense, self.num_expert + other.num_expert)

    def times(self, count: int) -> Exchanged:
        """``count`` such layers."""
        return Exchanged(count * self.num_dense, count * self.num_expert)


def exchanges_gradients(plan: Plan) -> bool:
    """Whether anybody else has the same weights."""
    return plan.num_dense_replicas > 1 or plan.num_expert_replicas > 1


def reduce_calls(plan: Plan, training: Training, layer: Exchanged, after: int) -> Calls:
    """What reduces a layer's gradients, behind call ``after`` of its backward."""
    dtype = gradient_type(training)
    calls: list[Call] = []
    for elements, groups in _sides(plan, layer):
        behind = (after,) if after >= 0 else ()
        shard, copies = groups
        if plan.zero_stage == 0:
            calls += _buckets(plan, "all_reduce", elements, dtype, shard, GRADIENTS, behind)
            continue
        if plan.zero_stage == 3 and len(shard) > 1:
            calls.append(_copied(elements, weight_type(training), dtype, behind, "chunk_cat", GRADIENTS))
        calls += _buckets(plan, "reduce_scatter", elements, dtype, shard, GRADIENTS, behind)
        part = -(-elements // len(shard))
        calls += _buckets(plan, "all_reduce", part, dtype, copies, GRADIENTS, behind)
    return tuple(calls)


def gather_calls(plan: Plan, training: Training, layer: Exchanged) -> Calls:
    """What collects a layer's weights from their shards; nothing where they are not sharded.

    With ZeRO 3 a rank casts its shard into the buffer, and all parts are copied out of it.
    """
    dtype = weight_type(training)
    calls: list[Call] = []
    for elements, (shard, _) in _sides(plan, layer):
        if plan.zero_stage == 0 or len(shard) < 2 or not elements:
            continue
        is_full = plan.zero_stage == 3
        if is_full:
            own = -(-elements // len(shard))
            calls.append(_copied(own, DType.FP32, dtype, (), "all_gather_copy_in", WEIGHTS))
        calls += _buckets(plan, "all_gather", elements, dtype, shard, WEIGHTS, ())
        if is_full:
            calls.append(_copied(elements, dtype, dtype, (), "split_with_sizes_copy", WEIGHTS))
    return tuple(calls)


def owned(plan: Plan, parameters: Exchanged) -> int:
    """Parameters whose optimizer state this rank keeps."""
    if plan.zero_stage == 0:
        return parameters.num_dense + parameters.num_expert
    return sum(-(-elements // len(shard)) for elements, (shard, _) in _sides(plan, parameters))


def _sides(plan: Plan, layer: Exchanged) -> Iterable[tuple[int, tuple[Sequence[int], Sequence[int]]]]:
    """Dense and expert parameters with the ranks that shard them and those that hold copies of a shard."""
    if layer.num_dense:
        if plan.zero_stage == 0:
            yield layer.num_dense, (group_of(plan, "replica"), range(1))
        else:
            yield layer.num_dense, (group_of(plan, "shard"), group_of(plan, "copy"))
    if layer.num_expert:
        yield layer.num_expert, (group_of(plan, "expert_replica"), range(1))


def _buckets(
    plan: Plan,
    collective: str,
    elements: int,
    dtype: DType,
    ranks: Sequence[int],
    module: str,
    after: tuple[int, ...],
) -> list[Call]:
    """A layer's elements in as many equal exchanges as buckets; nothing among fewer than two ranks."""
    if len(ranks) < 2 or not elements:
        return []
    message_bytes = dtype.bytes_of(elements)
    count = max(1, math.ceil(message_bytes / plan.bucket_bytes)) if plan.bucket_bytes else 1
    operation = collective_operation(
        collective,
        math.ceil(message_bytes / count),
        ranks,
        dtype,
        num_groups=plan.world_size // len(ranks),
    )
    return [Call(operation, Stream.DATA, after, module, count)]


def _copied(
    elements: int, read: DType, written: DType, after: tuple[int, ...], name: str, module: str
) -> Call:
    """A copy in or out of a collective's buffer, on the stream of the exchange."""
    operation = kernels.rows_kernel(
        kernels.Kind.COPY, name, (kernels.tensor(read, elements),), (kernels.tensor(written, elements),),
        flops_per_element=0,
    )  # fmt: skip
    return Call(operation, Stream.DATA, after, module)
