"""Hugging Face configs → the sizes that closed forms work with.

Each function below reads one architecture's config, in which nothing is left out, and states what its module
is built of (transformers, models/<model_type>/modeling_<model_type>.py). Most catalog entries state all of
it; in a config.json, transformers fills in the rest, which takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

from perfcast.core.model.transformer import Transformer
from perfcast.errors import ModelError
from perfcast.workload.models.config_keys import check_single
from perfcast.workload.models.llama_kind import (
    common_sizes,
    drops,
    kv_heads,
    read_gemma,
    read_gemma2,
    read_gemma3,
    read_llama,
    read_phi3,
    read_qwen2,
    read_qwen3,
    rope_size,
    window_of,
)
from perfcast.workload.models.mixtures import (
    read_deepseek,
    read_deepseek_sparse,
    read_gpt_oss,
    read_minimax_m2,
    read_mixtral,
    read_qwen2_moe,
    read_qwen3_moe,
    read_qwen3_next,
)

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
    config, architecture = _language_model(config, architecture)
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


def _language_model(
    config: Mapping[str, Any], architecture: str | None
) -> tuple[Mapping[str, Any], str | None]:
    """Of a model that also sees, the config of what reads and writes; what it sees with is left out."""
    text, of_text = config.get("text_config"), _TEXT_TYPES.get(str(config.get("model_type")))
    if of_text is None:
        return config, architecture
    inner = text if isinstance(text, Mapping) else config
    return {**inner, "model_type": of_text[0], "architectures": [of_text[1]]}, None


def _read(model_type: str, config: Any) -> Transformer:
    if getattr(config, "add_cross_attention", False):
        raise ModelError(f"{model_type} with cross-attention: the closed form does not describe it")
    check_single(config)
    try:
        return Transformer(**_READERS[model_type](config))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ModelError(f"{model_type}: a size is missing or of another kind ({error})") from error


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


# ---- decoders with layer norms -----------------------------------------------------------------


def _gpt2(config: Any) -> dict[str, Any]:
    return {
        **common_sizes(config),
        "ffn_hidden_size": int(getattr(config, "n_inner", None) or 4 * config.n_embd),
        "activation": str(config.activation_function),
        "positions": "learned",
        "max_positions": int(config.n_positions),
        "has_dropout": drops(config.resid_pdrop),
        "has_embedding_dropout": drops(config.embd_pdrop),
        "has_fused_qkv": True,
    }


def _opt(config: Any) -> dict[str, Any]:
    """Two rows of positions more than positions; the norms of OPT-350M follow the sums."""
    has_norm_before = bool(config.do_layer_norm_before)
    if not config.layer_norm_elementwise_affine:
        raise ModelError("OPT with layer norms without weights: the closed form does not describe it")
    projected = config.word_embed_proj_dim
    return {
        **common_sizes(config),
        "ffn_hidden_size": int(config.ffn_dim),
        "activation": str(config.activation_function),
        "has_linear_bias": bool(config.enable_bias),
        "has_qkv_bias": bool(config.enable_bias),
        "positions": "learned",
        "max_positions": int(config.max_position_embeddings) + 2,
        "has_dropout": drops(config.dropout),
        "embedding_size": 0 if projected == config.hidden_size else int(projected),
        "norm_placement": "before" if has_norm_before else "after",
        "has_final_norm": has_norm_before and not getattr(config, "_remove_final_layer_norm", False),
    }


def _gpt_neox(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side, each with its norm."""
    return {
        **common_sizes(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_linear_bias": bool(config.attention_bias),
        "has_qkv_bias": bool(config.attention_bias),
        "has_mlp_bias": True,
        "has_dropout": drops(config.hidden_dropout),
        "has_embedding_dropout": drops(config.hidden_dropout),
        "norm_placement": "parallel" if config.use_parallel_residual else "before",
        "has_fused_qkv": True,
        "rope_size": rope_size(config),
    }


def _gptj(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side behind one norm; biases in the MLP and the head."""
    return {
        **common_sizes(config),
        "ffn_hidden_size": int(config.n_inner or 4 * config.n_embd),
        "activation": str(config.activation_function),
        "has_linear_bias": False,
        "has_qkv_bias": False,
        "has_mlp_bias": True,
        "has_head_bias": True,
        "has_dropout": drops(config.resid_pdrop),
        "has_embedding_dropout": drops(config.embd_pdrop),
        "norm_placement": "shared",
        "rope_size": int(config.rotary_dim or 0),
        "has_fused_attention": False,
    }


def _phi(config: Any) -> dict[str, Any]:
    """Attention and MLP side by side behind one norm; biases everywhere."""
    if config.qk_layernorm:
        raise ModelError("Phi with layer norms of queries and keys: the closed form does not describe it")
    return {
        **common_sizes(config),
        "num_kv_heads": kv_heads(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_head_bias": True,
        "has_dropout": drops(config.resid_pdrop),
        "has_embedding_dropout": drops(config.embd_pdrop),
        "norm_placement": "shared",
        "rope_size": rope_size(config),
    }


def _starcoder2(config: Any) -> dict[str, Any]:
    has_bias = bool(config.use_bias)
    return {
        **common_sizes(config),
        **window_of(config),
        "num_kv_heads": kv_heads(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "has_linear_bias": has_bias,
        "has_qkv_bias": has_bias,
        "has_dropout": drops(config.residual_dropout),
    }


# ---- encoders ----------------------------------------------------------------------------------


def _bert(config: Any) -> dict[str, Any]:
    """Norms behind the sums, a table of token types, a linear layer and a norm before the head."""
    return {
        **common_sizes(config),
        "ffn_hidden_size": int(config.intermediate_size),
        "activation": str(config.hidden_act),
        "positions": "learned",
        "max_positions": int(config.max_position_embeddings),
        "has_dropout": drops(config.hidden_dropout_prob),
        "has_embedding_dropout": drops(config.hidden_dropout_prob),
        "is_causal": bool(getattr(config, "is_decoder", False)),
        "num_token_types": int(config.type_vocab_size),
        "has_embedding_norm": True,
        "has_final_norm": False,
        "norm_placement": "after",
        "has_head_bias": True,
        "has_head_transform": True,
    }


#: Of models that also see: type and class of their language model.
_TEXT_TYPES: Mapping[str, tuple[str, str]] = {
    "kimi_k2": ("deepseek_v3", "DeepseekV3ForCausalLM"),
    "kimi_k25": ("deepseek_v3", "DeepseekV3ForCausalLM"),
    "qwen3_5_moe": ("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"),
}

_READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "bert": _bert,
    "deepseek_v2": read_deepseek,
    "deepseek_v3": read_deepseek,
    "deepseek_v32": read_deepseek_sparse,
    "gemma": read_gemma,
    "gemma2": read_gemma2,
    "gemma3_text": read_gemma3,
    "glm_moe_dsa": read_deepseek_sparse,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": read_gpt_oss,
    "gptj": _gptj,
    "llama": read_llama,
    "minimax_m2": read_minimax_m2,
    "mistral": read_llama,
    "mixtral": read_mixtral,
    "opt": _opt,
    "phi": _phi,
    "phi3": read_phi3,
    "qwen2": read_qwen2,
    "qwen2_moe": read_qwen2_moe,
    "qwen3": read_qwen3,
    "qwen3_5_moe_text": read_qwen3_next,
    "qwen3_moe": read_qwen3_moe,
    "qwen3_next": read_qwen3_next,
    "roberta": _bert,
    "starcoder2": _starcoder2,
}
