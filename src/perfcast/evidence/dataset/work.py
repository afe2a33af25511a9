"""The least that a kernel must do, whatever its implementation: arithmetic and memory traffic from below.

Bounds for finding impossible measurements, so each choice errs to the small side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.convolution import image_sizes
from perfcast.core.formats import FORMATS, Format
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.evidence.dataset.words import look_up

#: Multiplications that Winograd's F(4×4, 3×3) saves: 36 for 16 outputs in place of 144 (Lavin and Gray,
#: arXiv 1509.09308).
WINOGRAD_SAVING = 4.0

#: Products of a backward pass over those of the forward pass of attention: five in place of two.
_BACKWARD = 2.5


@dataclass(frozen=True)
class LeastWork:
    """Of n kernels; arrays of shape [n].

    Attributes:
        flops: In the format of the kernel; multiply-add counts 2.
        bytes: Each operand read once and each result written once.
    """

    flops: Floats
    bytes: Floats


def least_work(kernels: KernelTable) -> LeastWork:
    """Lower bounds by the family's formula."""
    return _RULES[kernels.family](kernels)


def _bytes_of(kernels: KernelTable, bits: Callable[[Format], int], word: str = "dtype") -> Floats:
    """Bytes of one element in each kernel's format."""
    return look_up(kernels.word(word), lambda name: bits(FORMATS[name]) / 8)


def _activation(kernels: KernelTable) -> Floats:
    return _bytes_of(kernels, lambda f: f.activation_bits)


def _weight(kernels: KernelTable) -> Floats:
    return _bytes_of(kernels, lambda f: f.weight_bits)


def _output(kernels: KernelTable) -> Floats:
    return _bytes_of(kernels, lambda f: f.output_bits)


def _product(kernels: KernelTable) -> LeastWork:
    batch, m, n, k = (kernels.size(name) for name in ("batch", "m", "n", "k"))
    traffic = m * k * _activation(kernels) + k * n * _weight(kernels) + m * n * _output(kernels)
    return LeastWork(2 * batch * m * n * k, batch * traffic)


def _convolution(kernels: KernelTable) -> LeastWork:
    s = kernels.size
    sizes = image_sizes(kernels)
    weights = s("c_out") * s("c_in") / s("groups") * sizes.taps
    outputs = s("batch") * np.maximum(sizes.outputs, 0)
    winograd = (s("filter_height") == 3) & (s("filter_width") == 3) & (sizes.strides == 1)
    inputs = s("batch") * s("c_in") * sizes.inputs
    return LeastWork(
        2 * outputs * weights / np.where(winograd, WINOGRAD_SAVING, 1.0),
        (inputs + outputs * s("c_out")) * _activation(kernels) + weights * _weight(kernels),
    )


def attended_pairs(queries: Floats, keys: Floats, window: Floats, causal: Floats) -> Floats:
    """Query–key pairs of one head: query i, counted from 0, sees keys up to keys − queries + i.

    The first query sees keys − queries + 1 keys and the last all of them: an arithmetic series, cut at
    ``window`` where there is one.
    """
    first = np.maximum(keys - queries + 1, 1)
    seen_last = np.where(window > 0, np.minimum(keys, window), keys)
    growing = np.clip(seen_last - first, 0, None)  # queries that see fewer keys than the last one
    growing_pairs = growing * (first + seen_last - 1) / 2
    masked = growing_pairs + (queries - growing) * seen_last
    return np.where(causal > 0, masked, queries * seen_last)


def _attention(kernels: KernelTable) -> LeastWork:
    s, operation = kernels.size, kernels.word("operation")
    head, value = s("head_size"), s("value_head_size")
    queries, keys = s("num_queries"), s("num_keys")
    pairs = attended_pairs(queries, keys, s("window"), s("causal"))
    flops = 2 * s("batch") * s("num_heads") * pairs * (head + value)
    cached = np.where(s("window") > 0, np.minimum(keys, s("window") + queries), keys)
    absorbed = look_up(operation, lambda name: name == "mla_generation") > 0
    kv_size = np.where(absorbed, head, head + value)  # absorbed: one latent is key and value
    kv_bytes = s("num_kv_heads") * cached * kv_size * _bytes_of(kernels, lambda f: f.weight_bits, "kv_dtype")
    query_bytes = s("num_heads") * queries * (head * _activation(kernels) + value * _output(kernels))
    backward = look_up(operation, lambda name: _BACKWARD if name == "context_backward" else 1.0)
    return LeastWork(backward * flops, s("batch") * (kv_bytes + query_bytes))


def _experts(kernels: KernelTable) -> LeastWork:
    """Two products (some experts have no gate), and of the weights those of one token's experts.

    Skewed routing may send all tokens to the same experts, so no more weights are sure to be read.
    """
    s = kernels.size
    ranks = s("expert_parallel")
    weights = 2 * s("hidden_size") * s("inter_size") / s("tensor_parallel")
    flops = 2 * s("num_tokens") * s("experts_per_token") / ranks * weights
    local_experts = np.maximum(s("experts_per_token") / ranks, 1)
    tokens = s("num_tokens") * np.minimum(s("experts_per_token") / ranks, 1) * s("hidden_size")
    return LeastWork(
        flops, local_experts * weights * _weight(kernels) + tokens * (_activation(kernels) + _output(kernels))
    )


def _rows(kernels: KernelTable) -> LeastWork:
    return LeastWork(np.zeros(len(kernels)), kernels.size("read_bytes") + kernels.size("written_bytes"))


def _scan(kernels: KernelTable) -> LeastWork:
    """The convolution reads and writes all channels; a scan reads keys, queries, values and writes values."""
    s, bytes_each = kernels.size, _activation(kernels)
    tokens = s("batch") * s("sequence_length")
    keys = s("num_key_heads") * s("key_head_size")
    values = s("num_value_heads") * s("value_head_size")
    convolution = look_up(kernels.word("operation"), lambda name: "conv1d" in name) > 0
    elements = np.where(convolution, 2 * (2 * keys + values), 2 * keys + 2 * values)
    state_flops = np.where(convolution, 0.0, 4 * values * s("state_size"))
    return LeastWork(tokens * state_flops, tokens * elements * bytes_each)


_RULES: Mapping[KernelFamily, Callable[[KernelTable], LeastWork]] = {
    KernelFamily.PRODUCT: _product,
    KernelFamily.CONVOLUTION: _convolution,
    KernelFamily.ATTENTION: _attention,
    KernelFamily.EXPERTS: _experts,
    KernelFamily.ROWS: _rows,
    KernelFamily.SCAN: _scan,
}
