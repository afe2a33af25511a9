"""Model flops of a step, and what is computed twice.

Training and serving are counted alike. Of a token: 2 flops a weight of the products that it meets in the
forward, twice as many in the backward; of attention 2·s·a·(d + e) for its s keys with a heads of sizes d and
e, masked or not, in the forward, twice as many in the backward (Chowdhery et al.: PaLM, 2022, appendix B;
Narayanan et al.: SC 2021, section 5.1).
"""

from __future__ import annotations

from functools import lru_cache

from perfcast.core.model.attention_weights import Weight, attention_weights, linear_attention_weights
from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import kinds_of_layer
from perfcast.core.plan import Plan
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.core.tuning.weights import layer_adapters, split_weights
from perfcast.core.work import Layer, LayerRun, StageWork


@lru_cache(maxsize=1024)
def flops_per_sequence(
    model: Transformer, sequence_length: int, kept_share: float = 1.0, tuning: Tuning = FULL
) -> int:
    """Forward and backward of one sequence in training, with the layers that predict further tokens.

    Frozen weights have no gradient, layers that no gradient reaches no backward; adapters have theirs.

    Args:
        kept_share: Of the rows that a router sends, those that experts take; what is dropped is not computed.
    """
    forward = forward_flops(model, sequence_length, sequence_length, sequence_length, kept_share)
    transform = model.hidden_size**2 if model.has_head_transform else 0
    matrices = transform + model.num_prediction_layers * _prediction_matrices(model, kept_share)
    further = model.num_prediction_layers * _attention(model, sequence_length, sequence_length)
    whole = 3 * (forward + 2 * sequence_length * matrices + further)
    return whole if tuning.is_full else whole + _tuned(model, sequence_length, tuning, kept_share)


def _tuned(model: Transformer, sequence_length: int, tuning: Tuning, kept_share: float) -> int:
    """What adapters add, less what frozen parts of a model leave out of its backward."""
    adapters = tuning.adapters
    attention, total = _attention(model, sequence_length, sequence_length), 0
    for at in range(model.num_layers):
        has_experts = at >= model.num_layers - model.num_expert_layers
        weights = kinds_of_layer(model, Plan())[has_experts]
        split = split_weights(tuning, weights, is_frozen=tuning.freezes_layer(at))
        total -= 2 * sequence_length * _active(model, (*split.frozen, *split.quantised), kept_share)
        if not tuning.has_gradient(at):
            total -= 2 * sequence_length * _active(model, weights, kept_share) + 2 * attention
        beside = layer_adapters(model, Plan(), adapters, has_experts=has_experts)
        total += 6 * sequence_length * sum(w.num_elements for adapter in beside for w in adapter.weights)
    without = (not tuning.trains("head")) + (not tuning.has_gradient(model.num_layers - 1))
    total -= 2 * sequence_length * without * _table(model)
    if adapters is not None:
        total -= 2 * sequence_length * model.num_prediction_layers * _prediction_matrices(model, kept_share)
    return total


def forward_flops(
    model: Transformer, num_new: int, num_keys: int, num_logits: int, kept_share: float = 1.0
) -> int:
    """Forward of one sequence.

    Args:
        num_new: Tokens that are computed.
        num_keys: Tokens that each of them attends to; in layers with a window no more than that.
        num_logits: Tokens whose logits are computed.
        kept_share: As of ``flops_per_sequence``.
    """
    dense, expert = kinds_of_layer(model, Plan())
    num_dense = model.num_layers - model.num_expert_layers
    of_expert_layer = _active(model, expert, kept_share)
    matrices = num_dense * _active(model, dense) + model.num_expert_layers * of_expert_layer
    seen = min(model.sliding_window or num_keys, num_keys)
    num_full = model.num_layers - model.num_window_layers - model.num_linear_layers
    attention = num_full * _full_attention(model, num_new, num_keys)
    attention += model.num_linear_layers * _linear_attention(model, num_new)
    attention += model.num_window_layers * _attention(model, num_new, seen)
    projections = (num_new + num_logits) * model.embedding_size * model.hidden_size
    return 2 * (num_new * matrices + projections + num_logits * _table(model)) + attention


def _prediction_matrices(model: Transformer, kept_share: float) -> int:
    """Elements that a token meets in a layer that predicts one token further, its join and its head."""
    dense, expert = kinds_of_layer(model, Plan())
    layer = dense if model.experts is None else expert
    return _active(model, layer, kept_share) + _table(model) + 2 * model.hidden_size**2


def _active(model: Transformer, layer: tuple[Weight, ...], kept_share: float = 1.0) -> int:
    """Elements of a layer's matrices that one token is multiplied with."""
    products = [w for w in layer if w.columns > 1 or w.name == "gate of shared experts"]
    total = sum(w.num_elements for w in products if not w.is_expert)
    if model.experts is None:
        return total
    of_one = sum(w.num_elements for w in products if w.is_expert) // model.experts.num_experts
    return total + round(kept_share * of_one * model.experts.experts_per_token)


def _table(model: Transformer) -> int:
    """Elements of the head's matrix; that of the embedding is looked up, not multiplied."""
    return model.vocab_size * (model.embedding_size or model.hidden_size)


def _attention(model: Transformer, num_new: int, num_keys: int) -> int:
    """Forward of one layer, masked pairs included."""
    heads = heads_of_rank(model)
    return 2 * num_new * num_keys * heads.queries * (heads.size + heads.value_size)


def _full_attention(model: Transformer, num_new: int, num_keys: int) -> int:
    """Forward of one layer that sees all tokens, by an indexer those that it picks."""
    sparse = model.sparse_attention
    if sparse is None:
        return _attention(model, num_new, num_keys)
    scores = 2 * num_new * num_keys * sparse.num_heads * sparse.head_size
    return scores + _attention(model, num_new, min(num_keys, sparse.kept_tokens))


def _linear_attention(model: Transformer, num_new: int) -> int:
    """Forward of a layer with a gated delta rule: three passes over the state of each value head."""
    linear = model.linear_attention
    if linear is None:
        return 0
    matrices = sum(w.num_elements for w in linear_attention_weights(model, 1) if w.columns > 1)
    matrices -= sum(w.num_elements for w in attention_weights(model, 1) if w.columns > 1)
    state = linear.num_value_heads * linear.key_head_size * linear.value_head_size
    return 2 * num_new * (matrices + 3 * state)


def recomputed_flops(layers: tuple[Layer, ...], stages: tuple[StageWork, ...], plan: Plan) -> int:
    """Products and attention that the backward runs a second time, over all devices of a step."""
    of_layer = [
        sum(
            call.count * call.operation.flops
            for call in layer.backward
            if call.is_recomputed and call.operation.uses_matrix_units
        )
        for layer in layers
    ]
    runs: list[LayerRun] = [run for stage in stages for chunk in stage.chunks for run in chunk]
    of_rank = sum(run.count * of_layer[run.layer] for run in runs)
    return of_rank * plan.num_micro_batches * plan.ranks_per_stage
