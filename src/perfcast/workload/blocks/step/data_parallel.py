"""What data parallelism communicates for a layer: gradients behind its backward, sharded weights before it.

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
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Stream
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import gradient_type, weight_type

GRADIENTS, WEIGHTS = "gradients", "weights"


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Parameters of one rank's layer: dense ones, and those of experts, which have replicas of their own."""

    num_dense: int
    num_expert: int = 0

    def __add__(self, other: ParameterCounts) -> ParameterCounts:
        return ParameterCounts(self.num_dense + other.num_dense, self.num_expert + other.num_expert)

    def times(self, count: int) -> ParameterCounts:
        """``count`` such layers."""
        return ParameterCounts(count * self.num_dense, count * self.num_expert)

    def scaled(self, factor: float) -> ParameterCounts:
        """So many of them by a factor, in whole numbers."""
        return ParameterCounts(math.ceil(factor * self.num_dense), math.ceil(factor * self.num_expert))


def reduces_gradients(plan: Plan) -> bool:
    """Whether anybody else has the same weights."""
    return plan.num_dense_replicas > 1 or plan.num_expert_replicas > 1


@dataclass(frozen=True, slots=True)
class SideRules:
    """When weights are gathered and gradients reduced, and beside what; fields as of ``StepWork``."""

    gathers_each_micro_batch: bool
    reduces_gradients_each_micro_batch: bool
    overlaps_gather: bool
    overlaps_gradient_reduction: bool
    host_waits: bool = False


def side_rules(plan: Plan, training: Training) -> SideRules:
    """As the framework runs a plan.

    Stages of a pipeline that keep gathered weights between forward and backward keep them to the last
    micro-batch, and those that sum whole gradients scatter them behind it (PyTorch:
    distributed/pipelining/stage.py, backward_maybe_with_nosync).
    """
    framework, is_pipeline = load_training_profile(training.framework), plan.pipeline_parallel > 1
    profile = framework.kernels
    stays = is_pipeline and not plan.reshard_after_forward
    return SideRules(
        gathers_each_micro_batch=(plan.zero_stage == 3 and not stays) or plan.offload == "parameters",
        reduces_gradients_each_micro_batch=plan.zero_stage >= 2
        and not (is_pipeline and framework.sums_whole_gradients_in_pipelines),
        overlaps_gather=plan.overlaps_weights and (profile.overlaps_weights or plan.zero_stage == 3),
        overlaps_gradient_reduction=plan.overlaps_gradients and profile.overlaps_gradients,
        host_waits=is_pipeline and plan.schedule in framework.host.waits_for_messages,
    )


def bucket_bytes(plan: Plan, training: Training, dtype: DType) -> float:
    """Bytes that are exchanged at once; 0 where each layer goes alone."""
    if plan.zero_stage == 3:
        return 0.0
    if plan.bucket_bytes:
        return plan.bucket_bytes
    profile = load_training_profile(training.framework).kernels
    per_replica = profile.bucket_parameters_per_replica * plan.num_dense_replicas
    return profile.bucket_bytes or max(profile.bucket_parameters, per_replica) * dtype.bits / 8


def reduce_calls(
    plan: Plan, training: Training, layer: ParameterCounts, after: int, num_layers: int = 1
) -> Calls:
    """What reduces a layer's gradients, behind call ``after`` of its backward.

    Args:
        num_layers: Equal ones of the stage, of which several may fill a bucket.
    """
    dtype = gradient_type(training)
    buckets = _Buckets(plan, bucket_bytes(plan, training, dtype), num_layers)
    calls: list[Call] = []
    for elements, groups in _sides(plan, layer):
        behind = (after,) if after >= 0 else ()
        shard, copies = groups
        if plan.zero_stage == 0:
            calls += buckets("all_reduce", elements, dtype, shard, GRADIENTS, behind)
            continue
        if plan.zero_stage == 3 and len(shard) > 1:
            calls.append(_copied(elements, weight_type(training), dtype, behind, "chunk_cat", GRADIENTS))
        calls += buckets("reduce_scatter", elements, dtype, shard, GRADIENTS, behind)
        part = -(-elements // len(shard))
        calls += buckets("all_reduce", part, dtype, copies, GRADIENTS, behind)
    return tuple(calls)


def gather_calls(plan: Plan, training: Training, layer: ParameterCounts, num_layers: int = 1) -> Calls:
    """What collects a layer's weights from their shards; nothing where they are not sharded.

    With ZeRO 3 a rank casts its shard into the buffer, and all parts are copied out of it.
    """
    dtype = weight_type(training)
    buckets = _Buckets(plan, bucket_bytes(plan, training, dtype), num_layers)
    calls: list[Call] = []
    for elements, (shard, _) in _sides(plan, layer):
        if plan.zero_stage == 0 or len(shard) < 2 or not elements:
            continue
        is_full = plan.zero_stage == 3
        if is_full:
            own = -(-elements // len(shard))
            calls.append(_copied(own, DType.FP32, dtype, (), "all_gather_copy_in", WEIGHTS))
        calls += buckets("all_gather", elements, dtype, shard, WEIGHTS, ())
        if is_full:
            calls.append(_copied(elements, dtype, dtype, (), "split_with_sizes_copy", WEIGHTS))
    return tuple(calls)


def owned(plan: Plan, parameters: ParameterCounts) -> int:
    """Parameters whose optimizer state this rank keeps."""
    if plan.zero_stage == 0:
        return parameters.num_dense + parameters.num_expert
    return sum(-(-elements // len(shard)) for elements, (shard, _) in _sides(plan, parameters))


def _sides(plan: Plan, layer: ParameterCounts) -> Iterable[tuple[int, tuple[Sequence[int], Sequence[int]]]]:
    """Dense and expert parameters with the ranks that shard them and those that hold copies of a shard."""
    if layer.num_dense:
        if plan.zero_stage == 0:
            yield layer.num_dense, (group_of(plan, "replica"), range(1))
        else:
            yield layer.num_dense, (group_of(plan, "shard"), group_of(plan, "copy"))
    if layer.num_expert:
        yield layer.num_expert, (group_of(plan, "expert_replica"), range(1))


@dataclass(frozen=True, slots=True)
class _Buckets:
    """How a layer's elements travel: several layers together, or one layer in several equal parts.

    Attributes:
        most_bytes: That travel at once; 0: a layer at a time.
        num_layers: Equal ones that may share a bucket.
    """

    plan: Plan
    most_bytes: float
    num_layers: int

    def __call__(
        self,
        collective: str,
        elements: int,
        dtype: DType,
        ranks: Sequence[int],
        module: str,
        after: tuple[int, ...],
    ) -> list[Call]:
        """The gradient reduction of one layer; nothing among fewer than two ranks."""
        if len(ranks) < 2 or not elements:
            return []
        message_bytes = dtype.bytes_of(elements)
        most = self.most_bytes or message_bytes
        together = max(1, min(self.num_layers, int(most // message_bytes)))
        count = max(1, math.ceil(message_bytes / most))
        operation = collective_operation(
            collective,
            math.ceil(together * message_bytes / count),
            ranks,
            dtype,
            num_groups=self.plan.world_size // len(ranks),
        )
        return [Call(operation, Stream.DATA, after, module, count, share=1 / together)]


def _copied(
    elements: int, read: DType, written: DType, after: tuple[int, ...], name: str, module: str
) -> Call:
    """A copy in or out of a collective's buffer, on the stream of the gradient reduction."""
    operation = kernels.rows_kernel(
        kernels.Kind.COPY, name, (kernels.tensor(read, elements),), (kernels.tensor(written, elements),),
        flops_per_element=0,
    )  # fmt: skip
    return Call(operation, Stream.DATA, after, module)
