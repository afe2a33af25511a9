"""The moments of a step that can be its peak, and what is held then besides the states.

loss             all waiting activations, logits and what the loss makes of them
head backward    the same activations, the gradient of the logits, the head's gradient
layer backward   the same activations and what the last layer's backward works with
embedding        its dense gradient, when all activations are gone
optimizer        the states alone: fused updates work in place
"""

from __future__ import annotations

from perfcast.core.forecast.footprint import Moment, Term
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.core.weights import StageWeights
from perfcast.memory.footprint.activations import (
    Layout,
    Saved,
    attention_core,
    expert_visits,
    head_widths,
    layer_bytes,
)
from perfcast.memory.footprint.habits import Habits
from perfcast.memory.footprint.pipeline import chunks_of_a_rank
from perfcast.memory.footprint.recomputed import Recomputed

_KORTHIKANTI = "Korthikanti et al., MLSys 2023, sections 4 and 5"
_Kinds = tuple[tuple[Saved, ...], tuple[Saved, ...]]
_CROSS_ENTROPY = "Megatron-LM: tensor_parallel/cross_entropy.py"


def activation_terms(
    plan: Plan,
    weights: StageWeights,
    layers: _Kinds,
    layout: Layout,
    hidden_size: int,
    in_flight: float,
    again: Recomputed,
) -> tuple[Term, ...]:
    """Activations that wait for their backward; of layers that are computed again their inputs alone.

    Args:
        layers: What a dense layer and a layer with experts keep.
        in_flight: Micro-batches that wait, in units of the whole stage.
        again: Layers that are computed again.
    """
    if plan.offload == "activations":
        in_flight = 1
    num_kept, terms = weights.num_layers - again.num_layers, []
    if again.num_layers:
        inputs = layout.norm_rows(hidden_size)
        terms.append(
            Term(
                "inputs of checkpointed layers", Category.ACTIVATION,
                round(in_flight * again.num_layers * inputs),
                f"{_micro_batches(in_flight)} · {again.num_layers} layers · 2·s·b·h", _KORTHIKANTI,
            )
        )  # fmt: skip
    if num_kept:
        kept = _kept_bytes(plan, weights, layers, again)
        terms.append(
            Term(
                "layer activations", Category.ACTIVATION, round(in_flight * kept),
                f"{_micro_batches(in_flight)} · {num_kept} layers", _KORTHIKANTI,
            )
        )  # fmt: skip
    return tuple(terms)


def _kept_bytes(plan: Plan, weights: StageWeights, layers: _Kinds, again: Recomputed) -> int:
    """Of a micro-batch, what layers keep that are not computed again; one layer's where it moves away."""
    counts = (weights.num_dense_layers - again.num_dense, weights.num_expert_layers - again.num_expert)
    held = [(count, layer_bytes(saved)) for count, saved in zip(counts, layers, strict=True) if count]
    if plan.offload == "activations":
        return max((each for _, each in held), default=0)
    return sum(count * each for count, each in held)


def recomputed_term(
    model: Transformer,
    plan: Plan,
    training: Training,
    weights: StageWeights,
    layers: _Kinds,
    layout: Layout,
    again: Recomputed,
) -> Term:
    """What the layer whose backward runs has made again: all beside its input, or attention's core.

    Where only the first layers are computed again, what those behind them kept is free by then.
    """
    name, made, formula = "recomputed layer", 0, ""
    if again.num_layers:
        counts = (again.num_dense, again.num_expert)
        one = max(layer_bytes(saved) for count, saved in zip(counts, layers, strict=True) if count)
        gone = _kept_bytes(plan, weights, layers, again) // chunks_of_a_rank(plan)
        made = max(one - layout.norm_rows(model.hidden_size) - gone, 0)
        formula = "one layer's activations"
    elif plan.recompute == "selective":
        made = layer_bytes(tuple(attention_core(model, training, layout)))
        name, formula = "recomputed attention", "of one layer"
    return Term(name, Category.ACTIVATION, made, formula, _KORTHIKANTI)


def _micro_batches(count: float) -> str:
    return f"{count:g} micro-batch{'' if count == 1 else 'es'}"


def head_activation_term(model: Transformer, layout: Layout) -> Term:
    """Input of the last norm and its output, whole for the head's product."""
    num_bytes = layout.norm_rows(model.hidden_size) + layout.rows(model.hidden_size)
    return Term("input of the head", Category.ACTIVATION, num_bytes, "2·s·b·h, twice", _KORTHIKANTI)


def loss_terms(logit_elements: int, training: Training, habits: Habits, layout: Layout) -> tuple[Term, ...]:
    """Logits in the products' format and, unless the loss is fused, what it makes of them in fp32."""
    terms = [_logits("logits", logit_elements, layout.element_bytes)]
    if not training.fuses_cross_entropy:
        terms.append(_logits("the loss's copies of the logits", logit_elements, habits.softmax_bytes))
    return tuple(terms)


def issued_ahead_term(model: Transformer, plan: Plan, layout: Layout, habits: Habits) -> Term:
    """Unsharded tensors of asynchronous collectives, which stay allocated until the device has caught up."""
    applies = plan.tensor_parallel > 1 and plan.sequence_parallel and plan.pipeline_parallel == 1
    count = habits.tensors_issued_ahead if applies else 0
    return Term(
        "tensors of collectives issued ahead", Category.TEMPORARY,
        round(count * layout.rows(model.hidden_size)), f"{count:g} · 2·s·b·h",
        "PyTorch: ProcessGroupNCCL, record_stream of the tensors of asynchronous collectives",
    )  # fmt: skip


def _logits(name: str, elements: int, each: float) -> Term:
    num_bytes = round(each * elements)
    return Term(name, Category.ACTIVATION, num_bytes, f"{each:g} bytes · {elements:,}", _CROSS_ENTROPY)


def head_backward_terms(
    weights: StageWeights, logit_elements: int, model: Transformer, layout: Layout, habits: Habits
) -> tuple[Term, ...]:
    """Gradient of the logits, of the head's weight, and of its input before it is cut again."""
    table = next((w for w in (*weights.head, *weights.embedding) if w.name in ("head", "embedding")), None)
    rows = table.num_elements if table else 0
    each = habits.compute_weight_bytes
    return (
        _logits("gradient of the logits", logit_elements, layout.element_bytes),
        Term("gradient of the head", Category.GRADIENT, each * rows, f"{each} bytes · {rows:,}",
             habits.source),
        Term("gradient of the head's input", Category.ACTIVATION, layout.rows(model.hidden_size), "2·s·b·h",
             _KORTHIKANTI),
    )  # fmt: skip


def layer_backward_terms(
    model: Transformer, plan: Plan, training: Training, layout: Layout, weights: StageWeights
) -> tuple[Term, ...]:
    """The largest of what the backward of one layer works with, product by product.

    Backward of the activation: gradients of its output and input, and the residual's gradient; with
    sequence parallelism the gathered input of the next product. Backward of attention: gradients of
    output, queries, keys and values, and of the scores where they are kept.
    """
    hidden = layout.norm_rows(model.hidden_size)
    gathered = layout.rows(model.hidden_size) if plan.sequence_parallel and plan.tensor_parallel > 1 else 0
    gates = 2 if model.is_gated else 1
    mlp = 0
    if model.experts is not None and weights.num_expert_layers:
        visits = expert_visits(model.experts, plan, layout)
        width = model.experts.ffn_hidden_size / plan.tensor_parallel_of_experts
        mlp = round(layout.element_bytes * visits * ((gates + 1) * width + model.hidden_size)) + hidden
    if weights.num_dense_layers:
        dense = layout.rows((gates + 1) * model.ffn_hidden_size / layout.tensor_parallel)
        mlp = max(mlp, dense + hidden + gathered)
    queries, keys, values = head_widths(model, layout.tensor_parallel)
    attention = layout.rows(2 * queries + keys + values) + hidden + gathered
    if training.attention == "math":
        heads = model.num_attention_heads // layout.tensor_parallel
        pairs = layout.tokens * layout.sequence_length * heads
        attention += 2 * layout.element_bytes * pairs
    name = "gradients inside the MLP" if mlp >= attention else "gradients inside attention"
    return (Term(name, Category.TEMPORARY, max(mlp, attention), "of one layer's backward", _KORTHIKANTI),)


def embedding_backward_term(weights: StageWeights, habits: Habits) -> Term:
    """The dense gradient of the embedding before it is added to the buffer."""
    rows = sum(w.num_elements for w in weights.embedding[:1])
    each = habits.compute_weight_bytes
    return Term(
        "gradient of the embedding", Category.GRADIENT, each * rows, f"{each} bytes · {rows:,}", habits.source
    )


def moment(name: str, *groups: tuple[Term, ...]) -> Moment:
    """A moment of several groups of terms."""
    return Moment(name, tuple(term for group in groups for term in group if term.num_bytes))
