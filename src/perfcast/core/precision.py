"""How numbers are kept and multiplied in one step: said once, read by kernels, memory and prices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.dtype import DType
from perfcast.core.formats import CACHE_FORMATS, FORMATS, Format, Stored, spelled
from perfcast.core.hardware import Device
from perfcast.errors import PlanError

#: Formats whose scales the units themselves must apply.
_NEEDS_FP4 = ("mxfp8", "w4a8_mxfp4_mxfp8")
_WIDE = {"fp32": DType.FP32, "tf32": DType.FP32, "fp16": DType.FP16}


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are kept in a step; a framework's profile says in what type gradients and states are.

    Attributes:
        format: Of the layers' products, as ``core.formats`` has them.
        element: Of activations between products, and of what is not quantised: embedding, head, router,
            norms.
        cache_format: Of the cache of keys and values, one of ``CACHE_FORMATS``; a training has none.
        attends_in_cache_format: Whether prompts attend in the cache's format, their queries made as narrow.
    """

    format: str
    element: DType
    cache_format: str
    attends_in_cache_format: bool = False

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


def inference_precision(
    dtype: str, cache_dtype: str | None = None, *, narrow_caches: tuple[str, ...] = ()
) -> Precision:
    """The precision of an inference in a format.

    Args:
        cache_dtype: Of keys and values; None or 'auto': fp8 beside products in ``narrow_caches``, else that
            of activations.

    Raises:
        UnknownNameError: Not a format, or not one of a cache.
    """
    name = spelled(dtype, "dtype")
    element = _WIDE.get(name, DType.BF16)
    if cache_dtype is None or cache_dtype == "auto":
        cache = "fp8" if name in narrow_caches else element.label
    else:
        cache = spelled(cache_dtype, "dtype of the KV cache", CACHE_FORMATS)
    return Precision(name, element, cache)


def training_precision(dtype: str) -> Precision:
    """The precision of a training: in a narrow format, products between tensors of bf16.

    Raises:
        UnknownNameError: Not a format.
    """
    return inference_precision(dtype)


def on_device(precision: Precision, device: Device) -> Precision:
    """The same with fp16 between products where a device has no bf16 (V100, T4)."""
    known = device.matrix_flops_per_second.keys() | device.vector_flops_per_second.keys()
    if precision.element is not DType.BF16 or DType.BF16 in known or DType.FP16 not in known:
        return precision
    cache = "fp16" if precision.cache_format == "bf16" else precision.cache_format
    return replace(precision, element=DType.FP16, cache_format=cache)


def formats_of(device: Device) -> tuple[str, ...]:
    """Names of the formats that a device can multiply in, by its units or widened to 16 bits."""
    return tuple(name for name in FORMATS if _has(device, name))


def check_device(device: Device, name: str) -> None:
    """Whether a device has what a format takes.

    Raises:
        PlanError: It does not; the message names what it has.
    """
    if name in FORMATS and not _has(device, name):
        raise PlanError(
            f"{device.name} cannot multiply in {name}; it has {', '.join(formats_of(device))}. Choose one of "
            "these with --dtype."
        )


def _has(device: Device, name: str) -> bool:
    """Units that scale blocks of 32 came with those of fp4 (Blackwell, CDNA 4)."""
    known = device.matrix_flops_per_second.keys() | device.vector_flops_per_second.keys()
    form = FORMATS[name]
    if form.is_weight_only:
        return bool(known & {DType.BF16, DType.FP16})
    return form.arithmetic in known and (name not in _NEEDS_FP4 or DType.FP4 in known)
