"""How numbers are kept and multiplied in one step: said once, read by kernels, memory and prices."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from perfcast.core.dtype import DType
from perfcast.core.formats import CACHE_FORMATS, FORMATS, Format, Stored, spelled
from perfcast.core.machine.hardware import Device
from perfcast.errors import PlanError, UnknownNameError

#: Formats whose scales the units themselves must apply.
_NEEDS_FP4 = ("mxfp8", "w4a8_mxfp4_mxfp8")
_WIDE = {"fp32": DType.FP32, "tf32": DType.FP32, "fp16": DType.FP16}
#: Parts of a layer whose products may be in another format than those of the experts that a router chooses:
#: attention, and dense MLPs with experts that every token visits.
Part = Literal["attention", "mlp"]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are kept in a step; a framework's profile says in what type gradients and states are.

    Attributes:
        format: Of the layers' products, as ``core.formats`` has them; where parts differ, of the experts'.
        element: Of activations between products, and of what is not quantised: embedding, head, router,
            norms.
        cache_format: Of the cache of keys and values, one of ``CACHE_FORMATS``; a training has none.
        attends_in_cache_format: Whether prompts attend in the cache's format, their queries made as narrow.
        attention_format, mlp_format: Of a part whose products are in another format; '' as ``format``.
    """

    format: str
    element: DType
    cache_format: str
    attends_in_cache_format: bool = False
    attention_format: str = ""
    mlp_format: str = ""

    @property
    def name(self) -> str:
        """As it is asked for: 'nvfp4', 'nvfp4+attention=bf16'."""
        return join_parts(self.format, {"attention": self.attention_format, "mlp": self.mlp_format})

    def format_of(self, part: Part) -> str:
        """Format of the products of a part."""
        return (self.attention_format if part == "attention" else self.mlp_format) or self.format

    def weight_of(self, part: Part) -> Stored:
        """How the weights of a part lie in memory."""
        return FORMATS[self.format_of(part)].weight

    @property
    def products(self) -> Format:
        """What the format of the products is."""
        return FORMATS[self.format]

    @property
    def weight(self) -> Stored:
        """How the layers' weights lie in memory."""
        return self.products.weight

    @property
    def outside(self) -> str:
        """Format of products that are not quantised."""
        return self.element.label if self.products.is_narrow else self.format

    @property
    def arithmetic(self) -> DType:
        """What multiplies in the layers' products; weights alone are widened to what activations have."""
        return self.element if self.products.is_weight_only else self.products.arithmetic

    @property
    def cache(self) -> Stored:
        """How keys and values lie in memory."""
        return FORMATS[self.cache_format].activation


def split_parts(dtype: str) -> tuple[str, dict[Part, str]]:
    """The format of the experts, or of all, and those of parts that differ: 'nvfp4+attention=bf16'.

    Raises:
        UnknownNameError: Not a format, or not a part.
    """
    first, *others = dtype.split("+")
    found: dict[Part, str] = {}
    for text in others:
        name, _, value = text.partition("=")
        if name not in PARTS:
            raise UnknownNameError("part of a layer", name, PARTS, f"Known: {', '.join(PARTS)}.")
        found[name] = spelled(value, "dtype")
    return spelled(first, "dtype"), found


def join_parts(name: str, parts: Mapping[Part, str]) -> str:
    """The text that ``split_parts`` reads; parts in the same format are not named."""
    differing = [f"{part}={value}" for part, value in parts.items() if value and value != name]
    return "+".join((name, *differing))


def spelled_dtype(dtype: str) -> str:
    """The name of a precision's products, however it is spelled.

    Raises:
        UnknownNameError: As ``split_parts``.
    """
    return join_parts(*split_parts(dtype))


def inference_precision(
    dtype: str, cache_dtype: str | None = None, *, narrow_caches: tuple[str, ...] = ()
) -> Precision:
    """The precision of an inference in a format.

    Args:
        dtype: Of products, where parts differ as ``split_parts`` reads it.
        cache_dtype: Of keys and values; None or 'auto': fp8 beside products in ``narrow_caches``, else that
            of activations.

    Raises:
        UnknownNameError: Not a format, or not one of a cache.
    """
    name, parts = split_parts(dtype)
    parts = {part: value for part, value in parts.items() if value != name}
    element = _WIDE.get(name, DType.BF16)
    if cache_dtype is None or cache_dtype == "auto":
        cache = "fp8" if name in narrow_caches else element.label
    else:
        cache = spelled(cache_dtype, "dtype of the KV cache", CACHE_FORMATS)
    return Precision(
        name, element, cache, attention_format=parts.get("attention", ""), mlp_format=parts.get("mlp", "")
    )


@functools.cache
def training_precision(dtype: str) -> Precision:
    """The precision of a training: in a narrow format, products between tensors of bf16.

    Raises:
        UnknownNameError: Not a format.
    """
    return inference_precision(dtype)


def on_device(precision: Precision, device: Device) -> Precision:
    """As a device runs it.

    fp16 stands between products where it has no bf16 (V100, T4). Experts in MXFP4 beside wide layers take
    activations in MXFP8 where its units scale blocks (gpt-oss on Blackwell: TensorRT-LLM's W4A8_MXFP4_MXFP8,
    which vLLM and SGLang call by FlashInfer).
    """
    if (
        precision.format == "w4a16_mxfp4"
        and precision.attention_format
        and _has(device, "w4a8_mxfp4_mxfp8")
        and device.vendor == "nvidia"
    ):
        precision = replace(precision, format="w4a8_mxfp4_mxfp8")
    known = device.matrix_flops_per_second.keys() | device.vector_flops_per_second.keys()
    if precision.element is not DType.BF16 or DType.BF16 in known or DType.FP16 not in known:
        return precision
    cache = "fp16" if precision.cache_format == "bf16" else precision.cache_format
    return replace(
        precision,
        element=DType.FP16,
        cache_format=cache,
        attention_format=_without_bf16(precision.attention_format),
        mlp_format=_without_bf16(precision.mlp_format),
    )


def _without_bf16(name: str) -> str:
    return "fp16" if name == "bf16" else name


def formats_of(device: Device) -> tuple[str, ...]:
    """Names of the formats that a device can multiply in, by its units or widened to 16 bits."""
    return tuple(name for name in FORMATS if _has(device, name))


def check_device(device: Device, name: str) -> None:
    """Whether a device has what a format takes, and those of parts that differ.

    Raises:
        PlanError: It does not; the message names what it has.
    """
    for each in (text.rpartition("=")[2] for text in name.split("+")):
        if each in FORMATS and not _has(device, each):
            raise PlanError(
                f"{device.name} cannot multiply in {each}; it has {', '.join(formats_of(device))}. Choose "
                "one of these with --dtype."
            )


def _has(device: Device, name: str) -> bool:
    """Units that scale blocks of 32 came with those of fp4 (Blackwell, CDNA 4)."""
    known = device.matrix_flops_per_second.keys() | device.vector_flops_per_second.keys()
    form = FORMATS[name]
    if form.is_weight_only:
        return bool(known & {DType.BF16, DType.FP16})
    return form.arithmetic in known and (name not in _NEEDS_FP4 or DType.FP4 in known)
