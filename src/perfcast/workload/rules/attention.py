"""Scaled dot-product attention as one operation, forward and backward.

With b sequences, h heads, s_q queries and s_k keys of size d, values of size e:
forward 2·b·h·s_q·s_k·(d + e) flops (scores, then output); backward twice that (gradients of the
values, of the scores, of queries and of keys). A flash backward computes the scores again,
2·b·h·s_q·s_k·d, listed apart. A causal kernel skips the pairs that it masks; ``flops`` counts them,
``executed_flops`` does not (Dao et al.: FlashAttention, arXiv 2205.14135, and its follow-up 2307.08691).
"""

from __future__ import annotations

from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable

ATTENTION = RuleTable()


def visible_fraction(num_queries: int, num_keys: int, causal: bool) -> float:
    """Part of the query-key pairs that a causal mask, aligned to the first key, lets through."""
    if not causal:
        return 1.0
    full_rows = max(num_queries - num_keys, 0)
    triangle = min(num_queries, num_keys)
    return (triangle * (triangle + 1) / 2 + full_rows * num_keys) / (num_queries * num_keys)


def _work(
    query: TensorType, key: TensorType, value: TensorType, causal: bool, is_backward: bool
) -> OperatorWork:
    batch, heads, num_queries, head_size = query.shape
    kv_heads, num_keys, value_size = key.shape[1], key.shape[2], value.shape[3]
    pairs = batch * heads * num_queries * num_keys
    flops = 2 * pairs * (head_size + value_size) * (2 if is_backward else 1)
    recompute_flops = 2 * pairs * head_size if is_backward else 0
    fraction = visible_fraction(num_queries, num_keys, causal)
    return OperatorWork(
        OperationKind.ATTENTION,
        flops=flops,
        executed_flops=int((flops + recompute_flops) * fraction),
        recompute_flops=int(recompute_flops * fraction),
        attributes=(
            ("batch", batch),
            ("causal", causal),
            ("head_size", head_size),
            ("heads", heads),
            ("kv_heads", kv_heads),
            ("is_backward", is_backward),
            ("num_keys", num_keys),
            ("num_queries", num_queries),
        ),
    )


@ATTENTION.rule("attention")
def attention(call: OperatorCall) -> OperatorWork:
    """Composite: (query, key, value, mask or None, causal)."""
    query, key, value, _, causal = call.args
    return _work(query, key, value, causal, is_backward=False)


@ATTENTION.rule("attention_backward")
def attention_backward(call: OperatorCall) -> OperatorWork:
    """Composite: (gradient, query, key, value, output, logsumexp, mask or None, causal)."""
    _, query, key, value, _, _, _, causal = call.args
    return _work(query, key, value, causal, is_backward=True)


@ATTENTION.rule(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
def flash_forward(call: OperatorCall) -> OperatorWork:
    """PyTorch's own fused kernels; (query, key, value, …, is_causal)."""
    query, key, value = call.args[:3]
    positions = {
        "_scaled_dot_product_flash_attention_for_cpu": 4,
        "_scaled_dot_product_flash_attention": 4,
        "_scaled_dot_product_efficient_attention": 6,
        "_scaled_dot_product_cudnn_attention": 6,
        "_scaled_dot_product_fused_attention_overrideable": 5,
    }
    causal = bool(call.arg(positions[call.operator], "is_causal", False))
    return _work(query, key, value, causal, is_backward=False)


@ATTENTION.rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_backward_for_cpu(call: OperatorCall) -> OperatorWork:
    """(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal)."""
    _, query, key, value = call.args[:4]
    return _work(query, key, value, bool(call.arg(7, "is_causal", False)), is_backward=True)
