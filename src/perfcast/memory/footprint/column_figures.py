"""What one layer and the ends of a model hold, once for each different combination of degrees."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.hardware import Device
from perfcast.core.plan import OFFLOAD, RECOMPUTE, SCHEDULES, Plan
from perfcast.core.plan_table import PlanTable
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.core.weights import StageWeights, count_elements, kinds_of_layer, pad_vocabulary, stage_weights
from perfcast.memory.footprint.activations import lay_out, layer_activations, layer_bytes
from perfcast.memory.footprint.buffers import exchange_term, input_term
from perfcast.memory.footprint.habits import Habits
from perfcast.memory.footprint.moments import (
    head_activation_term,
    head_backward_terms,
    issued_ahead_term,
    layer_backward_terms,
    loss_terms,
    recomputed_term,
)
from perfcast.memory.footprint.recomputed import Recomputed

#: Columns on which a layer's tensors depend.
_LAYER_KEYS = ("tensor_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
               "micro_batch_size", "sequence_parallel", "recompute")  # fmt: skip


@dataclass(frozen=True, eq=False)
class ColumnSetting:
    """Plans, and what all of them have in common."""

    model: Transformer
    plans: PlanTable
    training: Training
    habits: Habits
    sequence_length: int
    device: Device | None

    def word(self, column: str, *words: str) -> Flags:
        """Which plans have one of some words."""
        known = {"offload": OFFLOAD, "recompute": RECOMPUTE, "schedule": SCHEDULES}[column]
        return np.isin(getattr(self.plans, column), [known.index(word) for word in words])


@dataclass(frozen=True, eq=False)
class LayerFigures:
    """Bytes and elements of one layer or one end of the model, for each plan; shape [n] each."""

    kept_dense: Floats
    kept_expert: Floats
    input_rows: Floats
    core: Floats
    backward_dense: Floats
    backward_expert: Floats
    backward_both: Floats
    head_input: Floats
    loss: Floats
    logit_gradient: Floats
    exchange: Floats
    issued_ahead: Floats
    inputs: Floats
    dense_elements: Floats
    shared_elements: Floats
    expert_elements: Floats
    dense_shapes: Floats
    expert_shapes: Floats
    all_shapes: Floats
    embedding: Floats
    embedding_table: Floats
    head: Floats
    own_head: Floats
    head_table: Floats


def layer_figures(setting: ColumnSetting) -> LayerFigures:
    """Computed once for each combination of the degrees that matter, then spread over the plans."""
    plans = setting.plans
    keys = np.stack([getattr(plans, name) for name in _LAYER_KEYS], axis=1)
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rows = [_figures_of(setting, plans.plan(at)) for at in first.tolist()]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), -1).T
    return LayerFigures(*(column[place.reshape(-1)] for column in columns))


def _figures_of(setting: ColumnSetting, plan: Plan) -> list[float]:
    model, training, habits = setting.model, setting.training, setting.habits
    layout = lay_out(plan, training, setting.sequence_length)
    saved = (
        layer_activations(model, plan, training, habits, layout, has_experts=False),
        layer_activations(model, plan, training, habits, layout, has_experts=True) if model.experts else (),
    )
    dense, expert = kinds_of_layer(model, plan)
    vocab = pad_vocabulary(model.vocab_size, plan.tensor_parallel, habits.vocabulary_multiple)
    first = _end_weights(setting, plan, vocab, 0, 2)
    last = _end_weights(setting, plan, vocab, 1, 2)
    alone = _end_weights(setting, plan, vocab, 0, 1)

    def backward(num_dense: int, num_expert: int) -> int:
        weights = StageWeights(num_dense, num_expert, dense, expert, (), (), holds_head=False)
        return sum(t.num_bytes for t in layer_backward_terms(model, plan, training, layout, weights))

    logits = layout.tokens * (vocab // plan.tensor_parallel)
    selective = replace(plan, recompute="selective", recompute_layers=None)
    core = recomputed_term(model, selective, training, first, saved, layout, Recomputed()).num_bytes
    shapes = [
        {(w.rows, w.columns) for w in layer if w.columns > 1 and w.name != "router"}
        for layer in (dense, expert)
    ]
    elements = [sum(rows * columns for rows, columns in group) for group in (*shapes, shapes[0] | shapes[1])]
    gradients = head_backward_terms(first, logits, model, layout, habits)
    return [
        layer_bytes(saved[0]), layer_bytes(saved[1]), layout.norm_rows(model.hidden_size), core,
        backward(1, 0), backward(0, 1) if model.experts else 0, backward(1, 1) if model.experts else 0,
        head_activation_term(model, layout).num_bytes,
        sum(t.num_bytes for t in loss_terms(logits, training, habits, layout)),
        gradients[0].num_bytes + gradients[2].num_bytes,
        exchange_term(layout, _with_stages(plan, 2), model.hidden_size).num_bytes,
        issued_ahead_term(model, _with_stages(plan, 1), layout, habits).num_bytes,
        input_term(layout, training).num_bytes,
        count_elements(dense), count_elements(expert, is_expert=False),
        count_elements(expert, is_expert=True),
        *elements, count_elements(first.embedding), sum(w.num_elements for w in first.embedding[:1]),
        count_elements(last.head), count_elements(alone.head),
        sum(w.num_elements for w in last.head if w.name == "head"),
    ]  # fmt: skip


def _with_stages(plan: Plan, num_stages: int) -> Plan:
    return replace(
        plan, pipeline_parallel=num_stages, virtual_stages_per_rank=1, schedule="1f1b", stage_layers=()
    )


def _end_weights(
    setting: ColumnSetting, plan: Plan, vocab_size: int, stage: int, num_stages: int
) -> StageWeights:
    """Weights of an end of the model; its layers do not matter here."""
    cut = _with_stages(plan, num_stages)
    layers = (setting.model.num_layers, *[0] * (num_stages - 1))
    return stage_weights(setting.model, cut, stage, vocab_size=vocab_size, layers=layers)
