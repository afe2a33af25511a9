"""Weights of one rank: a matrix or vector, and those of attention in each kind of layer.

Down-projections of latent attention, and an indexer, are whole on every rank (Liu et al.: DeepSeek-V2, 2024,
section 2.1); all else is cut by heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfcast.core.model.heads import heads_of_rank
from perfcast.core.model.transformer import LatentAttention, Transformer


@dataclass(frozen=True, slots=True)
class Weight:
    """Equal weights of one rank: ``count`` matrices of rows × columns (a vector has one column)."""

    name: str
    rows: int
    columns: int
    count: int = 1
    is_expert: bool = False

    @property
    def num_elements(self) -> int:
        """Elements of all of them."""
        return self.count * self.rows * self.columns


def count_elements(weights: Iterable[Weight], is_expert: bool | None = None) -> int:
    """Elements, of the experts' or the other weights where asked."""
    return sum(w.num_elements for w in weights if is_expert is None or w.is_expert is is_expert)


def vector(name: str, size: int, has_bias: bool, count: int = 1) -> Weight:
    """One number for each element, or two."""
    return Weight(name, size, 1, count * (2 if has_bias else 1))


def norm_weight(model: Transformer, name: str, size: int) -> Weight:
    """Of a norm of the model's kind."""
    return vector(name, size, model.norm == "layernorm")


def attention_weights(model: Transformer, tensor_parallel: int) -> tuple[Weight, ...]:
    """What attention holds in a layer that has keys and values."""
    if model.latent_attention is not None:
        return (*_latent_attention(model, model.latent_attention, tensor_parallel), *_indexer(model))
    hidden, heads = model.hidden_size, heads_of_rank(model, tensor_parallel)
    qkv_rows = heads.joint_width + (heads.query_width if model.has_attention_gate else 0)
    weights = [
        Weight("queries, keys, values", qkv_rows, hidden),
        Weight("attention output", hidden, heads.output_width),
    ]
    if model.has_qkv_bias:
        weights.append(Weight("bias of queries, keys, values", qkv_rows, 1))
    if model.has_linear_bias:
        weights.append(Weight("bias of attention output", hidden, 1))
    if model.has_head_norms:
        joint = (Weight("norms of heads", heads.query_width + heads.key_width, 1),)
        weights += joint if model.joins_head_norms else (Weight("norms of heads", model.head_size, 1, 2),)
    if model.has_attention_sinks:
        weights.append(Weight("sinks of attention", heads.queries, 1))
    return tuple(weights)


def _latent_attention(
    model: Transformer, latent: LatentAttention, tensor_parallel: int
) -> tuple[Weight, ...]:
    hidden, heads = model.hidden_size, heads_of_rank(model, tensor_parallel)
    queries: tuple[Weight, ...] = (Weight("queries", heads.query_width, hidden),)
    if latent.query_rank is not None:
        queries = (
            Weight("query down-projection", latent.query_rank, hidden),
            Weight("query norm", latent.query_rank, 1),
            Weight("query up-projection", heads.query_width, latent.query_rank),
        )
    return (
        *queries,
        Weight("key-value down-projection", latent.kv_rank + latent.rope_head_size, hidden),
        Weight("key-value norm", latent.kv_rank, 1),
        Weight(
            "key-value up-projection",
            heads.queries * (latent.nope_head_size + latent.value_head_size),
            latent.kv_rank,
        ),
        Weight("attention output", hidden, heads.output_width),
    )


def _indexer(model: Transformer) -> tuple[Weight, ...]:
    """Whole on every rank (transformers: modeling_glm_moe_dsa.py, GlmMoeDsaIndexer)."""
    sparse, latent, hidden = model.sparse_attention, model.latent_attention, model.hidden_size
    if sparse is None or latent is None:
        return ()
    return (
        Weight("indexer queries", sparse.num_heads * sparse.head_size, latent.query_rank or hidden),
        Weight("indexer key", sparse.head_size, hidden),
        vector("indexer key norm", sparse.head_size, has_bias=True),
        Weight("indexer weights", sparse.num_heads, hidden),
    )


def linear_attention_weights(model: Transformer, tensor_parallel: int) -> tuple[Weight, ...]:
    """What takes attention's place in a layer with a gated delta rule, cut by its heads.

    (transformers: modeling_qwen3_5_moe.py, Qwen3_5MoeGatedDeltaNet.)
    """
    linear, hidden = model.linear_attention, model.hidden_size
    if linear is None:
        return ()
    heads = linear.num_value_heads // tensor_parallel
    values = heads * linear.value_head_size
    channels = 2 * linear.num_key_heads // tensor_parallel * linear.key_head_size + values
    return (
        Weight("queries, keys, values", channels, hidden),
        Weight("output gate", values, hidden),
        Weight("decay and step of the state", 2 * heads, hidden),
        Weight("short convolution", channels, linear.conv_size),
        Weight("biases of decay", heads, 1, 2),
        Weight("norm of heads", linear.value_head_size, 1),
        Weight("attention output", hidden, values),
    )


def linear_excess(model: Transformer, tensor_parallel: int) -> int:
    """Elements that a layer with linear attention holds on a rank beyond one with full attention."""
    if model.linear_attention is None:
        return 0
    own = count_elements(linear_attention_weights(model, tensor_parallel))
    return own - count_elements(attention_weights(model, tensor_parallel))
