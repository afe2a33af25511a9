"""What reduces gradients over replicas: buckets, and the passes over gradients that go with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.tensor import TensorType
from perfcast.core.work import Call, Stream
from perfcast.frameworks.profile import DataParallelWrapper
from perfcast.units import MIB
from perfcast.workload.shard.weights import Weight


@dataclass(frozen=True, slots=True)
class GradientReduction:
    """What a data-parallel wrapper does.

    Attributes:
        bucket_bytes: Gradients of at least so many bytes are reduced together; None: all of a stage.
        first_bucket_bytes: The same of the first bucket, so that communication starts early.
        reads, writes: Tensors of a gradient's size that one pass over it, before the collective, reads and
            writes; 0: no pass.
        buffer_passes: Passes over all gradients in one buffer before they are exchanged, as (reads, writes).
        copies_back: Whether reduced buckets are copied back into gradients.
        runs_alone: Whether the passes are made where there is one replica as well.
        clips: Whether the norm of all gradients is taken before the update.
        clears: Whether the buffer is filled with zeros once a step.
    """

    bucket_bytes: int | None
    first_bucket_bytes: int = 0
    reads: int = 1
    writes: int = 1
    buffer_passes: tuple[tuple[int, int], ...] = ()
    copies_back: bool = False
    runs_alone: bool = False
    clips: bool = False
    clears: bool = False


#: torch.nn.parallel.DistributedDataParallel, its defaults: buckets of 25 MiB, the first of 1 MiB, filled in
#: the order in which gradients become ready; a gradient is scaled into its bucket and the sum copied back
#: (torch/csrc/distributed/c10d/reducer.cpp).
TORCH_DDP = GradientReduction(25 * MIB, 1 * MIB, copies_back=True)
#: Megatron-LM's without overlap: products add weight gradients to one buffer, whose norm is taken, which is
#: scaled and reduced behind the backward, and cleared before the next step; the optimizer takes the norm of
#: all gradients (megatron/core/distributed, megatron/optimizer, release core_r0.5.0).
MEGATRON_DDP = GradientReduction(
    None, reads=0, writes=0, buffer_passes=((1, 0), (1, 1)), runs_alone=True, clips=True, clears=True
)
#: By the word of a framework's profile.
REDUCTIONS: Mapping[DataParallelWrapper, GradientReduction] = {
    "torch_ddp": TORCH_DDP,
    "megatron_ddp": MEGATRON_DDP,
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are exchanged together.

    Attributes:
        ready: The node behind which all of them are there.
    """

    part: int
    ready: int
    num_bytes: int


def fill_buckets(weights: Sequence[Weight], plan: Plan, reduction: GradientReduction) -> list[Bucket]:
    """Buckets of one stage's gradients, in the order in which they become ready.

    A bucket is closed by the gradient that fills it, so it may be larger than its size.
    """
    trained = sorted((w.ready, w.part, w.num_bytes) for w in weights if w.ready is not None)
    buckets: list[Bucket] = []
    size = 0
    for at, (ready, part, num_bytes) in enumerate(trained):
        size += num_bytes
        limit = plan.bucket_bytes or reduction.bucket_bytes
        if not buckets and reduction.first_bucket_bytes and limit is not None:
            limit = min(limit, reduction.first_bucket_bytes)
        if at == len(trained) - 1 or (limit is not None and size >= limit):
            buckets.append(Bucket(part, ready, size))
            size = 0
    return buckets


def reduce_calls(plan: Plan, num_bytes: int, dtype: DType, after: tuple[int, ...]) -> Iterator[Call]:
    """What reduces a bucket: over all replicas, or to shards and then over the copies of a shard.

    ZeRO 3 copies gradients into a buffer that is ordered by shards.
    """
    if plan.zero_stage == 3 and plan.shard_size > 1:
        size = num_bytes * 8 // dtype.bytes_of(8)
        yield Call(pass_over("chunk_cat", size, dtype, 1, 1), Stream.DATA, after, "gradients")
    if plan.zero_stage == 0:
        yield from _collective(plan, "all_reduce", num_bytes, "replica", dtype, after)
        return
    yield from _collective(plan, "reduce_scatter", num_bytes, "shard", dtype, after)
    yield from _collective(plan, "all_reduce", -(-num_bytes // plan.shard_size), "copy", dtype, after)


def gather_calls(plan: Plan, num_bytes: int, dtype: DType) -> Iterator[Call]:
    """What collects sharded weights; ZeRO 3 copies them out of the buffer that they come in."""
    yield from _collective(plan, "all_gather", num_bytes, "shard", dtype, ())
    if plan.zero_stage == 3 and plan.shard_size > 1:
        size = num_bytes * 8 // dtype.bytes_of(8)
        yield Call(pass_over("split_with_sizes_copy", size, dtype, 1, 1), Stream.DATA, (), "weights")


def _collective(
    plan: Plan, name: str, num_bytes: int, group: str, dtype: DType, after: tuple[int, ...]
) -> Iterator[Call]:
    ranks = group_of(plan, group)
    if len(ranks) > 1 and num_bytes:
        operation = collective_operation(
            name, num_bytes, ranks, dtype, num_groups=plan.world_size // len(ranks)
        )
        yield Call(operation, Stream.DATA, after, "weights" if name == "all_gather" else "gradients")


def pass_over(name: str, num_elements: int, dtype: DType, reads: int, writes: int) -> Operation:
    """An element-wise kernel over so many elements of flat tensors."""
    flat = TensorType((num_elements,), dtype, (1,))
    return Operation(
        OperationKind.ELEMENTWISE,
        name,
        (flat,) * reads,
        (flat,) * writes,
        dtype,
        num_elements,
        num_elements,
        (reads + writes) * flat.num_bytes,
    )
