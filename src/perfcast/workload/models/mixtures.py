"""Configs of mixtures of experts, those with latent, sparse or linear attention among them.

As ``workload.models.transformer`` has it: each function reads one architecture's config, in which nothing is
left out, and states what its module is built of.
"""

from __future__ import annotations

from typing import Any

from perfcast.core.model.transformer import Experts, LatentAttention, LinearAttention, SparseAttention
from perfcast.errors import ModelError
from perfcast.workload.models.llama_kind import read_llama, read_qwen3, rope_size


def read_mixtral(config: Any) -> dict[str, Any]:
    """Experts in every layer."""
    experts = Experts(config.num_local_experts, config.num_experts_per_tok, config.intermediate_size)
    return {**read_llama(config), "experts": experts}


def _qwen_experts(config: Any, shared: int) -> Experts:
    leading = sorted(getattr(config, "mlp_only_layers", None) or ())
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


def read_qwen2_moe(config: Any) -> dict[str, Any]:
    """A shared expert with a gate."""
    has_bias = bool(getattr(config, "qkv_bias", True))
    experts = _qwen_experts(config, config.shared_expert_intermediate_size)
    return {**read_llama(config), "has_linear_bias": False, "has_qkv_bias": has_bias, "experts": experts}


def read_qwen3_moe(config: Any) -> dict[str, Any]:
    """No shared expert."""
    return {**read_qwen3(config), "experts": _qwen_experts(config, 0)}


def read_deepseek(config: Any) -> dict[str, Any]:
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
        **read_llama(config),
        "num_kv_heads": int(config.num_attention_heads),
        "head_size": head_size,
        "rope_size": config.qk_rope_head_dim,
        "latent_attention": latent,
        "experts": experts,
    }


def read_deepseek_sparse(config: Any) -> dict[str, Any]:
    """DeepSeek-V3.2's and GLM-5's: an indexer in each layer picks what latent attention sees."""
    if any(kind != "full" for kind in getattr(config, "indexer_types", None) or ()):
        raise ModelError("indexers shared between layers: the closed form does not describe them")
    sparse = SparseAttention(config.index_n_heads, config.index_head_dim, config.index_topk)
    return {**read_deepseek(config), "sparse_attention": sparse}


def read_gpt_oss(config: Any) -> dict[str, Any]:
    """Biases everywhere, sinks of attention, windows in every other layer; clamped gates."""
    experts = Experts(
        config.num_local_experts, config.num_experts_per_tok, config.intermediate_size, has_bias=True
    )
    return {
        **read_llama(config),
        "has_attention_sinks": True,
        "has_fused_attention": False,
        "experts": experts,
    }


def read_minimax_m2(config: Any) -> dict[str, Any]:
    """Queries and keys normalised over all heads, partly rotated; every layer has experts."""
    rotated = int(getattr(config, "rotary_dim", None) or 0)
    experts = Experts(config.num_local_experts, config.num_experts_per_tok, config.intermediate_size)
    return {
        **read_llama(config),
        "has_head_norms": True,
        "joins_head_norms": True,
        "rope_size": rotated or rope_size(config),
        "experts": experts,
    }


def read_qwen3_next(config: Any) -> dict[str, Any]:
    """Three layers of four with a gated delta rule, the fourth with gated attention; a shared expert."""
    types = list(config.layer_types)
    linear = LinearAttention(
        num_layers=types.count("linear_attention"),
        num_key_heads=config.linear_num_key_heads,
        num_value_heads=config.linear_num_value_heads,
        key_head_size=config.linear_key_head_dim,
        value_head_size=config.linear_value_head_dim,
        conv_size=config.linear_conv_kernel_dim,
    )
    every = len(types) // max(1, len(types) - linear.num_layers)
    pattern = ["full_attention" if (at + 1) % every == 0 else "linear_attention" for at in range(len(types))]
    if types != pattern:
        raise ModelError(
            "the closed form describes full attention only where it closes equal groups of layers"
        )
    return {
        **read_llama(config),
        "has_head_norms": True,
        "has_attention_gate": True,
        "rope_size": rope_size(config),
        "linear_attention": linear,
        "experts": _qwen_experts(config, config.shared_expert_intermediate_size),
    }


def _expert_groups(config: Any) -> tuple[int, int]:
    """Groups of experts, and those that a token visits (modeling_deepseek_v2.py: 'greedy' looks at none)."""
    groups, chosen = getattr(config, "n_group", None), getattr(config, "topk_group", None)
    if not groups or not chosen or getattr(config, "topk_method", None) == "greedy":
        return 1, 1
    return int(groups), int(chosen)
