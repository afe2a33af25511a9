"""A program whose weights and images lie with channels last, as by ``Module.to(memory_format=…)``."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from perfcast.core.tensor import MemoryFormat
from perfcast.errors import ModelError
from perfcast.torch_internals.eager import tree_leaves, tree_map_only
from perfcast.workload.models.weights import replace_weights
from perfcast.workload.step import Program

_BY_DIMS = {4: torch.channels_last, 5: torch.channels_last_3d}


def to_memory_format(program: Program, memory_format: MemoryFormat, model: str) -> Program:
    """The program with every weight, buffer and input of 4 or 5 dims in a memory format.

    Args:
        model: As the user names it.

    Raises:
        ModelError: No input has 4 or 5 dims.
    """
    if memory_format == "contiguous":
        return program
    inputs = [v for v in tree_leaves((program.args, dict(program.kwargs))) if isinstance(v, Tensor)]
    if not any(value.ndim in _BY_DIMS for value in inputs):
        raise ModelError(f"memory format {memory_format}: {model} takes no images, tensors of 4 or 5 dims")
    replace_weights(program.module, _convert)
    args, kwargs = tree_map_only(Tensor, _convert, (program.args, dict(program.kwargs)))
    return replace(program, args=args, kwargs=kwargs)


def _convert(tensor: Tensor) -> Tensor:
    """Dims other than 4 and 5 have no channels to put last (torch: nn/modules/module.py, ``Module.to``)."""
    layout = _BY_DIMS.get(tensor.ndim)
    return tensor if layout is None else tensor.to(memory_format=layout)
