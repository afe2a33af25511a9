"""Parameters that a rank has of each kind of layer, once for each different way to cut them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.core.weights import (
    Weight,
    count_elements,
    kinds_of_layer,
    pad_vocabulary,
    stage_weights,
)
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.step.messages import MESSAGES
from perfcast.workload.blocks.step.stages import LayerSort
from perfcast.workload.plan_columns.layers import Kind, Setting

#: Rows of ``KindWeights.counts``.
DENSE, EXPERT, TENSORS, VECTORS = range(4)


@dataclass(frozen=True)
class KindWeights:
    """Parameters of each kind of layer.

    Attributes:
        counts: Elements of dense parameters and of experts', tensors, and elements of norms; by kind of layer
            and different way, shape [4, kinds, k].
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
    counts = np.zeros((4, len(kinds), len(first)), dtype=np.int64)
    tables = np.zeros(len(first), dtype=np.int64)
    for at, row in enumerate(first.tolist()):
        plan = _shrunk(plans.plan(row))
        counts[:, :, at] = np.array([_counts(_weights(setting, plan, kind)) for kind in kinds]).T
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


def _counts(weights: Iterable[Weight]) -> tuple[int, int, int, int]:
    found = tuple(weights)
    return (
        count_elements(found, is_expert=False),
        count_elements(found, is_expert=True),
        sum(w.count for w in found),
        sum(w.num_elements for w in found if "norm" in w.name),
    )
