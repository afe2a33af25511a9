"""The same collective on all ranks: by its group and its place among what the group does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.traces.events import NONE


@dataclass(frozen=True, slots=True)
class CollectiveMember:
    """One rank's part of a collective, as far as it says with which others' it belongs together.

    Attributes:
        key: What all members' parts have in common, with other collectives of the same ranks.
        sequence: Its number among those of the key, where the recording has it, else ``NONE``.
        size: Number of members; 0 where the recording does not say: all ranks.
    """

    key: tuple[str, ...]
    sequence: int = NONE
    size: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One collective: a name for it, and (index of the rank, place among its parts) of each member."""

    name: str
    members: tuple[tuple[int, int], ...]


def match(ranks: Sequence[Sequence[CollectiveMember | None]]) -> tuple[Instance, ...]:
    """Collectives of which all members among the recorded ranks were recorded.

    Args:
        ranks: For each rank its parts, in the order in which they were asked for; None is no collective.
    """
    members: dict[str, list[tuple[int, int]]] = {}
    sizes: dict[str, int] = {}
    for rank, parts in enumerate(ranks):
        places: Counter[tuple[str, ...]] = Counter()
        for place, part in enumerate(parts):
            if part is None:
                continue
            number = part.sequence if part.sequence not in (NONE, 0) else places[part.key]
            places[part.key] += 1
            name = " ".join((*part.key, str(number)))
            members.setdefault(name, []).append((rank, place))
            sizes.setdefault(name, part.size or len(ranks))
    return tuple(
        Instance(name, tuple(found))
        for name, found in members.items()
        if len(found) == min(sizes[name], len(ranks))
    )
