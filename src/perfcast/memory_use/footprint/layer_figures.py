"""What one layer keeps and works with in its backward, under many plans."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.arrays import Floats
from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.weights import pad_vocabulary
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.memory_use.footprint.activations import (
    Layout,
    expert_visits,
    lay_out,
    layer_activations,
    layer_bytes,
)
from perfcast.memory_use.footprint.combinations import ByCombination, Combinations
from perfcast.memory_use.footprint.selective import made_again_bytes, saved_tensors
from perfcast.memory_use.footprint.setting import Setting

#: Columns on which a layer's activations depend.
_DEGREES = ("tensor_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
            "micro_batch_size", "sequence_parallel", "recompute")  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class LayerFigures:
    """Sizes of one micro-batch on a rank, in bytes; shape [n] or, by combination, [k] each.

    Attributes:
        saved_dense, saved_expert: What a layer without, with experts saves for its backward.
        again_dense, again_expert: What selective recomputation makes again in a layer without, with experts.
        frozen_dense, frozen_expert: What a layer saves that is frozen as a whole.
        norm_rows: Rows of the residual stream, cut along the sequence with sequence parallelism.
        rows: The same, whole.
        attention_backward: What the backward of attention works with.
        dense_backward, expert_backward: What that of the MLP, of the experts does.
        logits: Elements.
        inputs: Tokens, labels and masks.
    """

    saved_dense: Floats
    saved_expert: Floats
    again_dense: Floats
    again_expert: Floats
    frozen_dense: Floats
    frozen_expert: Floats
    norm_rows: Floats
    rows: Floats
    attention_backward: Floats
    dense_backward: Floats
    expert_backward: Floats
    logits: Floats
    inputs: Floats


def layer_figures(setting: Setting, plans: PlanTable) -> ByCombination[LayerFigures]:
    """Figures of a layer and of both ends.

    Raises:
        PlanError: A sequence that context or sequence parallelism cannot cut.
    """
    cuts = Combinations(plans, _DEGREES)
    return ByCombination(LayerFigures(**cuts.columns(lambda plan: _figures(setting, plan))), cuts.place)


def _figures(setting: Setting, plan: Plan) -> dict[str, float]:
    model, layout = setting.model, lay_out(plan, setting.training, setting.sequence_length)
    vocabulary = pad_vocabulary(model.vocab_size, plan.tensor_parallel, setting.profile.vocabulary_multiple)
    dense, again_dense = _layer(setting, plan, layout, has_experts=False)
    expert, again_expert = _layer(setting, plan, layout, has_experts=True) if model.experts else (0, 0)
    frozen_dense, frozen_expert = _frozen(setting, plan, layout)
    return {
        "saved_dense": dense,
        "saved_expert": expert,
        "again_dense": again_dense,
        "again_expert": again_expert,
        "frozen_dense": frozen_dense,
        "frozen_expert": frozen_expert,
        "norm_rows": layout.norm_rows(model.hidden_size),
        "rows": layout.rows(model.hidden_size),
        "logits": layout.tokens * (vocabulary // plan.tensor_parallel),
        "inputs": _input_bytes(setting, layout),
        **_backward(setting, plan, layout),
    }


def _layer(setting: Setting, plan: Plan, layout: Layout, *, has_experts: bool) -> tuple[int, int]:
    """Bytes that a layer keeps, and those of parts that its backward makes again."""
    model, training, profile = setting.model, setting.training, setting.profile
    kept = saved_tensors(model, plan, training, profile, layout, has_experts=has_experts)
    if plan.recompute == "full":
        return layer_bytes(kept), 0
    every = layer_activations(model, plan, training, setting.memory, layout, has_experts=has_experts)
    return layer_bytes(kept), made_again_bytes(kept, every)


def _frozen(setting: Setting, plan: Plan, layout: Layout) -> tuple[int, int]:
    """Bytes that a layer without, and one with experts keeps whose weights stay as they are."""

    def saved(*, has_experts: bool) -> int:
        found = saved_tensors(
            setting.model, plan, setting.training, setting.profile, layout,
            has_experts=has_experts, is_frozen=True,
        )  # fmt: skip
        return layer_bytes(found)

    if setting.training.tuning.frozen_layers is None:
        return 0, 0
    return saved(has_experts=False), saved(has_experts=True) if setting.model.experts else 0


def _input_bytes(setting: Setting, layout: Layout) -> int:
    """Tokens, labels and positions of 8 bytes, the loss's weights of 4, and a mask of pairs without flash."""
    masks = layout.tokens * layout.sequence_length if setting.training.attention == "math" else 0
    return 28 * layout.tokens + masks


def _backward(setting: Setting, plan: Plan, layout: Layout) -> dict[str, float]:
    """What the backward of the parts of a layer works with.

    Of the activation: gradients of its output and input, and the residual's gradient; with sequence
    parallelism the gathered input of the next product. Of attention: gradients of output, queries, keys and
    values, and of the scores where they are kept.
    """
    model, hidden = setting.model, layout.norm_rows(setting.model.hidden_size)
    gathered = layout.rows(model.hidden_size) if plan.sequence_parallel and plan.tensor_parallel > 1 else 0
    gates = 2 if model.is_gated else 1
    dense = layout.rows((gates + 1) * model.ffn_hidden_size / layout.tensor_parallel) + hidden + gathered
    expert = 0
    if model.experts is not None:
        visits = expert_visits(model.experts, plan, layout)
        width = model.experts.ffn_hidden_size / plan.tensor_parallel_of_experts
        expert = round(layout.element_bytes * visits * ((gates + 1) * width + model.hidden_size)) + hidden
    heads = heads_of_rank(model, layout.tensor_parallel)
    attention = layout.rows(heads.query_width + heads.joint_width) + hidden + gathered
    if setting.training.attention == "math":
        pairs = layout.tokens * layout.sequence_length * heads.queries
        attention += 2 * layout.element_bytes * pairs
    return {"attention_backward": attention, "dense_backward": dense, "expert_backward": expert}
