"""The calls of the layers of many plans: each different combination of what a layer depends on, once.

A layer depends on how the model is cut (tensor, context, expert degrees and how those axes lie in the
ranks), on the micro-batch and on what is recomputed, not on how many replicas or stages there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import OFFLOAD, ORDERS, Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.plans.table import PlanTable
from perfcast.core.training import Training
from perfcast.core.work import Layer, StageWork, StepWork
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.local import Local, local_part
from perfcast.workload.blocks.step.messages import MESSAGES, with_messages
from perfcast.workload.blocks.step.stages import LayerKey, LayerSort
from perfcast.workload.blocks.step.training import layer_calls
from perfcast.workload.plan_columns.geometry import axis_strides, expert_columns, span_codes

Kind = LayerKey


@dataclass(frozen=True)
class Setting:
    """What all plans of a search have in common."""

    model: Transformer
    cluster: Cluster
    training: Training
    sequence_length: int


@dataclass(frozen=True)
class KindCalls:
    """The calls of one kind of layer.

    Attributes:
        layers: One for each different combination, [k].
        place: Which of them is each plan's, shape [n].
    """

    layers: tuple[Layer, ...]
    place: Integers


def kind_calls(setting: Setting, plans: PlanTable, kind: Kind) -> KindCalls:
    """Forward and backward of a kind of layer under every plan; of plans that have none, any."""
    if isinstance(kind, LayerSort) and kind.keeps_all:
        return _kept_calls(setting, plans, kind)
    first, place = different_rows(_keys(setting, plans, kind))
    build = _layer if isinstance(kind, LayerSort) else _end
    return KindCalls(tuple(build(setting, plans.plan(at), kind) for at in first.tolist()), place)  # type: ignore[arg-type]


def _kept_calls(setting: Setting, plans: PlanTable, sort: LayerSort) -> KindCalls:
    """Of layers that keep all beside others that are computed again: as if no layer were."""
    rows = np.flatnonzero(plans.recompute_layers)
    zero = np.zeros(len(rows), dtype=np.int64)
    kept = replace(plans.take(rows), recompute=zero, recompute_layers=zero)
    found = kind_calls(setting, kept, replace(sort, keeps_all=False))
    place = np.zeros(len(plans), dtype=np.int64)
    place[rows] = found.place
    return KindCalls(found.layers, place)


def _keys(setting: Setting, plans: PlanTable, kind: Kind) -> list[Integers]:
    """Columns on which a kind of layer depends; those that change most slowly stand first."""
    if kind == MESSAGES:
        return [np.zeros(len(plans), dtype=np.int64)]
    strides, cp = axis_strides(plans), plans.context_parallel
    columns = [
        plans.tensor_parallel,
        span_codes(setting.cluster, [(strides["tp"], plans.tensor_parallel)]),
        plans.overlaps_tensor,
        np.minimum(plans.num_micro_batches, 2),
        plans.sequence_parallel,
    ]
    if isinstance(kind, str):
        return [*columns, plans.micro_batch_size * -(-setting.sequence_length // cp)]
    lying = span_codes(setting.cluster, [(strides["cp"], cp)])
    columns += [cp, lying, plans.context_communication, plans.micro_batch_size]
    if kind.has_experts:
        columns += [plans.expert_parallel, plans.expert_tensor_parallel, overlaps_passes(plans)]
        columns += expert_columns(plans, strides, has_experts=True)
    return [*columns, plans.offload == OFFLOAD.index("activations"), plans.recompute]


def _layer(setting: Setting, plan: Plan, sort: LayerSort) -> Layer:
    cut = _simplest(plan, has_experts=sort.has_experts)
    local = _local(setting, cut, sort)
    plain = local
    if cut.recompute != "none":
        plain = _local(setting, replace(cut, recompute="none", recompute_layers=None), sort)
    forward, backward = layer_calls(local, sort, plan.offload, plain)
    return Layer("", forward, backward, overlaps_passes=sort.has_experts and plan.overlaps_passes)


def overlaps_passes(plans: PlanTable) -> Integers:
    """``Plan.overlaps_passes`` of every plan."""
    takes_turns = plans.has_word("schedule", "1f1b", "interleaved") & (plans.num_micro_batches > 1)
    found: Integers = (takes_turns & (plans.expert_parallel > 1)) * plans.overlaps_experts
    return found


def _end(setting: Setting, plan: Plan, name: str) -> Layer:
    if name == MESSAGES:
        launches = load_training_profile(setting.training.framework).kernels.message_launches
        empty = StepWork(Plan(pipeline_parallel=2), (), (StageWork(()), StageWork(())))
        return with_messages(empty, launches).layers[0]
    simplest = _simplest(plan, has_experts=False)
    local = _local(setting, replace(simplest, recompute="none", recompute_layers=None))
    forward, backward = {
        ends.EMBEDDING: (ends.embedding_forward, ends.embedding_backward),
        ends.PREDICTION: (ends.prediction_forward, ends.prediction_backward),
        ends.HEAD: (ends.head_forward, ends.head_backward),
    }[name]
    return Layer("", forward(local), backward(local))


def _simplest(plan: Plan, *, has_experts: bool) -> Plan:
    """One of the plans under which a layer runs the same calls, so that few different ones are built."""
    if not has_experts and (plan.expert_parallel > 1 or plan.expert_tensor_parallel is not None):
        plan = replace(plan, expert_parallel=1, expert_tensor_parallel=None)
    innermost = replace(
        plan,
        data_parallel=plan.data_parallel * plan.pipeline_parallel,
        pipeline_parallel=1,
        schedule="1f1b",
        virtual_stages_per_rank=1,
        order=ORDERS[0],
        zero_stage=0,
        num_micro_batches=min(plan.num_micro_batches, 2),
        stage_layers=(),
        recompute_layers=None,
        num_shards=None,
    )
    groups = ("tensor", "context", "expert", "expert_tensor")
    is_same = all(group_of(plan, name) == group_of(innermost, name) for name in groups)
    return innermost if is_same else plan


def _local(setting: Setting, plan: Plan, sort: LayerSort | None = None) -> Local:
    return Local(
        setting.model,
        local_part(plan),
        setting.training,
        setting.sequence_length,
        has_window=sort is not None and sort.has_window,
        is_frozen=sort is not None and sort.is_frozen,
    )
