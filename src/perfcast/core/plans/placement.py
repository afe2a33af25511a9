"""Which ranks form a plan's groups.

Ranks are numbered along the axes of ``Plan.order``, the innermost first. The ranks of one stage, in that
order, are cut once more for experts: expert tensor parallelism innermost, then experts, then their replicas
(Megatron-LM: core/parallel_state.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from perfcast.core.plan import Plan
from perfcast.errors import UnknownNameError

#: Groups by name. 'replica': who holds the same dense weights (data and context); 'shard' and 'copy': that
#: group cut for hybrid sharding; 'expert_replica': who holds the same experts; 'embedding': first and last
#: stage; 'model': tensor and pipeline, over which a norm of gradients is summed.
GROUPS = (
    "tensor", "context", "data", "pipeline", "replica", "shard", "copy", "expert", "expert_tensor",
    "expert_replica", "embedding", "model", "stage", "world",
)  # fmt: skip

#: Groups along several axes → the axes.
_PRODUCTS = {
    "model": ("tensor", "pipeline"),
    "stage": ("tensor", "context", "data"),
    "replica": ("context", "data"),
}
_AXES = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}


@lru_cache(maxsize=4096)
def group_of(plan: Plan, name: str) -> Sequence[int]:
    """Ranks of the group that rank 0 is in, in the group's order; all others are its translates.

    Raises:
        UnknownNameError: Not a group.
    """
    if name not in GROUPS:
        raise UnknownNameError("group", name, GROUPS, f"Known: {', '.join(GROUPS)}.")
    strides, sizes = _strides(plan), _sizes(plan)
    if name in strides:
        return _even(strides[name], sizes[name])
    if name in _PRODUCTS:
        return _product(plan, _PRODUCTS[name])
    match name:
        case "embedding":
            last = sizes["pipeline"] - 1
            return _even(strides["pipeline"] * max(last, 1), 2 if last else 1)
        case "world":
            return range(plan.world_size)
        case "shard":
            return group_of(plan, "replica")[: plan.shard_size]
        case "copy":
            return group_of(plan, "replica")[:: plan.shard_size]
    return _group_of_experts(plan, name)


def _group_of_experts(plan: Plan, name: str) -> Sequence[int]:
    stage = group_of(plan, "stage")
    inner, experts = plan.tensor_parallel_of_experts, plan.expert_parallel
    if name == "expert_tensor":
        return stage[:inner]
    if name == "expert":
        return stage[: inner * experts : inner]
    return stage[:: inner * experts]


def next_stage(plan: Plan) -> Sequence[int]:
    """Rank 0 and its partner in the next stage; rank 0 alone where there is one stage."""
    return group_of(plan, "pipeline")[:2]


def _sizes(plan: Plan) -> dict[str, int]:
    return {
        "tensor": plan.tensor_parallel,
        "context": plan.context_parallel,
        "data": plan.data_parallel,
        "pipeline": plan.pipeline_parallel,
    }


def _strides(plan: Plan) -> dict[str, int]:
    sizes, stride, strides = _sizes(plan), 1, {}
    for key in plan.order.split("-"):
        strides[_AXES[key]] = stride
        stride *= sizes[_AXES[key]]
    return strides


def _even(stride: int, size: int) -> range:
    return range(0, stride * size, stride)


def _product(plan: Plan, names: tuple[str, ...]) -> Sequence[int]:
    """Ranks that differ from rank 0 along some axes only, rising; a range where evenly spaced."""
    strides, sizes = _strides(plan), _sizes(plan)
    ranks: Sequence[int] = range(1)
    for name in sorted((n for n in names if sizes[n] > 1), key=lambda n: strides[n]):
        stride, size = strides[name], sizes[name]
        if isinstance(ranks, range) and (len(ranks) == 1 or stride == ranks.step * len(ranks)):
            step = stride if len(ranks) == 1 else ranks.step
            ranks = range(0, step * len(ranks) * size, step)
        else:
            ranks = tuple(sorted(at * stride + rank for at in range(size) for rank in ranks))
    return ranks
