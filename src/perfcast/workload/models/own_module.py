"""Modules that a user holds, captured by a symbolic copy, so that nothing of theirs changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from perfcast.core.own_module import OwnModule
from perfcast.errors import ModelError
from perfcast.torch_internals.eager import tree_map_only


def function_of(own: OwnModule) -> Callable[[], tuple[Any, ...]]:
    """What ``build_user_program`` takes of a file: a function that returns module, inputs and loss.

    It is called under fake tensors; what it returns shares no tensor with what the user holds.

    Raises:
        ModelError: No module, or one whose tensors are not its own (compiled, or spread over processes).
    """
    module = own.module
    if not isinstance(module, nn.Module):
        raise ModelError(f"{type(module).__name__} is no torch.nn.Module")
    if hasattr(module, "_orig_mod"):
        raise ModelError(
            "the module is compiled by torch.compile; give the module that was compiled, with compile=True"
        )
    if isinstance(module, nn.parallel.DistributedDataParallel):
        raise ModelError(
            "the module is wrapped in DistributedDataParallel; give its .module (a plan says how many)"
        )

    def build() -> tuple[Any, ...]:
        copied, inputs = _symbolic(module, own.inputs)
        return (copied, inputs) if own.loss is None else (copied, inputs, own.loss)

    build.__name__ = own.title
    return build


def _symbolic(module: nn.Module, inputs: Any) -> tuple[nn.Module, Any]:
    """Copies in which every tensor is an empty one like it, on the processor; what is shared stays shared."""
    memo: dict[int, Any] = {}
    for tensor in _tensors(module):
        memo.setdefault(id(tensor), _like(tensor))
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:
        raise ModelError(
            f"{type(module).__name__} cannot be copied ({type(error).__name__}: {error}); write a function "
            "that builds it, and give FILE.py:FUNCTION"
        ) from error
    return copied, tree_map_only(Tensor, lambda tensor: memo.get(id(tensor), _like(tensor)), inputs)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers, and tensors that parts of the module hold as plain attributes."""
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            yield from (held for held in _held(value) if isinstance(held, Tensor))


def _held(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, Mapping):
        yield from value.values()
    else:
        yield value


def _like(tensor: Tensor) -> Tensor:
    """An empty tensor of the same shape, layout and type; a parameter where it is one."""
    if type(tensor).__name__ == "DTensor":
        raise ModelError(
            "the module's weights are spread over processes (DTensor); give the whole module with a plan, or "
            "write the parallel program as FILE.py:FUNCTION with its world size"
        )
    if isinstance(tensor, nn.UninitializedParameter | nn.UninitializedBuffer):
        raise ModelError("the module has lazy parameters without a shape; call it once before")
    values = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(values, requires_grad=tensor.requires_grad)
    return values.requires_grad_(tensor.requires_grad and tensor.is_leaf)
