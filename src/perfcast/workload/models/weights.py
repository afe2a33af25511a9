"""Weights and buffers of a module, each put in place of another."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def replace_weights(module: nn.Module, convert: Callable[[Tensor], Tensor]) -> None:
    """What ``module.to`` does, for symbolic parameters too, which cannot be given other data; ties are kept.

    Args:
        convert: Of a parameter's or buffer's values; itself where nothing changes.
    """
    converted: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            values = parameter.detach()
            changed = convert(values)
            if changed is not values:
                new = converted.setdefault(id(parameter), nn.Parameter(changed, parameter.requires_grad))
                setattr(part, name, new)
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, convert(buffer))


def cast_weights(module: nn.Module, dtype: torch.dtype) -> None:
    """All floating-point weights and buffers in another type."""
    replace_weights(module, caster(dtype))


def caster(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Floating-point tensors → the same in a type; others as they are."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return cast
