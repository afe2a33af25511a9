"""What is tried of every plan that a model, a number of devices and a batch allow (``listing`` lists them).

Degrees are those that divide: tp the heads and the MLP, ep the experts, pp · vp at most the layers, and all
of them the devices; micro-batches divide a replica's share of the batch. What cannot be is never made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from perfcast.core.plan import CONTEXT_COMMUNICATION, OFFLOAD, ORDERS, RECOMPUTE, SCHEDULES
from perfcast.core.plans.text import STAGE_WORDS, PlanValue
from perfcast.frameworks.profile import Axis

#: Columns that change how ranks exchange, not what they hold: memory does not depend on them.
MAPPING = (
    "order",
    "context_communication",
    "overlaps_tensor",
    "overlaps_gradients",
    "overlaps_weights",
    "overlaps_experts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is searched; the first value of each is the simplest.

    GPipe is left out by default: it fills the pipeline no better than 1F1B and keeps more.

    Attributes:
        recompute_layers: With full recomputation, of how many layers of each part of the model; 0 means all.
            None: all; a search tries, around the fastest, the fewest with which a plan fits
            (``fewest_layers``): fewer do not fit, and more take longer.
        stage_splits: Words of ``core.plans.text.STAGE_WORDS``: 'balanced' stands beside 'even' where it is
            better.
        axes: What a model is cut along, beside data parallelism; of others the degree is 1.
        num_shards: Ranks over which ZeRO shards, other replicas hold copies; 0 for all replicas.
        hybrid_zero_stages: Stages of ZeRO in which shards may be fewer than the replicas.
        shards_pipelines: Whether stages of a pipeline may shard gradients (ZeRO 2).
        reshards: With ZeRO 3, whether weights are given up between forward and backward.
        orders: How axes lie in the network; by default those that keep tensor parallelism innermost.
        largest_tensor_parallel, …: Bounds of degrees and of the micro-batch.
        overlaps_weights: None: weights are gathered beside compute where gradients are reduced beside it;
            Megatron-LM refuses --overlap-param-gather without --overlap-grad-reduce.
        least_context_tokens: Of a sequence that context parallelism leaves a rank.
        fixed: Values of ``fixed.KEYS``, by key: what the user has decided, whatever else would be tried.
    """

    axes: Sequence[str] = get_args(Axis)
    zero_stages: Sequence[int] = (0, 1, 2, 3)
    hybrid_zero_stages: Sequence[int] = (1, 2, 3)
    shards_pipelines: bool = True
    reshards: Sequence[int] = (1, 0)
    num_shards: Sequence[int] = (0,)
    recomputes: Sequence[str] = RECOMPUTE
    recompute_layers: Sequence[int] | None = None
    stage_splits: Sequence[str] = STAGE_WORDS
    schedules: Sequence[str] = SCHEDULES
    offloads: Sequence[str] = OFFLOAD
    orders: Sequence[str] = ORDERS[:3]
    context_communications: Sequence[str] = CONTEXT_COMMUNICATION[:1]
    overlaps_tensor: Sequence[int] = (0,)
    overlaps_gradients: Sequence[int] = (1, 0)
    overlaps_weights: Sequence[int] | None = None
    overlaps_experts: Sequence[int] = (0,)
    largest_tensor_parallel: int = 64
    largest_context_parallel: int = 16
    least_context_tokens: int = 1024
    largest_virtual_stages: int = 8
    largest_micro_batch: int = 16
    fixed: Mapping[str, PlanValue] = field(default_factory=dict)
