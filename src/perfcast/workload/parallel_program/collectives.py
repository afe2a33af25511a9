"""Calls of PyTorch's communication operators, read as collective operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from perfcast.core.collective import format_ranks
from perfcast.torch_internals.eager import tree_leaves

#: Operators of ``torch.distributed``, eager and functional, by what they do.
_NAMES = {
    "c10d::_allgather_base_": "all_gather",
    "c10d::allgather_": "all_gather",
    "c10d::allgather_coalesced_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather",
    "c10d::_reduce_scatter_base_": "reduce_scatter",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "c10d::allreduce_": "all_reduce",
    "c10d::allreduce_coalesced_": "all_reduce",
    "c10d::alltoall_": "all_to_all",
    "c10d::alltoall_base_": "all_to_all",
    "c10d::broadcast_": "broadcast",
    "c10d::reduce_": "reduce",
    "c10d::gather_": "gather_to_root",
    "c10d::scatter_": "scatter_from_root",
    "c10d::send": "send",
    "c10d::recv_": "receive",
    "c10d::recv_any_source_": "receive",
    "c10d::barrier": "barrier",
    "c10d::monitored_barrier_": "barrier",
    "_c10d_functional::all_gather_into_tensor": "all_gather",
    "_c10d_functional::all_gather_into_tensor_out": "all_gather",
    "_c10d_functional::all_gather_into_tensor_coalesced": "all_gather",
    "_c10d_functional::reduce_scatter_tensor": "reduce_scatter",
    "_c10d_functional::reduce_scatter_tensor_out": "reduce_scatter",
    "_c10d_functional::reduce_scatter_tensor_coalesced": "reduce_scatter",
    "_c10d_functional::all_reduce": "all_reduce",
    "_c10d_functional::all_reduce_": "all_reduce",
    "_c10d_functional::all_reduce_coalesced": "all_reduce",
    "_c10d_functional::all_reduce_coalesced_": "all_reduce",
    "_c10d_functional::all_to_all_single": "all_to_all",
    "_c10d_functional::broadcast": "broadcast",
    "_c10d_functional::broadcast_": "broadcast",
    "_c10d_functional::isend": "send",
    "_c10d_functional::irecv": "receive",
    "_dtensor::shard_dim_alltoall": "all_to_all",
}


@dataclass(frozen=True)
class Collective:
    """One operation between the ranks of a group.

    Attributes:
        name: One of ``core.collective.COLLECTIVES``.
        sent, received: Tensors; one that is reduced in place is both.
        facts: ``ranks``, the group's (see ``core.collective.format_ranks``), and ``peer``, the other
            rank of a send or receive, if it is known.
    """

    name: str
    sent: tuple[torch.Tensor, ...]
    received: tuple[torch.Tensor, ...]
    facts: dict[str, Any]


def collective_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Collective | None:
    """The collective that an operator's call is; None if it is none."""
    name = _NAMES.get(func.name().partition(".")[0])
    if name is None:
        return None
    said = {**dict(zip([a.name for a in func._schema.arguments], args, strict=False)), **kwargs}
    ranks = _ranks_of(said.get("process_group", said.get("group_name")))
    facts: dict[str, Any] = {"ranks": format_ranks(ranks)}
    if name in ("send", "receive") and ("dst" in said or "src" in said):
        facts["peer"] = ranks[said.get("dst", said.get("src", 0))]
    sent, received = _buffers(name, said, out, is_functional=func.namespace != "c10d")
    return Collective(name, sent, received, facts)


def _ranks_of(group: Any) -> Sequence[int]:
    from torch.distributed import get_process_group_ranks

    from perfcast.torch_internals.distributed import c10d

    if isinstance(group, str):
        group = c10d._resolve_process_group(group)  # type: ignore[arg-type]
    elif not isinstance(group, c10d.ProcessGroup):
        group = c10d.ProcessGroup.unbox(group)
    return get_process_group_ranks(group)


def _buffers(
    name: str, said: dict[str, Any], out: Any, is_functional: bool
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Tensors sent and received, which PyTorch tells apart by the names of the arguments."""
    sent, received, both = (
        _tensors([value for key, value in said.items() if key.startswith(start)])
        for start in ("input", "out", "tensor")
    )
    match name:
        case "barrier":
            return (), ()
        case "send":
            return both, ()
        case "receive":
            return (), both
    if is_functional:
        return sent, _tensors(out)
    return sent + both, received + both


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    leaves = tree_leaves(value)
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
