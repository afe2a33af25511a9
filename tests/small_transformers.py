"""Transformers small or round enough to be followed by hand."""

from __future__ import annotations

from typing import Any

from perfcast.core.forecast.footprint import Moment, StageFootprint, Term
from perfcast.core.transformer import Experts, Transformer
from perfcast.core.weights import StageWeights, Weight
from perfcast.memory.footprint.habits import Habits


def gpt(
    heads: int = 4, hidden: int = 64, layers: int = 8, vocabulary: int = 512, **changes: Any
) -> Transformer:
    """GPT as its paper has it: MLP of 4 h, layer norms, biases, learned positions, dropout, one table."""
    sizes: dict[str, Any] = {
        "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "num_kv_heads": heads,
        "head_size": hidden // heads, "ffn_hidden_size": 4 * hidden, "vocab_size": vocabulary,
        "positions": "learned", "max_positions": 32, "has_dropout": True, "has_attention_dropout": True,
    }  # fmt: skip
    return Transformer(**(sizes | changes))


def llama(heads: int = 8, kv_heads: int = 4, **changes: Any) -> Transformer:
    """Gated, grouped keys and values, no bias, no dropout, a head of its own."""
    sizes: dict[str, Any] = {
        "num_layers": 8, "hidden_size": 64, "num_attention_heads": heads, "num_kv_heads": kv_heads,
        "head_size": 8, "ffn_hidden_size": 192, "vocab_size": 512, "is_gated": True, "norm": "rmsnorm",
        "has_linear_bias": False, "has_qkv_bias": False, "ties_embeddings": False,
    }  # fmt: skip
    return Transformer(**(sizes | changes))


def mixture(**changes: Any) -> Transformer:
    """``llama`` with 8 experts of width 96, two for each token."""
    return llama(experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=96), **changes)


def habits(**changes: Any) -> Habits:
    """Two bytes of weight, two of gradient, fp32 copies: those of the ZeRO paper."""
    kept: dict[str, Any] = {
        "weight_bytes": 2, "compute_weight_bytes": 2, "gradient_bytes": 2, "has_master_weights": True,
        "source": "by hand",
    }  # fmt: skip
    return Habits(**(kept | changes))


def one_layer(
    *dense: Weight,
    experts: tuple[Weight, ...] = (),
    embedding: tuple[Weight, ...] = (),
    head: tuple[Weight, ...] = (),
) -> StageWeights:
    """A stage with one dense layer, and one with experts where there are any."""
    return StageWeights(
        num_dense_layers=1 if dense else 0,
        num_expert_layers=1 if experts else 0,
        dense_layer=dense,
        expert_layer=experts,
        embedding=embedding,
        head=head,
        holds_head=bool(head),
    )


def term_of(moment: Moment, name: str) -> Term | None:
    """A term by its name, if the moment has it."""
    return next((term for term in moment.terms if term.name == name), None)


def moment_of(stage: StageFootprint, name: str) -> Moment:
    """A moment by its name."""
    return next(moment for moment in stage.moments if moment.name == name)
