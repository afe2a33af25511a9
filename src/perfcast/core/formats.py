"""Formats of numbers by name: how elements lie in memory with their scales, and what multiplies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Stored:
    """How the elements of a tensor lie in memory.

    Attributes:
        element: Type of one element.
        block: Elements that share a scale; 0: a whole tensor, row or column does, which weighs nothing.
        scale_bits: Of the scale of a block, a scale of scales included.
    """

    element: DType
    block: int = 0
    scale_bits: float = 0.0

    @property
    def bits(self) -> float:
        """Of one element with its share of a scale."""
        return self.element.bits + (self.scale_bits / self.block if self.block else 0.0)

    @property
    def bytes_per_element(self) -> float:
        """Bytes of one element with its share of a scale."""
        return self.bits / 8

    def bytes_of(self, num_elements: int) -> int:
        """Bytes of packed elements and of their scales, rounded up."""
        return self.element.bytes_of(num_elements) + self.scale_bytes_of(num_elements)

    def scale_bytes_of(self, num_elements: int) -> int:
        """Bytes of the scales alone, rounded up."""
        return -int(-num_elements * self.scale_bits // (8 * self.block)) if self.block else 0


@dataclass(frozen=True, slots=True)
class Format:
    """How a product's operands are stored and multiplied.

    Attributes:
        arithmetic: Element type of the units that multiply.
        activation, weight: How the operands lie in memory.
        output_bits: Of one element of the result.
    """

    arithmetic: DType
    activation: Stored
    weight: Stored
    output_bits: int = 16

    @property
    def activation_bits(self) -> int:
        """Of one element, scales left out."""
        return self.activation.element.bits

    @property
    def weight_bits(self) -> int:
        """Of one element, scales left out."""
        return self.weight.element.bits

    @property
    def is_weight_only(self) -> bool:
        """Whether weights are widened to 16 bits and multiplied there: any device runs it."""
        return self.arithmetic.bits == self.activation_bits == 16 and self.weight_bits < 16

    @property
    def is_narrow(self) -> bool:
        """Whether weights have fewer than 16 bits, so that embedding, head and router are kept wider."""
        return self.weight_bits < 16


def _plain(dtype: DType, output_bits: int = 16) -> Format:
    return Format(dtype, Stored(dtype), Stored(dtype), output_bits)


def _both(arithmetic: DType, stored: Stored) -> Format:
    return Format(arithmetic, stored, stored)


_BF16 = Stored(DType.BF16)
#: Blocks of the OCP Microscaling Formats specification 1.0: 32 elements and a scale of eight exponent bits.
_MXFP8, _MXFP4 = Stored(DType.FP8, 32, 8), Stored(DType.FP4, 32, 8)
#: NVIDIA's: 16 elements, a scale in e4m3 (the scale of the tensor weighs nothing).
_NVFP4 = Stored(DType.FP4, 16, 8)
#: DeepSeek-V3 (2024), section 3.3.2: tiles of 1 × 128 of activations, blocks of 128 × 128 of weights.
_TILE, _SQUARE = Stored(DType.FP8, 128, 32), Stored(DType.FP8, 128 * 128, 32)
#: GPTQ's and AWQ's usual group of 128, with a scale of 16 bits.
_INT4 = Stored(DType.INT4, 128, 16)
#: Kimi-K2.5's (compressed-tensors, group_size 32), with a scale of 16 bits.
_INT4_FINE = Stored(DType.INT4, 32, 16)
#: QLoRA (Dettmers et al. 2023, section 3): blocks of 64; scales in 8 bits, 256 of them share one of 32.
_NF4 = Stored(DType.INT4, 64, 8 + 32 / 256)

#: 'fp8' and 'int8' quantise activations by what a tensor or token holds, 'fp8_static' by scales found
#: before; 'sq' is SmoothQuant, int8 with scales found before. Weight-only formats ('wo', 'w4a16', 'nf4')
#: widen the weights and multiply in 16 bits.
FORMATS: Mapping[str, Format] = {
    "fp32": _plain(DType.FP32, 32),
    "tf32": _plain(DType.TF32, 32),
    "bf16": _plain(DType.BF16),
    "fp16": _plain(DType.FP16),
    "fp8": _plain(DType.FP8),
    "fp8_static": _plain(DType.FP8),
    "fp8_token": _plain(DType.FP8),
    "fp8_block": Format(DType.FP8, _TILE, _SQUARE),
    "mxfp8": _both(DType.FP8, _MXFP8),
    "nvfp4": _both(DType.FP4, _NVFP4),
    "mxfp4": _both(DType.FP4, _MXFP4),
    "int8": _plain(DType.INT8),
    "sq": _plain(DType.INT8),
    "int8_wo": Format(DType.BF16, _BF16, Stored(DType.INT8)),
    "int4_wo": Format(DType.BF16, _BF16, _INT4),
    "int4_wo_g32": Format(DType.BF16, _BF16, _INT4_FINE),
    "nf4": Format(DType.BF16, _BF16, _NF4),
    "w4a16_mxfp4": Format(DType.BF16, _BF16, _MXFP4),
    "w4a8_mxfp4_mxfp8": Format(DType.FP8, _MXFP8, _MXFP4),
    "w4afp8": Format(DType.FP8, Stored(DType.FP8), _INT4),
}

#: Other spellings of the formats above.
SPELLINGS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_tensor": "fp8",
    "fp8_dynamic": "fp8_token",
    "fp8_rowwise": "fp8_token",
    "fp8_blockwise": "fp8_block",
    "w8a8": "int8",
    "smoothquant": "sq",
    "w8a16": "int8_wo",
    "w4a16": "int4_wo",
    "w4a16_g32": "int4_wo_g32",
    "int4": "int4_wo",
    "awq": "int4_wo",
    "gptq": "int4_wo",
    "mxfp4_wo": "w4a16_mxfp4",
    "w4a8_fp8": "w4afp8",
}

#: Formats that keys and values are kept in.
CACHE_FORMATS = ("fp32", "bf16", "fp16", "fp8", "int8", "nvfp4")


def spelled(name: str, kind: str = "format", known: tuple[str, ...] = tuple(FORMATS)) -> str:
    """The name of a format, however it is spelled.

    Raises:
        UnknownNameError: None of the known ones.
    """
    found = SPELLINGS.get(name.lower().replace("-", "_"), name.lower().replace("-", "_"))
    if found not in known:
        raise UnknownNameError(kind, name, known, f"Known: {', '.join(known)}.")
    return found


def arithmetic_of(name: str) -> DType:
    """What multiplies in a format, or in an element type of which there is no format.

    Raises:
        UnknownNameError: Neither.
    """
    if name in FORMATS:
        return FORMATS[name].arithmetic
    if name in DTYPES_BY_LABEL:
        return DTYPES_BY_LABEL[name]
    raise UnknownNameError("dtype", name, tuple(FORMATS), f"Known: {', '.join(FORMATS)}.")
