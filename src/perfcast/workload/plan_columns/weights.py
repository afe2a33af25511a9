"""Parameters that a rank has of each kind of layer, once for each different way to cut them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.model.attention_weights import Weight
from perfcast.core.model.weights import kinds_of_layer, pad_vocabulary, stage_weights
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.step.messages import MESSAGES
from perfcast.workload.blocks.step.parameters import HeldParameters, adapters_of_layer, hold
from perfcast.workload.blocks.step.stages import LayerSort
from perfcast.workload.plan_columns.layers import Kind, Setting

#: Rows of ``KindWeights.counts``.
DENSE, EXPERT, TRAINED_DENSE, TRAINED_EXPERT, TENSORS, VECTORS = range(6)


@dataclass(frozen=True)
class KindWeights:
    """Parameters of each kind of layer.

    Attributes:
        counts: Elements of dense parameters and of experts' as they travel, of those that train, trained
            tensors, and elements of trained norms; by kind of layer and different way, shape [6, kinds, k].
        table_elements: Of the embedding's table on a rank, shape [k].
        place: Which of the ways is each plan's, shape [n].
    """

    counts: Integers
    table_elements: Integers
    place: Integers


def kind_weights(setting: Setting, plans: PlanTable, kinds: Sequence[Kind]) -> KindWeights:
    """Of every plan."""
    first, place = different_rows(
        [
            plans.tensor_parallel,
            plans.expert_parallel,
            plans.expert_tensor_parallel,
            plans.pipeline_parallel > 1,
        ]
    )
    counts = np.zeros((6, len(kinds), len(first)), dtype=np.int64)
    tables = np.zeros(len(first), dtype=np.int64)
    for at, row in enumerate(first.tolist()):
        plan = _shrunk(plans.plan(row))
        counts[:, :, at] = np.array([_counts(_held(setting, plan, kind)) for kind in kinds]).T
        model = setting.model
        width = model.embedding_size or model.hidden_size
        tables[at] = -(-_padded(setting, plan) // plan.tensor_parallel) * width
    return KindWeights(counts, tables, place)


def _shrunk(plan: Plan) -> Plan:
    """The same cut of the layers with as few replicas and stages as can be."""
    experts = plan.expert_parallel * plan.tensor_parallel_of_experts
    stages = min(plan.pipeline_parallel, 2)
    return Plan(
        data_parallel=experts,
        tensor_parallel=plan.tensor_parallel,
        pipeline_parallel=stages,
        expert_parallel=plan.expert_parallel,
        expert_tensor_parallel=plan.expert_tensor_parallel,
    )


def _padded(setting: Setting, plan: Plan) -> int:
    multiple = load_training_profile(setting.training.framework).vocabulary_multiple
    return pad_vocabulary(setting.model.vocab_size, plan.tensor_parallel, multiple)


def _weights(setting: Setting, plan: Plan, kind: Kind) -> tuple[Weight, ...]:
    if isinstance(kind, LayerSort):
        return kinds_of_layer(setting.model, plan)[kind.has_experts]
    if kind == MESSAGES:
        return ()
    if kind == ends.PREDICTION:
        hidden = setting.model.hidden_size
        return (Weight("joined", hidden // plan.tensor_parallel, 2 * hidden),)
    last = plan.pipeline_parallel - 1
    layers = (setting.model.num_layers, *(0,) * last)
    at = 0 if kind == ends.EMBEDDING else last
    stage = stage_weights(setting.model, plan, at, vocab_size=_padded(setting, plan), layers=layers)
    return stage.embedding if kind == ends.EMBEDDING else stage.head


def _held(setting: Setting, plan: Plan, kind: Kind) -> HeldParameters:
    training, weights = setting.training, _weights(setting, plan, kind)
    if not isinstance(kind, LayerSort):
        return hold(training, weights)
    adapters = adapters_of_layer(setting.model, plan, training, has_experts=kind.has_experts)
    return hold(training, weights, adapters, is_frozen=kind.is_frozen)


def _counts(found: HeldParameters) -> tuple[int, ...]:
    held, trained = found.held, found.trained
    return (
        held.num_dense,
        held.num_expert,
        trained.num_dense,
        trained.num_expert,
        found.num_tensors,
        found.num_norms,
    )
