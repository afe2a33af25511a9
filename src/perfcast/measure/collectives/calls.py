"""The collectives that a profile times, each on its own buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

_ELEMENT = torch.float32


@dataclass(frozen=True, slots=True)
class Group:
    """This rank's group along an axis.

    Attributes:
        handle: Of ``torch.distributed``.
        ranks: Global ranks, in the axis's order.
        rank: This rank's place among them.
    """

    handle: Any
    ranks: tuple[int, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class PreparedCollective:
    """A collective, ready to run.

    Attributes:
        run: Once; what it starts on a GPU may still be running afterwards.
        size_bytes: Of the full buffer, after rounding up to whole elements for every rank.
        num_messages: Messages one after the other in a run: two where one goes there and one back.
    """

    run: Callable[[], Any]
    size_bytes: int
    num_messages: int = 1


def prepare(collective: str, size_bytes: int, group: Group, device: torch.device) -> PreparedCollective:
    """Buffers filled with ones, and the call on them.

    Raises:
        KeyError: Not a collective of ``plan.PROFILED``.
    """
    size, element = len(group.ranks), _ELEMENT.itemsize
    count = -(-size_bytes // (element * size)) * size
    full = torch.ones(count, dtype=_ELEMENT, device=device)
    return _MAKERS[collective](full, group)


def _all_reduce(full: torch.Tensor, group: Group) -> PreparedCollective:
    full.zero_()  # sums of sums would grow beyond the largest number
    return PreparedCollective(lambda: dist.all_reduce(full, group=group.handle), full.nbytes)


def _all_gather(full: torch.Tensor, group: Group) -> PreparedCollective:
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    part = torch.ones_like(full[: full.numel() // len(group.ranks)])
    return PreparedCollective(lambda: gather(full, part, group=group.handle), full.nbytes)


def _reduce_scatter(full: torch.Tensor, group: Group) -> PreparedCollective:
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    part = torch.ones_like(full[: full.numel() // len(group.ranks)])
    return PreparedCollective(lambda: scatter(part, full, group=group.handle), full.nbytes)


def _all_to_all(full: torch.Tensor, group: Group) -> PreparedCollective:
    received = torch.ones_like(full)
    return PreparedCollective(lambda: dist.all_to_all_single(received, full, group=group.handle), full.nbytes)


def _broadcast(full: torch.Tensor, group: Group) -> PreparedCollective:
    return PreparedCollective(lambda: dist.broadcast(full, group.ranks[0], group=group.handle), full.nbytes)


def _send(full: torch.Tensor, group: Group) -> PreparedCollective:
    """There and back between neighbours; the last rank of an odd axis rests."""
    peer = group.rank ^ 1
    if peer >= len(group.ranks):
        return PreparedCollective(lambda: None, full.nbytes, num_messages=2)
    other = group.ranks[peer]

    def first() -> None:
        dist.send(full, other, group=group.handle)
        dist.recv(full, other, group=group.handle)

    def second() -> None:
        dist.recv(full, other, group=group.handle)
        dist.send(full, other, group=group.handle)

    return PreparedCollective(second if group.rank % 2 else first, full.nbytes, num_messages=2)


_MAKERS: dict[str, Callable[[torch.Tensor, Group], PreparedCollective]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "send": _send,
}
