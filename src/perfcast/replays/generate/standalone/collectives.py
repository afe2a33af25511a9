"""Collectives between ranks, through ``torch.distributed``; sums stand for every reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Muted:
    """Takes part in no collective: a rank that plays alone, or that tries its own calls first."""

    def start(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def wait(self, call: int) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def line_up(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Collectives:
    """Starts collectives and waits for them; those under way are known by the number of their call.

    ``groups`` are the groups of all ranks, which every rank makes in the same order; ``timeout`` is how many
    seconds ranks wait for each other.
    """

    def __init__(
        self, groups: Mapping[str, Sequence[int]], device: torch.device, backend: str, timeout: float
    ) -> None:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        limit = timedelta(seconds=timeout)
        dist.init_process_group(backend or ("nccl" if device.type == "cuda" else "gloo"), timeout=limit)
        self.device = device
        self.under_way: dict[int, Any] = {}
        self.ranks = {name: tuple(ranks) for name, ranks in groups.items()}
        self.groups = {name: dist.new_group(list(ranks), timeout=limit) for name, ranks in self.ranks.items()}
        self.by_name: dict[str, Callable[..., Any]] = {
            "all_reduce": self.all_reduce,
            "all_gather": self.all_gather,
            "reduce_scatter": self.reduce_scatter,
            "all_to_all": self.all_to_all,
            "broadcast": self.broadcast,
            "reduce": self.reduce,
            "gather_to_root": self.gather,
            "scatter_from_root": self.scatter,
            "send": self.send,
            "receive": self.receive,
            "barrier": self.barrier,
        }

    def start(
        self,
        call: int,
        name: str,
        group: str,
        received: Sequence[Tensor],
        sent: Sequence[Tensor],
        *,
        root: int = 0,
        received_splits: Sequence[int] = (),
        sent_splits: Sequence[int] = (),
        is_asynchronous: bool = False,
    ) -> None:
        """One collective; ``root`` is a rank within the group, splits count rows."""
        splits = (list(received_splits) or None, list(sent_splits) or None)
        works = self.by_name[name](group, list(received), list(sent), root, splits)
        if is_asynchronous:
            self.under_way[call] = works
            return
        for work in works:
            if work is not None:
                work.wait()

    def wait(self, call: int) -> None:
        """Waits for a collective that was started."""
        for work in self.under_way.pop(call, ()):
            if work is not None:
                work.wait()

    def finish(self) -> None:
        """Waits for all that are still under way."""
        for call in list(self.under_way):
            self.wait(call)

    def line_up(self) -> None:
        """Waits for all ranks."""
        dist.barrier()

    def close(self) -> None:
        """Ends the connections."""
        dist.barrier()
        dist.destroy_process_group()

    def all_reduce(self, name: str, into: list[Tensor], of: list[Tensor], *_: Any) -> list[Any]:
        """In place, one tensor after the other."""
        _copy(into, of)
        return [dist.all_reduce(tensor, group=self.groups[name], async_op=True) for tensor in into]

    def all_gather(self, name: str, into: list[Tensor], of: list[Tensor], *_: Any) -> list[Any]:
        """Into one tensor of all parts, or one tensor of each rank."""
        group = self.groups[name]
        if len(into) == len(of):
            pairs = zip(into, of, strict=True)
            return [dist.all_gather_into_tensor(a, b, group=group, async_op=True) for a, b in pairs]
        size = len(into) // len(of)
        parts = [into[start : start + size] for start in range(0, len(into), size)]
        return [dist.all_gather(a, b, group=group, async_op=True) for a, b in zip(parts, of, strict=True)]

    def reduce_scatter(self, name: str, into: list[Tensor], of: list[Tensor], *_: Any) -> list[Any]:
        """From one tensor of all parts, or one tensor for each rank."""
        group = self.groups[name]
        if len(into) == len(of):
            pairs = zip(into, of, strict=True)
            return [dist.reduce_scatter_tensor(a, b, group=group, async_op=True) for a, b in pairs]
        size = len(of) // len(into)
        parts = [of[start : start + size] for start in range(0, len(of), size)]
        return [
            dist.reduce_scatter(a, b, group=group, async_op=True) for a, b in zip(into, parts, strict=True)
        ]

    def all_to_all(
        self, name: str, into: list[Tensor], of: list[Tensor], root: int, splits: tuple[Any, Any]
    ) -> list[Any]:
        """Parts of one tensor, or one tensor for each rank."""
        group = self.groups[name]
        if len(into) == len(of) == 1:
            return [dist.all_to_all_single(into[0], of[0], *splits, group=group, async_op=True)]
        return [dist.all_to_all(into, of, group=group, async_op=True)]

    def broadcast(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """From the root."""
        _copy(into, of)
        source = self.ranks[name][root]
        return [dist.broadcast(tensor, source, group=self.groups[name], async_op=True) for tensor in into]

    def reduce(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """To the root."""
        _copy(into, of)
        target = self.ranks[name][root]
        return [dist.reduce(tensor, target, group=self.groups[name], async_op=True) for tensor in into]

    def gather(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """One tensor of each rank to the root."""
        target = self.ranks[name][root]
        parts = into if dist.get_rank() == target else None
        return [dist.gather(of[0], parts, target, group=self.groups[name], async_op=True)]

    def scatter(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """One tensor for each rank from the root."""
        source = self.ranks[name][root]
        parts = of if dist.get_rank() == source else None
        return [dist.scatter(into[0], parts, source, group=self.groups[name], async_op=True)]

    def send(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """To the rank of the group that ``root`` names."""
        return [dist.isend(tensor, self.ranks[name][root], group=self.groups[name]) for tensor in of]

    def receive(self, name: str, into: list[Tensor], of: list[Tensor], root: int, *_: Any) -> list[Any]:
        """From the rank of the group that ``root`` names."""
        return [dist.irecv(tensor, self.ranks[name][root], group=self.groups[name]) for tensor in into]

    def barrier(self, name: str, *_: Any) -> list[Any]:
        """Nothing but waiting for each other."""
        return [dist.barrier(group=self.groups[name], async_op=True)]


def _copy(into: list[Tensor], of: list[Tensor]) -> None:
    """What works in place starts from what is sent."""
    for target, source in zip(into, of, strict=True):
        if target is not source:
            target.copy_(source)
