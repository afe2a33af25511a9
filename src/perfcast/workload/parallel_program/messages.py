"""Objects that ranks tell each other while a program sets itself up, and what a virtual rank answers.

Stages of ``torch.distributed.pipelining`` tell their neighbours the shapes that they will send. A virtual
rank is alone, so what it sends is kept; where it would receive what has not been sent yet, the capture is
given up, the sender is captured first, and this rank again (see ``capture_with_messages``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from torch import distributed
from torch.distributed import distributed_c10d

from perfcast.errors import CaptureError, PerfcastError
from perfcast.torch_internals.distributed import default_group, stages_vote_alone

Result = TypeVar("Result")
Messages = dict[tuple[int, int], list[Any]]


class MessageMissingError(PerfcastError):
    """A rank waits for an object that its sender has not sent: the sender is to be captured first."""

    def __init__(self, source: int, destination: int, position: int) -> None:
        super().__init__(f"rank {destination} waits for object {position} of rank {source}")
        self.source, self.destination, self.position = source, destination, position


def capture_with_messages(
    rank: int, messages: Messages, capture: Callable[[int, Messages], Result], known: dict[int, Result]
) -> Result:
    """Capture a rank, and before it those whose messages it needs.

    Whoever is waited for is captured as far as it comes, which may let others come further, round by round.

    Args:
        messages: What ranks have sent each other; grows.
        known: Captures by rank; grows.

    Raises:
        CaptureError: Ranks that wait for each other.
    """
    waiting = [rank]
    while rank not in known:
        before = (len(waiting), len(known), sum(map(len, messages.values())))
        for one in reversed(waiting.copy()):
            try:
                known[one] = capture(one, messages)
                waiting.remove(one)
            except MessageMissingError as error:
                missing = error
                if error.source not in (*waiting, *known):
                    waiting.append(error.source)
        if (len(waiting), len(known), sum(map(len, messages.values()))) == before:
            raise CaptureError(
                f"{missing}, which sends none when it is captured by itself: ranks that decide by what they "
                "hear from each other cannot be captured one at a time"
            ) from missing
    return known[rank]


@contextmanager
def object_collectives(messages: Messages) -> Iterator[None]:
    """Objects are exchanged through ``messages`` inside; gathered and broadcast ones are this rank's own."""
    collectives = _ObjectCollectives(messages)
    with ExitStack() as stack:
        for module in (distributed, distributed_c10d):
            for name in (
                "send_object_list",
                "recv_object_list",
                "all_gather_object",
                "broadcast_object_list",
            ):
                stack.enter_context(patch.object(module, name, getattr(collectives, name)))
        stack.enter_context(stages_vote_alone())
        yield


class _ObjectCollectives:
    """``torch.distributed``'s calls for objects, on a rank that is alone."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._sent, self._received = defaultdict[int, int](int), defaultdict[int, int](int)

    def send_object_list(
        self, object_list: list[Any], dst: int | None = None, group: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        own, peer = distributed.get_rank(), _global_rank(dst, kwargs.get("group_dst"), group)
        kept = self._messages.setdefault((own, peer), [])
        kept[self._sent[peer] :] = [list(object_list)]
        self._sent[peer] += 1

    def recv_object_list(
        self, object_list: list[Any], src: int | None = None, group: Any = None, *args: Any, **kwargs: Any
    ) -> int:
        own, peer = distributed.get_rank(), _global_rank(src, kwargs.get("group_src"), group)
        kept, position = self._messages.get((peer, own), []), self._received[peer]
        if position >= len(kept):
            raise MessageMissingError(peer, own, position)
        object_list[:] = kept[position]
        self._received[peer] += 1
        return peer

    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        object_list[:] = [obj] * len(object_list)

    def broadcast_object_list(self, object_list: list[Any], *args: Any, **kwargs: Any) -> None:
        pass


def _global_rank(rank: int | None, group_rank: int | None, group: Any) -> int:
    if rank is not None:
        return rank
    if group_rank is None:
        raise CaptureError("an object is received from any rank; a capture needs to know from which")
    return distributed.get_global_rank(group or default_group(), group_rank)
