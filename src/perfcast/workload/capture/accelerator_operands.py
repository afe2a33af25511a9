"""Operands as an accelerator's kernels take them, and memory formats as they leave them.

A convolution on a GPU runs with channels last if its images or its filters lie so, whatever their type
(PyTorch: aten/src/ATen/native/ConvUtils.h, ``cudnn_conv_suggest_memory_format``); operands that lie otherwise
are copied first, its results lie as it ran (native/cudnn/ConvShared.cpp). Norms over rows or groups and
softmax read contiguous operands and copy others (native/cuda/layer_norm_kernel.cu, native/group_norm.cpp,
native/cuda/SoftMax.cu). All other operators keep formats alike on both.

A softmax's backward takes gradient × output: the product is a kernel of its own and a tensor of the scores'
size (native/cuda/SoftMax.cu, ``softmax_backward_cuda_out``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from perfcast.torch_internals.eager import OpOverload, suggest_memory_format

_ATEN = torch.ops.aten
#: Positions of images and filters; a backward has the gradient before them.
_CONVOLUTIONS: Mapping[OpOverload, int] = {
    _ATEN.convolution.default: 0,
    _ATEN.convolution_backward.default: 1,
}
#: Positions of operands that kernels take contiguous.
_CONTIGUOUS: Mapping[OpOverload, tuple[int, ...]] = {
    _ATEN.native_layer_norm.default: (0,),
    _ATEN.native_layer_norm_backward.default: (0, 1),
    _ATEN.native_group_norm.default: (0,),
    _ATEN.native_group_norm_backward.default: (0, 1),
    _ATEN._softmax.default: (0,),
    _ATEN._softmax_backward_data.default: (0, 1),
    _ATEN._log_softmax.default: (0,),
    _ATEN._log_softmax_backward_data.default: (0, 1),
}
_BY_DIMS = {4: torch.channels_last, 5: torch.channels_last_3d}


def operands_of(operator: OpOverload, args: tuple[Any, ...], run: Callable[..., Any]) -> tuple[Any, ...]:
    """Arguments of an operator as an accelerator's kernel takes them.

    Args:
        run: Runs and records what makes them: operator, ``args``, ``kwargs``.
    """
    formats = _copied(operator, args)
    if formats:
        copies = {
            position: run(_ATEN.clone.default, args=(args[position],), kwargs={"memory_format": layout})
            for position, layout in formats.items()
        }
        args = tuple(copies.get(position, value) for position, value in enumerate(args))
    if operator is _ATEN._softmax_backward_data.default:
        args = (run(_ATEN.mul.Tensor, args=args[:2]), *args[1:])
    return args


def _copied(operator: OpOverload, args: tuple[Any, ...]) -> dict[int, torch.memory_format]:
    """Operands that are copied first, by position, and in which format."""
    formats: dict[int, torch.memory_format] = {}
    if operator in _CONVOLUTIONS:
        layout = _convolution_format(operator, args)
        formats = dict.fromkeys(range(_CONVOLUTIONS[operator] + 2), layout)
    elif operator in _CONTIGUOUS:
        formats = dict.fromkeys(_CONTIGUOUS[operator], torch.contiguous_format)
    return {
        position: layout
        for position, layout in formats.items()
        if isinstance(args[position], Tensor) and not args[position].is_contiguous(memory_format=layout)
    }


def written_as(operator: OpOverload, args: tuple[Any, ...], out: Any) -> Any:
    """What an operator makes, with strides as a GPU would give it."""
    if operator not in _CONVOLUTIONS:
        return out
    layout = _convolution_format(operator, args)
    return _like(out, layout) if isinstance(out, Tensor) else tuple(_like(part, layout) for part in out)


def _convolution_format(operator: OpOverload, args: tuple[Any, ...]) -> torch.memory_format:
    first = _CONVOLUTIONS[operator]
    images, filters = args[first : first + 2]
    layout = _BY_DIMS.get(filters.ndim)
    if layout is None or torch.float64 in (images.dtype, filters.dtype):
        return torch.contiguous_format
    is_last = any(suggest_memory_format(t) is layout for t in (images, filters))
    return layout if is_last else torch.contiguous_format


def _like(out: Tensor | None, layout: torch.memory_format) -> Tensor | None:
    """The same with exact strides of a format, which an image of one position has several of."""
    if out is None or out.ndim not in _BY_DIMS:
        return out
    return torch.empty(out.shape, dtype=out.dtype, device=out.device, memory_format=layout)
