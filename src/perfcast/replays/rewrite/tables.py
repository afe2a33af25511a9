"""Operators that only one kind of device has, and what does the same on another: plain data.

Each entry says how the arguments of the replacement come from those of the recorded operator, and which of
the recorded tensors its results are. Argument orders are those of PyTorch's own declarations
(aten/src/ATen/native/native_functions.yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the recorded operator does not have."""

    value: bool | float | tuple[bool, ...] | None


@dataclass(frozen=True, slots=True)
class ZerosLike:
    """As many zeros as a recorded list has entries."""

    name: str


@dataclass(frozen=True, slots=True)
class Complement:
    """1 − a recorded probability."""

    name: str


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first ``count`` entries of a recorded list, filled up with ``False``."""

    name: str
    count: int
    size: int


#: Text: the recorded argument of this name.
ArgumentSource: TypeAlias = "str | Constant | ZerosLike | Complement | FirstOf"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """``arguments`` in the order of ``schema``; ``outputs[i]``: which recorded tensor result i is."""

    schema: str
    arguments: tuple[ArgumentSource, ...]
    outputs: tuple[int, ...]


_NONE, _TRUE, _FALSE = Constant(None), Constant(True), Constant(False)
_NO_DROPOUT = Constant(0.0)

_BATCH_NORM = Equivalent(
    "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ("input", "weight", "bias", "running_mean", "running_var", "training", "exponential_average_factor",
     "epsilon"),
    (0, 1, 2),
)  # fmt: skip
_BATCH_NORM_BACKWARD = Equivalent(
    "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, "
    "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    ("grad_output", "input", "weight", "running_mean", "running_var", "save_mean", "save_var", _TRUE,
     "epsilon", Constant((True, True, True))),
    (0, 1, 2),
)  # fmt: skip
_CONVOLUTION_SCHEMA = (
    "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"
)
_CONVOLUTION_BACKWARD_SCHEMA = (
    "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
    "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)


def _convolution(
    bias: ArgumentSource, transposed: ArgumentSource, output_padding: ArgumentSource
) -> Equivalent:
    arguments = (
        "self",
        "weight",
        bias,
        "stride",
        "padding",
        "dilation",
        transposed,
        output_padding,
        "groups",
    )
    return Equivalent(_CONVOLUTION_SCHEMA, arguments, (0,))


def _convolution_backward(
    transposed: ArgumentSource, output_padding: ArgumentSource, masks: int
) -> Equivalent:
    return Equivalent(
        _CONVOLUTION_BACKWARD_SCHEMA,
        ("grad_output", "self", "weight", _NONE, "stride", "padding", "dilation", transposed, output_padding,
         "groups", FirstOf("output_mask", masks, 3)),
        tuple(range(masks)),
    )  # fmt: skip


_PLAIN_PADDING, _TRANSPOSED_PADDING = ZerosLike("padding"), "output_padding"
_ATTENTION_SCHEMA = (
    "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
    "float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) "
    "-> (Tensor output, Tensor logsumexp)"
)
_ATTENTION_BACKWARD_SCHEMA = (
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
    "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
    "Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
)


def _attention(mask: ArgumentSource) -> Equivalent:
    arguments = ("query", "key", "value", _NO_DROPOUT, "is_causal", mask, "scale")
    return Equivalent(_ATTENTION_SCHEMA, arguments, (0, 1))


def _attention_backward(gradient: str, mask: ArgumentSource) -> Equivalent:
    return Equivalent(
        _ATTENTION_BACKWARD_SCHEMA,
        (gradient, "query", "key", "value", "out", "logsumexp", _NO_DROPOUT, "is_causal", mask, "scale"),
        (0, 1, 2),
    )


_DROPOUT = Equivalent(
    "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    ("self", Complement("p"), _TRUE),
    (0, 1),
)
_MASKED_SCALE = Equivalent(
    "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    ("self", "mask", "scale"),
    (0,),
)
_CLONE = Equivalent(
    "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", ("self", _NONE), (0,)
)

#: For a processor.
ON_CPU: Mapping[str, Equivalent] = {
    "aten::cudnn_batch_norm": _BATCH_NORM,
    "aten::miopen_batch_norm": _BATCH_NORM,
    "aten::cudnn_batch_norm_backward": _BATCH_NORM_BACKWARD,
    "aten::miopen_batch_norm_backward": _BATCH_NORM_BACKWARD,
    "aten::cudnn_convolution": _convolution(_NONE, _FALSE, _PLAIN_PADDING),
    "aten::miopen_convolution": _convolution("bias", _FALSE, _PLAIN_PADDING),
    "aten::miopen_depthwise_convolution": _convolution("bias", _FALSE, _PLAIN_PADDING),
    "aten::cudnn_convolution_transpose": _convolution(_NONE, _TRUE, _TRANSPOSED_PADDING),
    "aten::miopen_convolution_transpose": _convolution("bias", _TRUE, _TRANSPOSED_PADDING),
    "aten::cudnn_convolution_backward": _convolution_backward(_FALSE, _PLAIN_PADDING, 2),
    "aten::miopen_convolution_backward": _convolution_backward(_FALSE, _PLAIN_PADDING, 3),
    "aten::cudnn_convolution_transpose_backward": _convolution_backward(_TRUE, _TRANSPOSED_PADDING, 2),
    "aten::_scaled_dot_product_flash_attention": _attention(_NONE),
    "aten::_scaled_dot_product_efficient_attention": _attention("attn_bias"),
    "aten::_scaled_dot_product_cudnn_attention": _attention("attn_bias"),
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward("grad_out", _NONE),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward("grad_out_", "attn_bias"),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward("grad_out", "attn_bias"),
    "aten::_fused_dropout": _DROPOUT,
    "aten::_masked_scale": _MASKED_SCALE,
    "aten::pin_memory": _CLONE,
    "aten::_pin_memory": _CLONE,
}

#: For a CUDA device. Without dropout the random state is not read: any tensor may stand for it.
ON_CUDA: Mapping[str, Equivalent] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": Equivalent(
        "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, "
        "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, "
        "float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
        ("query", "key", "value", "attn_mask", _TRUE, _NO_DROPOUT, "is_causal", "scale"),
        (0, 1),
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": Equivalent(
        "aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, "
        "Tensor value, Tensor? attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, "
        "Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, "
        "float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)",
        ("grad_out", "query", "key", "value", "attn_mask", "out", "logsumexp", "logsumexp", "logsumexp",
         _NO_DROPOUT, Constant((True, True, True, False)), "is_causal", "scale"),
        (0, 1, 2),
    ),
}  # fmt: skip

EQUIVALENTS: Mapping[str, Mapping[str, Equivalent]] = {"cpu": ON_CPU, "cuda": ON_CUDA}

#: PyTorch's numbers of element types (c10/core/ScalarType.h).
DTYPE_NUMBERS: Mapping[str, int] = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7,
    "complex32": 8, "complex64": 9, "complex128": 10, "bool": 11, "qint8": 12, "quint8": 13, "qint32": 14,
    "bfloat16": 15, "float8_e5m2": 23, "float8_e4m3fn": 24, "float8_e5m2fnuz": 25, "float8_e4m3fnuz": 26,
    "uint16": 27, "uint32": 28, "uint64": 29,
}  # fmt: skip
