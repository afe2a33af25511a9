"""Automatic mixed precision as CUDA does it, on symbolic CPU tensors.

PyTorch keeps one list of operators that run in the lower precision, one that run in fp32 and one that
follow their widest argument, and the lists differ between CPU and CUDA. A forecast for an accelerator
follows CUDA's (documentation: "Automatic Mixed Precision package", CUDA Op-Specific Behavior), with the
grouped products of experts added to the lower precision. The lower-precision copy of a parameter is made
once per forward and reused, as PyTorch's cache does.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_LOWER_PRECISION = frozenset(
    "__matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul multi_dot conv1d conv2d "
    "conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution linear matmul "
    "mm mv prelu scaled_dot_product_attention einsum gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell "
    "lstm gru rnn_tanh rnn_relu _grouped_mm grouped_mm".split()
)

_FP32 = frozenset(
    "__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh "
    "cosine_embedding_loss cdist cosine_similarity cross_entropy cross_entropy_loss cumprod cumsum "
    "dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 "
    "log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss "
    "nll_loss nll_loss_nd norm normalize pdist poisson_nll_loss pow prod reciprocal rsqrt sinh "
    "smooth_l1_loss soft_margin_loss softmax softmin softplus sum renorm tan triplet_margin_loss "
    "upsample rms_norm".split()
)

_WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot index_put scatter_add tensordot cat stack".split()
)


class CudaAutocast(TorchFunctionMode):
    """Casts the floating-point arguments of each call by CUDA's lists.

    Args:
        dtype: The lower precision, ``torch.bfloat16`` or ``torch.float16``.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._casts: dict[int, tuple[Any, Tensor]] = {}
        self._is_forward = True
        self._was_enabled = False

    def __enter__(self) -> CudaAutocast:
        # Programs ask whether autocast is on; it does not touch CPU tensors.
        self._was_enabled = torch.is_autocast_enabled("cuda")
        torch.set_autocast_enabled("cuda", True)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        torch.set_autocast_enabled("cuda", self._was_enabled)

    def end_forward(self) -> None:
        """Drop the copies of parameters, as leaving the autocast region does; the backward makes its own.

        A checkpointed layer enters a region of its own when it runs again, and copies its parameters anew.
        """
        self._casts.clear()
        self._is_forward = False
        torch.set_autocast_enabled("cuda", self._was_enabled)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not (self._is_forward or torch.is_grad_enabled()):
            return func(*args, **kwargs)  # the backward itself runs outside the region
        if func is functional.multi_head_attention_forward:
            # PyTorch switches this mode off inside: the products are put back by hand.
            with patch.object(functional, "linear", partial(self._inside, functional.linear)):
                return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        target: torch.dtype | None = None
        if name in _LOWER_PRECISION:
            target = self._dtype
        elif name in _FP32 and not (
            name in ("sum", "prod", "softmax", "log_softmax") and kwargs.get("dtype") is not None
        ):
            target = torch.float32
        elif name in _WIDEST:
            target = _widest((args, tuple(kwargs.values())))
        if target is None:
            return func(*args, **kwargs)
        cast_args = tuple(self._cast(value, target) for value in args)
        return func(*cast_args, **{key: self._cast(value, target) for key, value in kwargs.items()})

    def _inside(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__torch_function__(func, (), args, kwargs)

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor):
            if not value.is_floating_point() or value.dtype in (dtype, torch.float64):
                return value
            return self._cached_cast(value, dtype)
        if isinstance(value, list | tuple) and any(isinstance(v, Tensor) for v in value):
            return type(value)([self._cast(v, dtype) for v in value])
        return value

    def _cached_cast(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        is_cacheable = self._is_forward and value.is_leaf and value.requires_grad and dtype is self._dtype
        if not is_cacheable:
            return value.to(dtype)
        key = id(value)
        known = self._casts.get(key)
        # Outside grad mode the copy would not carry a gradient, so it is not shared with one that does.
        if known is not None and known[0]() is value and known[1].requires_grad == torch.is_grad_enabled():
            return known[1]
        copy = value.to(dtype)
        self._casts[key] = (weakref.ref(value), copy)
        return copy


def _widest(values: Any) -> torch.dtype | None:
    found: list[torch.dtype] = []

    def visit(value: Any) -> None:
        if isinstance(value, Tensor) and value.is_floating_point():
            found.append(value.dtype)
        elif isinstance(value, list | tuple):
            for item in value:
                visit(item)

    visit(values)
    if len(set(found)) < 2:
        return None
    return torch.float32 if torch.float32 in found else max(found, key=lambda d: d.itemsize)
