"""Whether the ranks of a replay exchange the same: found out before they wait for each other forever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.replays.communication.groups import GroupKey, collectives_in, group_of
from perfcast.replays.communication.shapes import shape_of
from perfcast.replays.program.program import ReplayProgram
from perfcast.traces.collectives.sizes import canonical_name

_POINT_TO_POINT = ("send", "receive")


@dataclass(frozen=True, slots=True)
class CollectivePart:
    """One rank's part of a collective: elements and splits of what it sends and receives."""

    node_id: int
    name: str
    group: GroupKey
    dtype: str
    sent: tuple[int, ...]
    received: tuple[int, ...]
    sent_splits: tuple[int, ...]
    received_splits: tuple[int, ...]
    root: int


def parts_of(program: ReplayProgram) -> tuple[CollectivePart, ...]:
    """What a rank's program exchanges, in order."""
    parts = []
    for _, call, collective in collectives_in(program):
        shape = shape_of(program, call)
        root = call.arguments[2] if len(call.arguments) > 2 else None
        parts.append(
            CollectivePart(
                call.node_id,
                canonical_name(collective.name),
                group_of(collective, program.groups, program.world_size),
                collective.dtype,
                shape.sent,
                shape.received,
                shape.sent_splits,
                shape.received_splits,
                root if type(root) is int else 0,
            )
        )
    return tuple(parts)


def disagreement(parts: Sequence[Sequence[CollectivePart]]) -> str:
    """The first collective in which ranks do not fit together, in words; '' where all do.

    Args:
        parts: Of every rank, in order of ranks.
    """
    by_group: dict[GroupKey, dict[int, list[CollectivePart]]] = {}
    for rank, mine in enumerate(parts):
        for part in mine:
            by_group.setdefault(part.group, {}).setdefault(rank, []).append(part)
    for group, members in by_group.items():
        for rank in group.ranks:
            members.setdefault(rank, [])
        found = _in_group(group, members)
        if found:
            name = f"group '{group.name}'" if group.name else "the group"
            return f"in {name} of ranks {_shown(group.ranks)}: {found}"
    return ""


def _in_group(group: GroupKey, members: Mapping[int, Sequence[CollectivePart]]) -> str:
    direct = _of_pairs(group, members)
    if direct:
        return direct
    together = {rank: [p for p in mine if p.name not in _POINT_TO_POINT] for rank, mine in members.items()}
    for place in range(max(map(len, together.values()))):
        at_place = {rank: mine[place] for rank, mine in together.items() if place < len(mine)}
        missing = [rank for rank in together if rank not in at_place]
        here, one = next(iter(at_place.items()))
        if missing:
            return f"rank {here} has collective {place} ({one.name}), and rank {missing[0]} has no more"
        for rank, other in at_place.items():
            found = _of_two(group, here, one, rank, other)
            if found:
                return f"collective {place}, {found}"
    return ""


def _of_two(group: GroupKey, here: int, one: CollectivePart, rank: int, other: CollectivePart) -> str:
    """Why two ranks' parts of one collective do not fit; '' where they do."""
    if (one.name, one.dtype) != (other.name, other.dtype):
        return f"is {one.name} of {one.dtype} on rank {here} and {other.name} of {other.dtype} on rank {rank}"
    if one.root != other.root:
        return f"{one.name}: the root is {one.root} on rank {here} and {other.root} on rank {rank}"
    if one.name == "all_to_all":
        return _of_splits(group, here, one, rank, other) or _of_splits(group, rank, other, here, one)
    if one.name in ("all_reduce", "broadcast", "reduce") and one.sent != other.sent:
        return f"{one.name}: rank {here} has {sum(one.sent)} elements and rank {rank} has {sum(other.sent)}"
    return ""


def _of_splits(group: GroupKey, here: int, one: CollectivePart, rank: int, other: CollectivePart) -> str:
    """What one rank sends another is what that one expects."""
    mine, theirs = group.ranks.index(here), group.ranks.index(rank)
    sent = _to(one.sent, one.sent_splits, len(group.ranks), theirs)
    expected = _to(other.received, other.received_splits, len(group.ranks), mine)
    if sent == expected:
        return ""
    return (
        f"all_to_all: rank {here} sends {sent:g} elements to rank {rank}, which expects {expected:g}: "
        "traces of several ranks must be of one run, and one trace for several needs --rebalance"
    )


def _to(elements: tuple[int, ...], splits: tuple[int, ...], size: int, place: int) -> float:
    """Elements of the part for, or of, one rank."""
    if len(elements) == size > 1:
        return elements[place]
    share = splits[place] / max(sum(splits), 1) if len(splits) == size else 1 / size
    return round(sum(elements) * share, 3)


def _of_pairs(group: GroupKey, members: Mapping[int, Sequence[CollectivePart]]) -> str:
    """Every message has its two ends, in the same order."""
    ends: dict[tuple[int, int], list[list[int]]] = {}
    for rank, mine in members.items():
        place = group.ranks.index(rank) if rank in group.ranks else -1
        for part in mine:
            if part.name == "send":
                ends.setdefault((place, part.root), [[], []])[0].append(sum(part.sent))
            elif part.name == "receive":
                ends.setdefault((part.root, place), [[], []])[1].append(sum(part.received))
    for (source, target), (sent, received) in ends.items():
        if sent != received:
            return (
                f"rank {source} of it sends {_messages(sent)} to its rank "
                f"{target}, which expects {_messages(received)}: messages between two ranks go to those that "
                "were recorded, so play as many ranks as the recording has, each with its own trace"
            )
    return ""


def _messages(numbers: Sequence[int]) -> str:
    return f"{len(numbers)} messages of {_shown(numbers)} elements" if numbers else "none"


def _shown(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
