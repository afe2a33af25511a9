"""Kernels of serving frameworks as operations: quantised products, fused norms and rotations, experts.

Names and traffic are those of the measured kernels (vLLM: csrc/layernorm_kernels.cu, pos_encoding_kernels.cu,
activation_kernels.cu, cache_kernels.cu; model_executor/layers/fused_moe).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.precision import Precision
from perfcast.core.tensor import TensorType
from perfcast.workload.blocks.kernels import attention, elementwise, norm, rows_kernel, tensor

Kind = OperationKind
_WIDE = {32: DType.FP32, 16: DType.BF16}


@lru_cache(maxsize=16384)
def formatted_product(
    m: int, n: int, k: int, format_name: str, *, is_quantised: bool = False, element: DType = DType.BF16
) -> Operation:
    """C[m, n] = A[m, k] · B[k, n] with operands stored and multiplied as a format says.

    Args:
        is_quantised: Whether A comes narrow out of the kernel before. Else a format that quantises does so
            in the same call, as serving frameworks' linear layers do (and as they were measured).
        element: Of activations, to which weights alone are widened.
    """
    form = FORMATS[format_name]
    wide = element if form.is_weight_only else form.arithmetic
    a = TensorType((m, k), element if form.is_weight_only else form.activation.element, (k, 1))
    b = TensorType((k, n), form.weight.element, (1, k))
    c = tensor(_WIDE[form.output_bits], m, n)
    flops = 2 * m * n * k
    attributes: dict[str, AttributeValue] = {
        "batch": 1, "format": format_name, "k": k, "layout": "nt", "m": m, "n": n,
    }  # fmt: skip
    if is_quantised:
        attributes["is_quantised"] = True
    scales = form.activation.scale_bytes_of(m * k) + form.weight.scale_bytes_of(n * k)
    traffic = sum(t.num_bytes for t in (a, b, c)) + scales
    return Operation(
        Kind.MATMUL, "mm", (a, b), (c,), wide, flops, flops, traffic, 0,
        tuple(sorted(attributes.items())),
    )  # fmt: skip


def fused_norm(
    name: str, rows: int, size: int, element: DType, *, adds: bool, out: DType | None = None
) -> tuple[Operation, ...]:
    """A norm; ``adds``: the sum with the residual before it, in the same kernel where it is an RMS norm.

    Args:
        out: Of what an RMS norm gives, where it is quantised in the same kernel.
    """
    x = tensor(element, rows, size)
    if name == "rmsnorm":
        residual = (x,) if adds else ()
        normed = tensor(out or element, rows, size)
        return (elementwise("rms_norm", (x, *residual), (*residual, normed), flops_per_element=6),)
    plain = norm("native_layer_norm", rows, size, element, has_bias=True)
    return (elementwise("add", (x, x), (x,)), plain) if adds else (plain,)


def rotation(rows: int, size: int, element: DType) -> Operation:
    """Queries and keys of ``rows`` tokens turned in place, ``size`` elements of each."""
    x = tensor(element, rows, size)
    return elementwise("rope", (x,), (x,), flops_per_element=3)


def cache_write(rows: int, size: int, precision: Precision) -> Operation:
    """New keys and values put into the cache."""
    return rows_kernel(
        Kind.COPY, "reshape_and_cache", (tensor(precision.element, rows, size),),
        (tensor(precision.cache.element, rows, size),), flops_per_element=0,
    )  # fmt: skip


@lru_cache(maxsize=16384)
def cached_attention(
    batch: int,
    heads: int,
    kv_heads: int,
    num_queries: int,
    num_keys: int,
    head_size: int,
    precision: Precision,
    *,
    value_head_size: int | None = None,
    window: int = 0,
    is_latent: bool = False,
    is_stand_in: bool = False,
) -> Operation:
    """Attention to a cache that holds the queries' own tokens too, the last query at the last key.

    Absorbed latent attention (``is_latent``, one query or one head of keys) reads one vector a key, at once
    key and value.

    Args:
        is_stand_in: Whether it stands for a kernel that nobody measured: its price is less sure.
    """
    causal, element = num_queries > 1, precision.element
    value_size = value_head_size or head_size
    plain = attention(
        batch, heads, kv_heads, num_queries, num_keys, head_size, element, causal=causal,
        value_head_size=value_head_size,
    )  # fmt: skip
    seen = min(num_keys, window + num_queries - 1) if window else num_keys
    pairs = _visible_pairs(num_queries, num_keys, window if window else num_keys)
    shares_key = is_latent and (num_queries == 1 or kv_heads < heads)
    key_width = head_size + (0 if shares_key else value_size)
    outer = element.bytes_of(batch * num_queries * heads * (head_size + value_size))
    inner = precision.cache.bytes_of(batch * seen * kv_heads * key_width)
    attributes = dict(plain.attributes)
    if precision.cache_format != precision.element.label:
        attributes["keys_format"] = precision.cache_format
    attends_narrow = precision.attends_in_cache_format and num_queries > 1
    if attends_narrow:
        attributes["format"] = precision.cache_format
    if window:
        attributes["window"] = window
    if is_latent:
        attributes["is_latent"] = True
    if is_stand_in:
        attributes["is_stand_in"] = True
    return replace(
        plain,
        compute_dtype=precision.cache.element if attends_narrow else plain.compute_dtype,
        executed_flops=2 * batch * heads * pairs * (head_size + value_size),
        memory_traffic_bytes=outer + inner,
        attributes=tuple(sorted(attributes.items())),
    )


def mean_visible(num_queries: int, num_keys: int, window: int) -> float:
    """Keys that a query sees on average, the last query at the last key, each no more than the window has."""
    return _visible_pairs(num_queries, num_keys, min(window, num_keys)) / num_queries


def _visible_pairs(num_queries: int, num_keys: int, window: int) -> int:
    """Pairs under a causal mask aligned to the last key: query i sees min(k - q + 1 + i, window) keys."""
    first = num_keys - num_queries + 1
    below = max(0, min(window - first + 1, num_queries))
    return below * first + below * (below - 1) // 2 + (num_queries - below) * window


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Sizes of a fused kernel of experts, of the whole model.

    Attributes:
        num_tokens: Of all ranks that share the experts.
        rows: Pairs of a token and an expert on the busiest rank.
        popularity: Law by which tokens ask for experts: 'balanced', or 'power_law_' and an exponent.
    """

    num_tokens: int
    rows: int
    hidden_size: int
    inter_size: int
    experts_per_token: int
    num_experts: int
    expert_parallel: int
    tensor_parallel: int
    is_gated: bool
    popularity: str = "balanced"

    @property
    def touched_experts(self) -> int:
        """Of the rank's, those that a token visits: as many as rows, or as many as independent choices do.

        E · (1 - (1 - k / E)^t) different ones of E are among t tokens' k each; the skew of a power law
        leaves out a few more, of which this says nothing.
        """
        local = self.num_experts // self.expert_parallel
        if self.popularity == "balanced":
            return min(local, self.rows)
        missed = (1 - self.experts_per_token / self.num_experts) ** self.num_tokens
        return min(local, self.rows, max(1, math.ceil(local * (1 - missed))))


@lru_cache(maxsize=4096)
def fused_experts(shape: ExpertShape, format_name: str, element: DType) -> Operation:
    """Sort, two grouped products with the activation between, and the weighted sum, as one call.

    Weights of an expert that no token visits are not read.
    """
    form = FORMATS[format_name]
    local = shape.num_experts // shape.expert_parallel
    width = shape.inter_size // shape.tensor_parallel
    up_width = (2 if shape.is_gated else 1) * width
    tokens = tensor(element, min(shape.num_tokens, shape.rows), shape.hidden_size)
    up = tensor(form.weight.element, local, up_width, shape.hidden_size)
    down = tensor(form.weight.element, local, shape.hidden_size, width)
    scales = form.weight.scale_bytes_of(local * (up_width + width) * shape.hidden_size)
    weight_bytes = (up.num_bytes + down.num_bytes + scales) * shape.touched_experts // local
    flops = 2 * shape.rows * shape.hidden_size * (up_width + width)
    sizes: dict[str, AttributeValue] = {
        "num_tokens": shape.num_tokens, "hidden_size": shape.hidden_size, "inter_size": shape.inter_size,
        "experts_per_token": shape.experts_per_token, "num_experts": shape.num_experts,
        "tensor_parallel": shape.tensor_parallel, "expert_parallel": shape.expert_parallel,
        "is_gated": shape.is_gated, "popularity": shape.popularity, "format": format_name,
        "groups": local, "m": shape.rows,
        "n": up_width + width, "k": shape.hidden_size,
    }  # fmt: skip
    return Operation(
        Kind.GROUPED_MATMUL, "fused_experts", (tokens, up, down), (tokens,),
        element if form.is_weight_only else form.arithmetic, flops, flops,
        2 * tokens.num_bytes + weight_bytes, 0, tuple(sorted(sizes.items())),
    )  # fmt: skip
