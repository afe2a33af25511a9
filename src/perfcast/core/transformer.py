"""A transformer by its sizes: what closed forms need to know of a model."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.errors import ModelError


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1); sizes per head but the ranks.

    Attributes:
        query_rank: Of the compressed queries; None where queries are not compressed.
        kv_rank: Of the compressed keys and values, which the cache holds.
        nope_head_size, rope_head_size: Of a query or key, without and with rotation.
        value_head_size: Of a value.
    """

    query_rank: int | None
    kv_rank: int
    nope_head_size: int
    rope_head_size: int
    value_head_size: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of some layers' MLP.

    Attributes:
        ffn_hidden_size: Of one expert.
        shared_ffn_hidden_size: Of all experts that every token visits, together; 0 without.
        num_dense_layers: Leading layers that keep the dense MLP.
    """

    num_experts: int
    experts_per_token: int
    ffn_hidden_size: int
    shared_ffn_hidden_size: int = 0
    num_dense_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A stack of equal layers between an embedding and a head.

    Attributes:
        ffn_hidden_size: Of the dense MLP, per matrix.
        is_gated: Whether the MLP has a gate (SwiGLU and kin): three matrices in place of two.
        activation: 'gelu', 'silu', 'relu' …: the MLP's function.
        norm: 'layernorm' (weight and bias), 'rmsnorm' (weight).
        has_linear_bias: Whether the linear layers have biases.
        has_qkv_bias: Whether queries, keys and values have, even where the others have none.
        has_head_norms: Whether queries and keys are normalised per head (one weight of head_size each).
        positions: 'rope', 'learned' or 'none'.
        max_positions: Rows of a learned table of positions; else unused.
        ties_embeddings: Whether the head is the embedding.
        has_dropout: Whether training drops (a mask of one byte an element is kept).
        is_causal: Whether a query sees only what precedes it.
        num_prediction_layers: Further multi-token-prediction layers behind the last (DeepSeek-V3).
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_kv_heads: int
    head_size: int
    ffn_hidden_size: int
    vocab_size: int
    is_gated: bool = False
    activation: str = "gelu"
    norm: str = "layernorm"
    has_linear_bias: bool = True
    has_qkv_bias: bool = True
    has_head_norms: bool = False
    positions: str = "rope"
    max_positions: int = 0
    ties_embeddings: bool = True
    has_dropout: bool = False
    is_causal: bool = True
    experts: Experts | None = None
    latent_attention: LatentAttention | None = None
    num_prediction_layers: int = 0

    def __post_init__(self) -> None:
        for name in ("num_layers", "hidden_size", "num_attention_heads", "num_kv_heads", "head_size"):
            if getattr(self, name) < 1:
                raise ModelError(f"a transformer with {name} {getattr(self, name)}; it must be at least 1")
        if self.num_attention_heads % self.num_kv_heads:
            raise ModelError(
                f"{self.num_attention_heads} attention heads are no multiple of {self.num_kv_heads} kv heads"
            )

    @property
    def num_expert_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        return self.num_layers - self.experts.num_dense_layers if self.experts else 0
