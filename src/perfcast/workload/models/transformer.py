"""Hugging Face configs → the sizes that closed forms work with.

Each function below reads one architecture's config, in which nothing is left out, and states what its module
is built of (transformers, models/<model_type>/modeling_<model_type>.py). Most catalog entries state all of
it; in a config.json, transformers fills in the rest, which takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

from perfcast.core.transformer import Experts, LatentAttention, Transformer
from perfcast.errors import ModelError

_NOT_SHAPES = (
    "auto_map",
    "quantization_config",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "_name_or_path",
)

#: Names of sizes by which transformers knows a config's own, where they differ.
_ALIASES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"gpt2": {"hidden_size": "n_embd", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}}
)
_ATTENTION_DROPOUT = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")


def read_transformer(config: Mapping[str, Any], architecture: str | None) -> Transformer:
    """The transformer of a config.

    DeepSeek-V3's multi-token-prediction layers are left out, as transformers' module leaves them out.

    Args:
        config: A config.json, or the config of a catalog entry.
        architecture: Class that builds it, of a catalog entry, which is read as it stands if it states all;
            None takes the config's own, and what transformers fills in.

    Raises:
        ModelError: An architecture that the closed form does not describe; the message lists those that it
            does. Or a config that transformers refuses.
    """
    model_type = str(config.get("model_type", architecture or "unknown"))
    if model_type not in _READERS:
        raise ModelError(
            f"the closed form does not describe {architecture or model_type!r}; it describes models of the "
            f"types {', '.join(sorted(_READERS))}. Capture the model instead."
        )
    names = config.get("architectures")
    is_stated = architecture is not None
    architecture = architecture or (names[0] if isinstance(names, list) and names else None)
    if architecture is not None and not architecture.endswith(("ForCausalLM", "LMHeadModel", "ForMaskedLM")):
        raise ModelError(f"the closed form describes language models; {architecture} has no head over words")
    if is_stated:
        try:
            return _read(model_type, _stated(model_type, config))
        except AttributeError:
            pass
    try:
        return _read(model_type, _parse(model_type, config))
    except AttributeError as error:
        raise ModelError(f"model_type '{model_type}': {error}") from error


def _read(model_type: str, config: Any) -> Transformer:
    if getattr(config, "add_cross_attention", False):
        raise ModelError(f"{model_type} with cross-attention: the closed form does not describe it")
    return Transformer(**_READERS[model_type](config))


def _stated(model_type: str, config: Mapping[str, Any]) -> Any:
    """The config alone, under all names of its sizes."""
    aliases = _ALIASES.get(model_type, {})
    return SimpleNamespace(**config, **{name: config[own] for name, own in aliases.items() if own in config})


def _parse(model_type: str, config: Mapping[str, Any]) -> Any:
    import transformers

    from perfcast.workload.models.transformers_context import quiet_transformers

    content = {key: value for key, value in config.items() if key not in (*_NOT_SHAPES, "model_type")}
    with quiet_transformers():
        try:
            return transformers.AutoConfig.for_model(model_type, **content)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ModelError(f"model_type '{model_type}' refuses this config: {lines[0]}") from error


# ---- what is common ----------------------------------------------------------------------------


def _sizes(config: Any) -> dict[str, Any]:
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
        "has_attention_dropout": _drops(*(getattr(config, name, 0.0) for name in _ATTENTION_DROPOUT)),
    }


def _kv_heads(config: Any) -> int:
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def _window(config: Any) -> dict[str, int]:
    """Layers whose attention looks back over a window only."""
    types = getattr(config, "layer_types", None)
    window = int(getattr(config, "sliding_window", None) or 0)
    if types is not None:
        count = sum(kind == "sliding_attention" for kind in types)
    else:
        count = config.num_hidden_layers if window else 0
    return {"sliding_window": window if count else 0, "num_window_layers": int(count)}


def _drops(*probabilities: float | None) -> bool:
    return any(bool(p) for p in probabilities)


# ---- decoders of LLaMA's kind ------------------------------------------------------------------


def _llama(config: Any) -> dict[str, Any]:
    """RMS norms, rotary positions, gated MLP; biases by switches."""
    has_bias = bool(getattr(config, "attention_bias", False))
    return {
        **_sizes(config),
        **_window(config),
        "num_kv_heads": _kv_heads(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "is_gated": True,
        "activation": str(getattr(config, "hidden_activation", None) or config.hidden_act),
        "norm": "rmsnorm",
        "has_linear_bias": has_bias,
        "has_qkv_bias": has_bias,
        "has_mlp_bias": bool(getattr(config, "mlp_bias", False)),
    }


def _qwen2(config: Any) -> dict[str, Any]:
    """Biases on queries, keys and values alone."""
    return {**_llama(config), "has_linear_bias": False, "has_qkv_bias": True}


def _qwen3(config: Any) -> dict[str, Any]:
    return {**_llama(config), "has_head_norms": True}


def _gemma(config: Any) -> dict[str, Any]:
    """Norms multiply in fp32."""
    return {**_llama(config), "scales_norm_in_fp32": True}


def _gemma2(config: Any) -> dict[str, Any]:
    """Norms on both sides; scores and logits capped, which fused kernels cannot."""
    return {
        **_gemma(config),
        "norm_placement": "both",
        "caps_logits": config.final_logit_softcapping is not None,
        "caps_scores": config.attn_logit_softcapping is not None,
        "has_fused_attention": False,
    }


def _gemma3(config: Any) -> dict[str, Any]:
    caps = getattr(config, "final_logit_softcapping", None) is not None
    return {**_gemma(config), "norm_placement": "both", "caps_logits": caps, "has_head_norms": True}


def _phi3(config: Any) -> dict[str, Any]:
    """LLaMA's layer with one product for queries, keys and values and one for gate and up."""
    fused = {"has_fused_qkv": True, "has_fused_gate": True, "rope_size": _rope_size(config)}
    return {**_llama(config), **fused, "has_dropout": _drops(config.resid_pdrop)}


def _rope_size(config: Any) -> int:
    """Rotated elements of a head where not all are; transformers keeps the share in two places."""
    rope = getattr(config, "rope_parameters", None) or {}
    share = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None)) or 1.0
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 0 if share == 1.0 else int(head_size * share)


# ---- mixtures of experts -----------------------------------------------------------------------


def _mixtral(config: Any) -> dict[str, Any]:
    experts = Experts(config.num_local_experts, config.num_experts_per_tok, config.intermediate_size)
    return {**_llama(config), "experts": experts}


def _qwen_experts(config: Any, shared: int) -> Experts:
    leading = sorted(config.mlp_only_layers or ())
    if getattr(config, "decoder_sparse_step", 1) != 1 or leading != list(range(len(leading))):
        raise ModelError("the closed form describes dense layers only where they lead those with experts")
    return Experts(
        config.num_experts,
        config.num_experts_per_tok,
        config.moe_intermediate_size,
        shared_ffn_hidden_size=shared,
        num_dense_layers=len(leading),
        has_shared_gate=shared > 0,
    )


def _qwen2_moe(config: Any) -> dict[str, Any]:
    has_bias = bool(getattr(config, "qkv_bias", True))
    experts = _qwen_experts(config, config.shared_expert_intermediate_size)
    return {**_llama(config), "has_linear_bias": False, "has_qkv_bias": has_bias, "experts": experts}


def _qwen3_moe(config: Any) -> dict[str, Any]:
    return {**_qwen3(config), "experts": _qwen_experts(config, 0)}


def _deepseek(config: Any) -> dict[str, Any]:
    """Multi-head latent attention; shared experts; the first layers keep a dense MLP."""
    if config.num_experts_per_tok is None:
        raise ModelError("the config states no num_experts_per_tok")
    query_rank = config.q_lora_rank
    latent = LatentAttention(
        query_rank=None if query_rank is None else int(query_rank),
        kv_rank=config.kv_lora_rank,
        nope_head_size=config.qk_nope_head_dim,
        rope_head_size=config.qk_rope_head_dim,
        value_head_size=config.v_head_dim,
    )
    groups, groups_per_token = _expert_groups(config)
    experts = Experts(
        int(getattr(config, "num_local_experts", None) or config.n_routed_experts),
        config.num_experts_per_tok,
        config.moe_intermediate_size,
        shared_ffn_hidden_size=config.moe_intermediate_size * int(config.n_shared_experts or 0),
        num_dense_layers=min(config.first_k_dense_replace, config.num_hidden_layers),
        num_groups=groups,
        groups_per_token=groups_per_token,
    )
    head_size = config.qk_nope_head_dim + config.qk_rope_head_dim
    return {
        **_llama(config),
        "num_kv_heads": int(config.num_attention_heads),
        "head_size": head_size,
        "rope_size": config.qk_rope_head_dim,
        "latent_attention": latent,
        "experts": experts,
    }


def _expert_groups(config: Any) -> tuple[int, int]:
    """Groups of experts, and those that a token visits (modeling_deepseek_v2.py: 'greedy' looks at none)."""
    groups, chosen = getattr(config, "n_group", None), getattr(config, "topk_group", None)
    if not groups or not chosen or getattr(config, "topk_method", None) == "greedy":
        return 1, 1
    return int(groups), int(chosen)


# ---- decoders with layer norms -----------------------------------------------------------------


def _gpt2(config: Any) -> dict[str, Any]:
    return {
        **_sizes(config),
        "ffn_hidden_size": int(getattr(config, "n_inner", None) or 4 * config.n_embd),
        "activation": str(config.activation_function),
        "positions": "learned",
        "max_positions": int(config.n_positions),
        "has_dropout": _drops(config.resid_pdrop),
        "has_embedding_dropout": _drops(config.embd_pdrop),
        "has_fused_qkv": True,
    }


def _opt(config: Any) -> dict[str, Any]:
    """Two rows of positions more than positions; the norms of OPT-350M follow the sums."""
    has_norm_before = bool(config.do_layer_norm_before)
    if not config.layer_norm_elementwise_affine:
        raise ModelError("OPT with layer norms without weights: the closed form does not describe it")
    projected = config.word_embed_proj_dim
    return {
        **_sizes(config),
        "ffn_hidden_size": int(config.ffn_dim),
        "activation": str(config.activation_function),
        "has_linear_bias": bool(config.enable_bias),
        "has_qkv_bias": bool(config.enable_bias),
        "positions": "learned",
        "max_positions": int(config.max_position_embeddings) + 2,
        "has_dropout": _drops(config.dropout),
        "embedding_size": 0 if projected == config.hidden_size else int(projected),
        "norm_placement": "before" if has_norm_before else "after",
        "has_final_norm": has_norm_before and not getattr(config, "_remove_final_layer_norm", False),
    }


def _gpt_neox(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side, each with its norm."""
    return {
        **_sizes(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_linear_bias": bool(config.attention_bias),
        "has_qkv_bias": bool(config.attention_bias),
        "has_mlp_bias": True,
        "has_dropout": _drops(config.hidden_dropout),
        "has_embedding_dropout": _drops(config.hidden_dropout),
        "norm_placement": "parallel" if config.use_parallel_residual else "before",
        "has_fused_qkv": True,
        "rope_size": _rope_size(config),
    }


def _gptj(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side behind one norm; biases in the MLP and the head."""
    return {
        **_sizes(config),
        "ffn_hidden_size": int(config.n_inner or 4 * config.n_embd),
        "activation": str(config.activation_function),
        "has_linear_bias": False,
        "has_qkv_bias": False,
        "has_mlp_bias": True,
        "has_head_bias": True,
        "has_dropout": _drops(config.resid_pdrop),
        "has_embedding_dropout": _drops(config.embd_pdrop),
        "norm_placement": "shared",
        "rope_size": int(config.rotary_dim or 0),
        "has_fused_attention": False,
    }


def _phi(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side behind one norm; biases everywhere."""
    if config.qk_layernorm:
        raise ModelError("Phi with layer norms of queries and keys: the closed form does not describe it")
    return {
        **_sizes(config),
        "num_kv_heads": _kv_heads(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_head_bias": True,
        "has_dropout": _drops(config.resid_pdrop),
        "has_embedding_dropout": _drops(config.embd_pdrop),
        "norm_placement": "shared",
        "rope_size": _rope_size(config),
    }


def _starcoder2(config: Any) -> dict[str, Any]:
    has_bias = bool(config.use_bias)
    return {
        **_sizes(config),
        **_window(config),
        "num_kv_heads": _kv_heads(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_linear_bias": has_bias,
        "has_qkv_bias": has_bias,
        "has_dropout": _drops(config.residual_dropout),
    }


# ---- encoders ----------------------------------------------------------------------------------


def _bert(config: Any) -> dict[str, Any]:
    """Norms behind the sums, a table of token types, a linear layer and a norm before the head."""
    return {
        **_sizes(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "positions": "learned",
        "max_positions": int(config.max_position_embeddings),
        "has_dropout": _drops(config.hidden_dropout_prob),
        "has_embedding_dropout": _drops(config.hidden_dropout_prob),
        "is_causal": bool(getattr(config, "is_decoder", False)),
        "num_token_types": int(config.type_vocab_size),
        "has_embedding_norm": True,
        "has_final_norm": False,
        "norm_placement": "after",
        "has_head_bias": True,
        "has_head_transform": True,
    }


_READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "bert": _bert,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _mixtral,
    "opt": _opt,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "roberta": _bert,
    "starcoder2": _starcoder2,
}
