"""Calls that meshes and distributed tensors make, answered as on real ranks of a GPU cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from perfcast.errors import InputError
from perfcast.torch_internals.eager import unset_fake_temporarily

#: Modules of PyTorch whose tensors are tables of ranks.
_RANK_TABLES = tuple(f"torch.distributed.{name}" for name in ("device_mesh", "_mesh_layout", "_pycute"))
#: What stands between a mesh and a tensor function: ``with device:``, and a loop over a tensor.
_BETWEEN = ("torch.utils._device", "torch._tensor")


class DistributedCalls(TorchFunctionMode):
    """Meshes have real tables of ranks, and fused kernels run on each rank's part.

    Meshes keep their ranks in tensors and read them; those are real even where all others are fake.
    Attention and RMS norms on distributed tensors are taken apart here, before they are recorded as the
    one operation that an accelerator runs; PyTorch's rules for the processor's kernels are others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._of_parts: dict[Any, Callable[..., DTensor]] = {
            functional.scaled_dot_product_attention: _attention_of_parts,
            functional.rms_norm: _rms_norm_of_parts,
            torch.rms_norm: _rms_norm_of_parts,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _called_by_a_mesh(sys._getframe(1)):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        of_parts = self._of_parts.get(func)
        if of_parts is not None and any(isinstance(value, DTensor) for value in args):
            return of_parts(func, *args, **kwargs)
        return func(*args, **kwargs)


def _called_by_a_mesh(frame: FrameType | None) -> bool:
    """Whether a tensor function was called from a mesh's own code."""
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").startswith(_RANK_TABLES)


def _attention_of_parts(func: Any, query: Any, key: Any, value: Any, *rest: Any, **kwargs: Any) -> DTensor:
    """Attention where each rank has whole sequences: those of its part of the batch or of the heads.

    Raises:
        InputError: The tensors are split otherwise.
    """
    placements = [getattr(tensor, "placements", None) for tensor in (query, key, value)]
    if any(other != placements[0] for other in placements) or not _is_split_before(2, query):
        raise InputError(
            f"attention on distributed tensors placed as {placements} is not captured: query, key and value "
            "are to be split alike, over the batch or the heads"
        )
    parts = [tensor.to_local() for tensor in (query, key, value)]
    rest = tuple(other.to_local() if isinstance(other, DTensor) else other for other in rest)
    output = func(*parts, *rest, **kwargs)
    return DTensor.from_local(output, query.device_mesh, query.placements, run_check=False)


def _rms_norm_of_parts(
    func: Any,
    input: Any,  # noqa: A002
    normalized_shape: Any,
    weight: Any = None,
    eps: float | None = None,
) -> DTensor:
    """A norm where each rank has whole rows; it sees a part of the weight's gradient, if rows are split.

    Raises:
        InputError: The rows themselves are split, or the weight is.
    """
    if not (weight is None or _is_split_before(0, weight)) or not _is_split_before(
        input.ndim - len(normalized_shape), input
    ):
        raise InputError(
            f"an RMS norm of a distributed tensor placed as {getattr(input, 'placements', None)} is not "
            "captured: its rows and its weight are to be whole on each rank"
        )
    if weight is not None:
        gradients = [Partial() if placement.is_shard() else Replicate() for placement in input.placements]
        weight = weight.to_local(grad_placements=gradients)
    output = func(input.to_local(), normalized_shape, weight, eps)
    return DTensor.from_local(output, input.device_mesh, input.placements, run_check=False)


def _is_split_before(dim: int, tensor: Any) -> bool:
    """Whether a tensor is distributed, and whole on each rank but for dims before ``dim``."""
    return isinstance(tensor, DTensor) and all(
        placement.is_replicate() or (isinstance(placement, Shard) and placement.dim < dim)
        for placement in tensor.placements
    )
