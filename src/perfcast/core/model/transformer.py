"""A transformer by its sizes: what closed forms need to know of a model."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.model.token_routing import TokenRouting
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
class SparseAttention:
    """An indexer that picks the tokens attended to (DeepSeek-V3.2, arXiv 2512.02556, section 2.1).

    Attributes:
        num_heads, head_size: Of the indexer's queries; its one key a token has the same size.
        kept_tokens: That a query attends to at most.
    """

    num_heads: int
    head_size: int
    kept_tokens: int


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Layers with a gated delta rule in place of attention (Yang et al., arXiv 2412.06464; Qwen3-Next).

    A state of key_head_size × value_head_size numbers for each value head stands for all tokens before.

    Attributes:
        num_layers: That have it; a layer with full attention closes each of the equal groups of layers.
        num_key_heads, key_head_size: Of queries and of keys.
        num_value_heads, value_head_size: Of values and of the output's gate.
        conv_size: Tokens that the short convolution over queries, keys and values sees.
    """

    num_layers: int
    num_key_heads: int
    num_value_heads: int
    key_head_size: int
    value_head_size: int
    conv_size: int


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of some layers' MLP.

    Attributes:
        ffn_hidden_size: Of one expert.
        shared_ffn_hidden_size: Of all experts that every token visits, together; 0 without.
        num_dense_layers: Leading layers that keep the dense MLP.
        has_shared_gate: Whether a gate of one output weighs the shared experts (Qwen2-MoE).
        num_groups, groups_per_token: Node-limited routing (``core.model.token_routing``); 1 and 1 without.
        has_bias: Whether the router and the products of the experts have biases (gpt-oss).
    """

    num_experts: int
    experts_per_token: int
    ffn_hidden_size: int
    shared_ffn_hidden_size: int = 0
    num_dense_layers: int = 0
    has_shared_gate: bool = False
    num_groups: int = 1
    groups_per_token: int = 1
    has_bias: bool = False

    @property
    def routing(self) -> TokenRouting:
        """Where tokens go."""
        return TokenRouting(self.num_experts, self.experts_per_token, self.num_groups, self.groups_per_token)


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
        joins_head_norms: Whether those span all heads (MiniMax-M2: a weight for each element of a token).
        positions: 'rope', 'learned' or 'none'.
        max_positions: Rows of a learned table of positions; else unused.
        ties_embeddings: Whether the head is the embedding.
        has_dropout: Whether training drops (a mask of one byte an element is kept).
        is_causal: Whether a query sees only what precedes it.
        num_prediction_layers: Further multi-token-prediction layers behind the last (DeepSeek-V3).
        has_mlp_bias: Whether the MLP has biases; None says: as the other linear layers.
        has_head_bias: Whether the head has (one number for each word).
        has_head_transform: Whether a linear layer, the activation and a norm precede the head (BERT).
        num_token_types: Rows of a table of token types (BERT); 0 without.
        embedding_size: Of the embedding where it is not hidden_size; two projections without bias lead
            from it and back (OPT-350M). 0 says: hidden_size.
        has_embedding_norm: Whether a norm follows the embedding.
        has_embedding_dropout, has_attention_dropout: Whether training drops behind the embedding too, and
            probabilities of attention (a fused kernel keeps no mask of those).
        has_final_norm: Whether a norm follows the last layer.
        norm_placement: 'before' attention and MLP, 'after' the sum with the residual (BERT), 'both' before
            and after attention and MLP (Gemma 2), or 'shared': one before attention and MLP side by side
            (GPT-J); 'parallel': one before each, side by side (GPT-NeoX).
        scales_norm_in_fp32: Whether the weight of an RMS norm is multiplied before the cast back (Gemma).
        has_fused_qkv, has_fused_gate: Whether one product makes queries, keys and values; gate and up.
        rope_size: Rotated elements of a head; 0 says: all.
        caps_logits, caps_scores: Whether the logits, the scores of attention go through a scaled tanh
            (Gemma 2).
        has_fused_attention: Whether transformers' module can run a fused kernel; else it runs 'math'.
        sliding_window: Tokens that a windowed layer looks back; 0 without.
        num_window_layers: Layers that have the window.
        has_attention_sinks: Whether a learned number of each head stands in the softmax (gpt-oss).
        has_attention_gate: Whether a gate as wide as the queries weighs what attention gives (Qwen3-Next).
        linear_attention: Layers without keys and values; None without.
        sparse_attention: What picks the tokens attended to; None: a query attends to all.
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
    joins_head_norms: bool = False
    positions: str = "rope"
    max_positions: int = 0
    ties_embeddings: bool = True
    has_dropout: bool = False
    is_causal: bool = True
    experts: Experts | None = None
    latent_attention: LatentAttention | None = None
    num_prediction_layers: int = 0
    has_mlp_bias: bool | None = None
    has_head_bias: bool = False
    has_head_transform: bool = False
    num_token_types: int = 0
    embedding_size: int = 0
    has_embedding_norm: bool = False
    has_embedding_dropout: bool = False
    has_attention_dropout: bool = False
    has_final_norm: bool = True
    norm_placement: str = "before"
    scales_norm_in_fp32: bool = False
    has_fused_qkv: bool = False
    has_fused_gate: bool = False
    rope_size: int = 0
    caps_logits: bool = False
    caps_scores: bool = False
    has_fused_attention: bool = True
    sliding_window: int = 0
    num_window_layers: int = 0
    has_attention_sinks: bool = False
    has_attention_gate: bool = False
    linear_attention: LinearAttention | None = None
    sparse_attention: SparseAttention | None = None

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

    @property
    def num_linear_layers(self) -> int:
        """Layers with linear attention."""
        return self.linear_attention.num_layers if self.linear_attention else 0
