"""Configs of decoders of LLaMA's kind, and what readers of configs share.

As ``workload.models.transformer`` has it: each function reads one architecture's config, in which nothing is
left out, and states what its module is built of.
"""

from __future__ import annotations

from typing import Any

_ATTENTION_DROPOUT = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")


def common_sizes(config: Any) -> dict[str, Any]:
    """Sizes by the names that transformers' configs share."""
    heads = int(config.num_attention_heads)
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return {
        "num_layers": int(config.num_hidden_layers),
        "hidden_size": int(config.hidden_size),
        "num_attention_heads": heads,
        "num_kv_heads": heads,
        "head_size": int(head_size),
        "vocab_size": int(config.vocab_size),
        "ties_embeddings": bool(getattr(config, "tie_word_embeddings", True)),
        "has_attention_dropout": drops(*(getattr(config, name, 0.0) for name in _ATTENTION_DROPOUT)),
    }


def kv_heads(config: Any) -> int:
    """Heads of keys; those of queries where none are stated."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def window_of(config: Any) -> dict[str, int]:
    """Layers whose attention looks back over a window only."""
    types = getattr(config, "layer_types", None)
    window = int(getattr(config, "sliding_window", None) or 0)
    if types is not None:
        count = sum(kind == "sliding_attention" for kind in types)
    else:
        count = config.num_hidden_layers if window else 0
    return {"sliding_window": window if count else 0, "num_window_layers": int(count)}


def drops(*probabilities: float | None) -> bool:
    """Whether any probability of dropping is not 0."""
    return any(bool(p) for p in probabilities)


# ---- decoders ----------------------------------------------------------------------------------


def read_llama(config: Any) -> dict[str, Any]:
    """RMS norms, rotary positions, gated MLP; biases by switches."""
    has_bias = bool(getattr(config, "attention_bias", False))
    return {
        **common_sizes(config),
        **window_of(config),
        "num_kv_heads": kv_heads(config),
        "ffn_hidden_size": int(getattr(config, "intermediate_size", None) or config.moe_intermediate_size),
        "is_gated": True,
        "activation": str(getattr(config, "hidden_activation", None) or config.hidden_act),
        "norm": "rmsnorm",
        "has_linear_bias": has_bias,
        "has_qkv_bias": has_bias,
        "has_mlp_bias": bool(getattr(config, "mlp_bias", False)),
    }


def read_qwen2(config: Any) -> dict[str, Any]:
    """Biases on queries, keys and values alone."""
    return {**read_llama(config), "has_linear_bias": False, "has_qkv_bias": True}


def read_qwen3(config: Any) -> dict[str, Any]:
    """Norms of queries and keys."""
    return {**read_llama(config), "has_head_norms": True}


def read_gemma(config: Any) -> dict[str, Any]:
    """Norms multiply in fp32."""
    return {**read_llama(config), "scales_norm_in_fp32": True}


def read_gemma2(config: Any) -> dict[str, Any]:
    """Norms on both sides; scores and logits capped, which fused kernels cannot."""
    return {
        **read_gemma(config),
        "norm_placement": "both",
        "caps_logits": config.final_logit_softcapping is not None,
        "caps_scores": config.attn_logit_softcapping is not None,
        "has_fused_attention": False,
    }


def read_gemma3(config: Any) -> dict[str, Any]:
    """Norms on both sides and of queries and keys; logits may be capped."""
    caps = getattr(config, "final_logit_softcapping", None) is not None
    return {**read_gemma(config), "norm_placement": "both", "caps_logits": caps, "has_head_norms": True}


def read_phi3(config: Any) -> dict[str, Any]:
    """LLaMA's layer with one product for queries, keys and values and one for gate and up."""
    fused = {"has_fused_qkv": True, "has_fused_gate": True, "rope_size": rope_size(config)}
    return {**read_llama(config), **fused, "has_dropout": drops(config.resid_pdrop)}


def rope_size(config: Any) -> int:
    """Rotated elements of a head where not all are; transformers keeps the share in two places."""
    rope = getattr(config, "rope_parameters", None) or {}
    share = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None)) or 1.0
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 0 if share == 1.0 else int(head_size * share)
