"""What stands beside the layers of many plans: gathers of weights, reductions of gradients, optimizers.

They depend on the parameters that a rank holds and on the groups that share them, not on micro-batches:
each different combination stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.collective import collective_operation
from perfcast.core.different import different_rows
from perfcast.core.operation import Operation
from perfcast.core.plan import OFFLOAD, Plan
from perfcast.core.plans.placement import next_stage
from perfcast.core.plans.table import PlanTable
from perfcast.core.training import Training
from perfcast.core.work import Calls, Layer
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.local import gradient_type, weight_type
from perfcast.workload.blocks.step.data_parallel import (
    ParameterCounts,
    bucket_bytes,
    gather_calls,
    reduce_calls,
    reduces_gradients,
)
from perfcast.workload.blocks.step.messages import MESSAGES
from perfcast.workload.blocks.step.offload import incoming_weights
from perfcast.workload.blocks.step.optimizer import (
    gathers_after_step,
    optimizer_calls,
    shared_embedding,
    shared_norms,
)
from perfcast.workload.blocks.step.parameters import HeldParameters
from perfcast.workload.blocks.step.stages import LayerSort
from perfcast.workload.plan_columns.cuts import Cuts
from perfcast.workload.plan_columns.geometry import (
    axis_strides,
    expert_columns,
    replica_columns,
    shard_columns,
    span_codes,
)
from perfcast.workload.plan_columns.layers import Kind, Setting
from perfcast.workload.plan_columns.weights import (
    DENSE,
    EXPERT,
    TENSORS,
    TRAINED_DENSE,
    TRAINED_EXPERT,
    VECTORS,
    KindWeights,
)

#: Beside the host's work for messages there are no weights.
_NOTHING = Layer("", ())


@dataclass(frozen=True)
class SideCalls:
    """Gathers and gradient reductions of each kind of layer.

    Attributes:
        layers: By different combination and kind of layer, [k][kinds]; their forwards are empty.
        place: Which combination is each plan's, shape [n].
    """

    layers: tuple[tuple[Layer, ...], ...]
    place: Integers


def side_calls(setting: Setting, plans: PlanTable, weights: KindWeights, kinds: Sequence[Kind]) -> SideCalls:
    """Of every plan."""
    together = _layers_together(setting, plans, weights)
    has_experts = setting.model.experts is not None
    first, place = different_rows([*_side_keys(setting, plans, weights, has_experts=has_experts), together])
    rows = []
    for at in first.tolist():
        plan, counts = plans.plan(at), weights.counts[:, :, weights.place[at]]
        parts = [_held(column) for column in counts.T.tolist()]
        numbers = [int(together[at]) if isinstance(kind, LayerSort) else 1 for kind in kinds]
        rows.append(
            tuple(
                _NOTHING if kind == MESSAGES else _side(setting.training, plan, kind, part, number)
                for kind, part, number in zip(kinds, parts, numbers, strict=True)
            )
        )
    return SideCalls(tuple(rows), place)


def _side_keys(
    setting: Setting, plans: PlanTable, weights: KindWeights, *, has_experts: bool
) -> list[Integers]:
    strides = axis_strides(plans)
    return [
        weights.place,
        plans.zero_stage,
        plans.reshard_after_forward,
        plans.overlaps_weights,
        plans.offload * (plans.offload == OFFLOAD.index("parameters")),
        *replica_columns(setting.cluster, plans, strides),
        *shard_columns(plans),
        *expert_columns(plans, strides, has_experts=has_experts),
    ]


def _layers_together(setting: Setting, plans: PlanTable, weights: KindWeights) -> Integers:
    """Layers of a stage that may share a bucket of gradients, as far as buckets can hold so many."""
    layers = np.maximum(setting.model.num_layers // plans.pipeline_parallel, 1)
    first, place = different_rows([plans.num_dense_replicas, plans.zero_stage])
    training = setting.training
    dtype = gradient_type(training)
    buckets = np.array([bucket_bytes(plans.plan(at), training, dtype) for at in first.tolist()])[place]
    held = weights.counts[[TRAINED_DENSE, TRAINED_EXPERT]].reshape(-1, weights.counts.shape[2])
    least = np.where(held > 0, held, np.iinfo(np.int64).max).min(axis=0)[weights.place]
    narrowest = min(dtype.bytes_of(1), weight_type(training).bytes_of(1))
    filled = np.maximum(buckets // (least * narrowest), 1).astype(np.int64)
    return np.asarray(np.minimum(layers, filled), dtype=np.int64)


def _held(counts: Sequence[int]) -> HeldParameters:
    return HeldParameters(
        ParameterCounts(counts[DENSE], counts[EXPERT]),
        ParameterCounts(counts[TRAINED_DENSE], counts[TRAINED_EXPERT]),
        counts[TENSORS],
        counts[VECTORS],
    )


def _side(training: Training, plan: Plan, kind: Kind, parameters: HeldParameters, num_layers: int) -> Layer:
    gather = incoming_weights(plan, training, parameters.held)
    if not gathers_after_step(plan, training):
        gather = (*gather, *gather_calls(plan, training, parameters.gathered(plan), num_layers))
    is_idle = kind.is_idle if isinstance(kind, LayerSort) else not training.tuning.trains("embedding")
    has_backward = not is_idle or kind in (ends.HEAD, ends.PREDICTION)
    again = plan.offload == "parameters" or (plan.zero_stage == 3 and plan.reshard_after_forward)
    gradient_reduction: Calls = ()
    if reduces_gradients(plan):
        gradient_reduction = reduce_calls(plan, training, parameters.trained, 0, num_layers)
    return Layer("", (), (), gather, gather if again and has_backward else (), gradient_reduction)


@dataclass(frozen=True)
class OptimizerCalls:
    """Of the stages of many plans.

    Attributes:
        calls: The different ones.
        place: Which of them each different stage of a plan's cut runs, shape [n, most stages of a cut]; -1
            beyond.
    """

    calls: tuple[Calls, ...]
    place: Integers


def stage_optimizers(setting: Setting, plans: PlanTable, cuts: Cuts, weights: KindWeights) -> OptimizerCalls:
    """What ranks of every stage run once a step."""
    stages = _layers_of_stages(cuts)
    holdings = different_rows(list(stages.reshape(len(stages), -1).T))[1]
    keys = [*_update_keys(setting, plans, weights), *_groups_of_updates(setting, plans)]
    first, place = different_rows([holdings[cuts.place], weights.place, *keys])
    holds = stages[cuts.place[first]]
    stage_row, number = np.nonzero(holds[:, :, 0] >= 0)
    counts = np.einsum("rsn,fnr->frs", holds, weights.counts[:, :, weights.place[first]])
    at_end = holds[:, :, [cuts.kinds.index(name) for name in (ends.EMBEDDING, ends.HEAD)]].sum(axis=2) > 0
    columns = np.vstack([counts[:, stage_row, number], at_end[None, stage_row, number]])
    different, number_of = different_rows([*(key[first][stage_row] for key in keys), *columns])
    rows = stage_row[different].tolist()
    plan_of = {row: plans.plan(int(first[row])) for row in dict.fromkeys(rows)}
    tables = weights.table_elements[weights.place[first]]
    calls = tuple(
        _optimizer(setting, plan_of[row], of_stage, int(tables[row]))
        for row, of_stage in zip(rows, columns[:, different].T, strict=True)
    )
    found = np.full(holds.shape[:2], -1, dtype=np.int64)
    found[stage_row, number] = number_of
    return OptimizerCalls(calls, found[place])


def _update_keys(setting: Setting, plans: PlanTable, weights: KindWeights) -> list[Integers | Flags]:
    """What an update depends on beside what its rank holds and the groups of ``_groups_of_updates``."""
    strides, has_experts = axis_strides(plans), setting.model.experts is not None
    return [
        weights.place if has_experts else weights.table_elements[weights.place],
        plans.zero_stage,
        plans.overlaps_weights,
        plans.has_word("offload", "optimizer", "parameters"),
        plans.sequence_parallel,
        *replica_columns(setting.cluster, plans, strides),
        *shard_columns(plans),
        *expert_columns(plans, strides, has_experts=has_experts),
    ]


def _groups_of_updates(setting: Setting, plans: PlanTable) -> list[Integers]:
    """What tells groups apart that communicate in an update: tensor, both ends, and model without shards."""
    strides, cluster = axis_strides(plans), setting.cluster
    tp, pp = plans.tensor_parallel, plans.pipeline_parallel
    whole = np.where(plans.zero_stage == 0, pp, 1)
    return [
        tp,
        pp,
        span_codes(cluster, [(strides["tp"], tp)]),
        span_codes(cluster, [(strides["pp"] * (pp - 1), np.minimum(pp, 2))]),
        span_codes(cluster, [(strides["tp"], np.where(whole > 1, tp, 1)), (strides["pp"], whole)]),
    ]


def _layers_of_stages(cuts: Cuts) -> Integers:
    """Layers of each kind that the different stages of each cut hold, shape [cuts, most stages, kinds]; -1
    beyond a cut's last."""
    most = max(len(cut.stages) for cut in cuts.cuts)
    found = np.full((len(cuts.cuts), most, len(cuts.kinds)), -1, dtype=np.int64)
    for at, cut in enumerate(cuts.cuts):
        found[at, : len(cut.stages)] = 0
        for number, contents in enumerate(cut.stages):
            for kind, count in (item for content in contents for item in content):
                found[at, number, kind] += count
    return found


def _optimizer(setting: Setting, plan: Plan, columns: Integers, table_elements: int) -> Calls:
    """The update of all that a stage's rank holds, and reductions of gradients that go before."""
    *counts, is_end = columns.tolist()
    held, training = _held(counts), setting.training
    shares = [shared_norms(plan, training, held.num_norms)]
    if setting.model.ties_embeddings and is_end and training.tuning.trains("embedding"):
        shares.append(shared_embedding(plan, training, table_elements))
    found = tuple(call for call in shares if call is not None)
    return optimizer_calls(plan, training, held.trained, num_tensors=held.num_tensors, shares=found)


def boundaries(setting: Setting, plans: PlanTable) -> tuple[tuple[Operation | None, ...], Integers]:
    """The different messages between stages (None where there is one stage), and which is each plan's."""
    strides = axis_strides(plans)
    several = plans.pipeline_parallel > 1
    own = plans.micro_batch_size * -(-setting.sequence_length // plans.context_parallel)
    own = np.where(plans.sequence_parallel > 0, -(-own // plans.tensor_parallel), own)
    pair = span_codes(setting.cluster, [(strides["pp"], np.where(several, 2, 1))])
    keys = [own * several, pair, plans.ranks_per_stage * several]
    first, place = different_rows(keys)
    found: list[Operation | None] = []
    element = weight_type(setting.training)
    for at in first.tolist():
        plan = plans.plan(at)
        message_bytes = element.bytes_of(int(own[at]) * setting.model.hidden_size)
        ranks = next_stage(plan)
        found.append(
            collective_operation("send", message_bytes, ranks, element, num_groups=plan.ranks_per_stage)
            if len(ranks) > 1
            else None
        )
    return tuple(found), place
