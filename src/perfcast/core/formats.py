"""Formats of arithmetic as measured tables name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.dtype import DType


@dataclass(frozen=True)
class Format:
    """How a product's operands are stored and multiplied.

    Attributes:
        arithmetic: Element type of the units that multiply.
        activation_bits, weight_bits, output_bits: Of one element, scales left out.
    """

    arithmetic: DType
    activation_bits: int
    weight_bits: int
    output_bits: int = 16


#: Weight-only formats ('wo', 'w4a16') widen the weights and multiply in 16 bits.
FORMATS: Mapping[str, Format] = {
    "fp32": Format(DType.FP32, 32, 32, 32),
    "tf32": Format(DType.TF32, 32, 32, 32),
    "bf16": Format(DType.BF16, 16, 16),
    "fp16": Format(DType.FP16, 16, 16),
    "fp8": Format(DType.FP8, 8, 8),
    "fp8_block": Format(DType.FP8, 8, 8),
    "fp8_static": Format(DType.FP8, 8, 8),
    "fp8_token": Format(DType.FP8, 8, 8),
    "nvfp4": Format(DType.FP4, 4, 4),
    "mxfp4": Format(DType.FP4, 4, 4),
    "int8": Format(DType.INT8, 8, 8),
    "sq": Format(DType.INT8, 8, 8),
    "int8_wo": Format(DType.BF16, 16, 8),
    "int4_wo": Format(DType.BF16, 16, 4),
    "w4a16_mxfp4": Format(DType.BF16, 16, 4),
    "w4a8_mxfp4_mxfp8": Format(DType.FP8, 8, 4),
    "w4afp8": Format(DType.FP8, 8, 4),
}

#: Other spellings of the formats above.
SPELLINGS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
