"""Answers that are kept to be given again: the latest, in no more bytes than are allowed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfcast.server.processes.handle import Reply

#: Of a key and the objects around an answer, in bytes.
_OVERHEAD_BYTES = 1024


@dataclass(slots=True)
class Cache:
    """Replies by their question, the one that was longest not asked for leaving first.

    Attributes:
        most_bytes: Of all together.
        num_bytes: Of those that are kept.
        hits, misses: Questions that were found, and that were not.
    """

    most_bytes: int
    num_bytes: int = 0
    hits: int = 0
    misses: int = 0
    _kept: OrderedDict[str, Reply] = field(default_factory=OrderedDict)

    def find(self, key: str) -> Reply | None:
        """A reply that is kept."""
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return found

    def keep(self, key: str, reply: Reply) -> None:
        """Keep a reply, unless it alone is more than all may be."""
        size = _size(reply)
        if size > self.most_bytes:
            return
        if key in self._kept:
            self.num_bytes -= _size(self._kept.pop(key))
        self._kept[key] = reply
        self.num_bytes += size
        while self.num_bytes > self.most_bytes:
            self.num_bytes -= _size(self._kept.popitem(last=False)[1])


def _size(reply: Reply) -> int:
    return reply.num_bytes + _OVERHEAD_BYTES
