"""What sets one kernel over rows apart from another: arithmetic, how often a row is read, how it starts.

An operation that is not listed streams: it reads and writes its bytes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelTable, encode_words


class Pattern(IntEnum):
    """Who works on a row."""

    STREAM = 0  # nobody in particular: threads take elements
    LAYER_NORM = 1  # a block of 128 threads: statistics, then the row once more
    SOFTMAX = 2  # up to 1024 elements a warp that keeps them; beyond, a block that reads them three times
    BLOCK = 3  # a block of 1024 threads
    BROADCAST = 4  # nobody; a row is an operand that all rows share


@dataclass(frozen=True)
class Behaviour:
    """One operation.

    Attributes:
        cycles: Of a multiprocessor, for each element of a row, loads and stores included.
        base_seconds: Of a kernel with hardly any work.
        extra_reads: Times that what is read is read again, from memory if the rows in flight leave the cache;
            of a shared operand, times that each further row reads it again.
        second_reads: Times that a kernel behind the first reads all of it again, from memory if it is larger
            than the cache.
        scattered_share: Part of the traffic that moves a sector of 32 bytes for every element.
    """

    pattern: Pattern = Pattern.STREAM
    cycles: float = 0.031
    base_seconds: float = 2.2e-6
    extra_reads: float = 0.0
    second_reads: float = 0.0
    scattered_share: float = 0.0


STREAMING = Behaviour()
_HEAVY = Behaviour(cycles=0.145)
_POWER = Behaviour(cycles=0.234)
_NORM = Behaviour(Pattern.LAYER_NORM, cycles=0.404, base_seconds=1.6e-6, extra_reads=1.0)
_SOFTMAX = Behaviour(Pattern.SOFTMAX, cycles=0.299, extra_reads=2.0)
_RMS_NORM = Behaviour(Pattern.BLOCK, cycles=0.683, base_seconds=3.9e-6, extra_reads=1.0)
_LOOKUP = Behaviour(cycles=1.69, base_seconds=2.9e-6)
#: A draw of Philox-4x32 is ten rounds of two wide products for four numbers (Salmon et al., SC 2011; PyTorch:
#: aten/native/cuda/Dropout.cu): some 40 integer instructions an element with its scaling, at 128 a cycle.
_RANDOM = Behaviour(cycles=0.31)
_SUMMED = Behaviour(base_seconds=3.9e-6)
_TWO_PASSES = Behaviour(base_seconds=3.9e-6, extra_reads=1.0)

#: Operations with measurements: cycles and base fitted as ``rows`` states.
MEASURED: Mapping[str, Behaviour] = {
    **dict.fromkeys(("add", "addu", "sub", "subu", "mul", "mulu", "div", "divu", "relu"), STREAMING),
    **dict.fromkeys(("gelu", "tanh"), _HEAVY),
    **dict.fromkeys(("pow", "powu"), _POWER),
    "ln": _NORM,
    "softmax": _SOFTMAX,
    "rms_norm": _RMS_NORM,
    "rope": Behaviour(cycles=0.516, base_seconds=2.5e-6),
    "silu_mul": Behaviour(cycles=0.628, base_seconds=3.1e-6),
    "embedding": _LOOKUP,
    "quant_scale_matrix": Behaviour(cycles=0.067, base_seconds=2.3e-6),
    "quant_compute_scale": Behaviour(cycles=0.22, base_seconds=8.1e-6),
}

#: Operations without: the measured one they resemble, and the number of passes in PyTorch's kernels. A
#: backward of softmax or of a norm reads two tensors twice. Of layer norm, PyTorch's own backward
#: (``layer_norm_backward``; ``ln_backward`` is a fused one) sums the weights' gradients in a second kernel,
#: which reads both once more (aten/native/cuda/layer_norm_kernel.cu, LayerNormBackwardKernelImplInternal);
#: on ROCm in 64 slices that a third one adds up, 2.6 times as long for its bytes (the NeuSight study's MI100:
#: 92 us for 3.1 million elements more, of which the first kernel's 12 bytes take 35). A transposing copy
#: scatters one of its two sides. The gradient of an embedding table is filled, and whole rows are added to it
#: (Embedding.cu); elements that meet in one place are added atomically, a sector each.
RESEMBLING: Mapping[str, Behaviour] = {
    **dict.fromkeys(
        ("copy", "fill", "elementwise", "update", "division", "optimizer", "optimizer_fused"), STREAMING
    ),
    **dict.fromkeys(("optimizer_foreach", "pooling", "batch_norm_evaluate"), STREAMING),
    "random": _RANDOM,
    **dict.fromkeys(("max_pool", "avg_pool", "adaptive_pool"), STREAMING),
    **dict.fromkeys(("max_pool_backward", "avg_pool_backward", "adaptive_pool_backward"), STREAMING),
    **dict.fromkeys(("gelu_backward", "transcendental"), _HEAVY),
    **dict.fromkeys(("reduction", "reduction_rows", "reduction_columns", "loss", "loss_backward"), _SUMMED),
    **dict.fromkeys(("layer_norm", "ln_backward"), _NORM),
    "layer_norm_backward": replace(_NORM, second_reads=1.0, base_seconds=2 * _NORM.base_seconds),
    "layer_norm_backward_rocm": replace(_NORM, second_reads=2.6, base_seconds=3 * _NORM.base_seconds),
    **dict.fromkeys(("batch_norm", "batch_norm_backward", "group_norm"), _TWO_PASSES),
    "rms_norm_backward": _RMS_NORM,
    "log_softmax": _SOFTMAX,
    **dict.fromkeys(
        ("softmax_backward", "log_softmax_backward"),
        Behaviour(Pattern.SOFTMAX, cycles=0.299, extra_reads=1.0),
    ),
    **dict.fromkeys(("copy_strided", "elementwise_strided"), Behaviour(scattered_share=0.5)),
    **dict.fromkeys(("indexing", "embedding_bag"), _LOOKUP),
    "elementwise_broadcast": Behaviour(Pattern.BROADCAST, extra_reads=1.0),
    "embedding_backward": Behaviour(base_seconds=2.9e-6),
    **dict.fromkeys(
        ("indexing_backward", "embedding_bag_backward"),
        Behaviour(cycles=1.69, base_seconds=2.9e-6, scattered_share=0.5),
    ),
}

#: Libraries whose kernel for an operation is another one: fitted like ``MEASURED``.
OF_LIBRARY: Mapping[tuple[str, str], Behaviour] = {
    ("quant_scale_matrix", "sglang"): Behaviour(cycles=1.99, base_seconds=7.6e-6),
}

_LISTED = {**MEASURED, **RESEMBLING}


@dataclass(frozen=True)
class BehaviourColumns:
    """Behaviours of n kernels; arrays of shape [n], named as in ``Behaviour``.

    Attributes:
        code: Place of the operation among the measured ones, from 0; -1 for all others.
    """

    pattern: Integers
    cycles: Floats
    base_seconds: Floats
    extra_reads: Floats
    second_reads: Floats
    scattered_share: Floats
    code: Floats


def collect_behaviours(kernels: KernelTable) -> BehaviourColumns:
    """The behaviour of each kernel by operation and library; ``STREAMING`` where none is listed."""
    operations, operation = encode_words(kernels.word("operation"))
    frameworks, framework = encode_words(kernels.word("framework"))
    pairs, index = np.unique(operation * len(frameworks) + framework, return_inverse=True)
    names = [
        (operations[pair // len(frameworks)], frameworks[pair % len(frameworks)]) for pair in pairs.tolist()
    ]
    found = [_behaviour(*name) for name in names]
    codes = {name: float(code) for code, name in enumerate(MEASURED)}

    def column(values: list[float]) -> Floats:
        return np.array(values, dtype=np.float64)[index]

    return BehaviourColumns(
        pattern=np.array([b.pattern for b in found], dtype=np.int64)[index],
        cycles=column([b.cycles for b in found]),
        base_seconds=column([b.base_seconds for b in found]),
        extra_reads=column([b.extra_reads for b in found]),
        second_reads=column([b.second_reads for b in found]),
        scattered_share=column([b.scattered_share for b in found]),
        code=column([codes.get(name, -1.0) for name, _ in names]),
    )


def pattern_of(operation: str, framework: str) -> Pattern:
    """Who works on a row of an operation by a library."""
    return _behaviour(operation, framework).pattern


def _behaviour(operation: str, framework: str) -> Behaviour:
    return OF_LIBRARY.get((operation, framework), _LISTED.get(operation, STREAMING))
