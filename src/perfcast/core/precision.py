"""How numbers are kept and multiplied in one step: said once, read by kernels, memory and prices."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.formats import CACHE_FORMATS, FORMATS, Format, Stored, spelled

_WIDE = {"fp32": DType.FP32, "tf32": DType.FP32, "fp16": DType.FP16}


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are kept while a model answers.

    Attributes:
        format: Of the layers' products, as ``core.formats`` has them.
        element: Of activations between products, and of what is not quantised: embedding, head, router,
            norms.
        cache_format: Of the cache of keys and values, one of ``CACHE_FORMATS``.
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
