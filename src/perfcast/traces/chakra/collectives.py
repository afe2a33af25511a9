"""Collectives between ranks as Chakra and its simulators name them: kinds, sizes, process groups."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfcast.files.plain import json_or_none
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraGroup, CollectiveType, NodeType

#: The group of all ranks.
WORLD = "0"
#: By the names of ``core.collective.COLLECTIVES``.
COLLECTIVE_TYPES: Mapping[str, CollectiveType] = {
    "all_reduce": CollectiveType.ALL_REDUCE,
    "reduce": CollectiveType.REDUCE,
    "all_gather": CollectiveType.ALL_GATHER,
    "gather_to_root": CollectiveType.GATHER,
    "scatter_from_root": CollectiveType.SCATTER,
    "broadcast": CollectiveType.BROADCAST,
    "all_to_all": CollectiveType.ALL_TO_ALL,
    "dispatch": CollectiveType.ALL_TO_ALL,
    "reduce_scatter": CollectiveType.REDUCE_SCATTER,
    "barrier": CollectiveType.BARRIER,
}


@dataclass(frozen=True, slots=True)
class CommunicationNode:
    """What one rank's part of a collective says.

    Attributes:
        name: As in ``core.collective.COLLECTIVES``.
        input_bytes: What this rank puts in: the full buffer of an all-reduce, reduce-scatter or all-to-all,
            this rank's part of an all-gather; 0 where it was not recorded.
        group: Decimal name of the process group.
        peer: The other rank of a send or receive; -1 where it was not recorded.
        tag: Tells messages between two ranks apart.
    """

    name: str
    input_bytes: int
    group: str = WORLD
    peer: int = -1
    tag: int = 0


def node_type(collective: CommunicationNode) -> NodeType:
    """A collective, or one end of a message."""
    return {"send": NodeType.SEND, "receive": NodeType.RECEIVE}.get(collective.name, NodeType.COLLECTIVE)


def communication_attributes(collective: CommunicationNode, rank: int) -> tuple[ChakraAttribute, ...]:
    """Attributes in the types that simulators read: sizes int64, ranks int32, the group as text."""
    size = ChakraAttribute("comm_size", "int64", collective.input_bytes)
    if collective.name in ("send", "receive"):
        ends = (rank, collective.peer) if collective.name == "send" else (collective.peer, rank)
        numbers = zip(("comm_src", "comm_dst", "comm_tag"), (*ends, collective.tag), strict=True)
        known = [(name, number) for name, number in numbers if number >= 0]
        return (size, *(ChakraAttribute(name, "int32", number) for name, number in known))
    kind = COLLECTIVE_TYPES[collective.name]
    return (
        ChakraAttribute("comm_type", "int64", int(kind)),
        size,
        ChakraAttribute("pg_name", "string", collective.group),
    )


def groups_text(groups: Sequence[ChakraGroup]) -> str:
    """The values of a node of process groups: a list with one text in JSON, in Python's quotes."""
    listed = [
        {
            "pg_name": group.name,
            "pg_desc": "",
            "backend_config": "",
            "ranks": list(group.ranks),
            "group_size": len(group.ranks),
            "group_count": len(groups),
        }
        for group in groups
    ]
    return f"['{json.dumps(listed)}']"


def number_groups(
    members: Iterable[tuple[str, tuple[int, ...]]], world: Sequence[int]
) -> tuple[dict[tuple[int, ...], str], tuple[ChakraGroup, ...]]:
    """Decimal names for groups by their members.

    The world is '0'. Names that are decimal already stay, where no two groups share one; else all groups are
    numbered by their members.

    Args:
        members: Name and ranks of every group that a collective names, on any rank.
    """
    names = {ranks: name for name, ranks in members if ranks and len(ranks) != len(world)}
    taken = set(names.values())
    keep = len(taken) == len(names) and all(name.isdecimal() and 0 < int(name) < 2**31 for name in taken)
    ordered = sorted(names)
    numbers = {ranks: names[ranks] if keep else str(place + 1) for place, ranks in enumerate(ordered)}
    return numbers, tuple(ChakraGroup(numbers[ranks], ranks) for ranks in ordered)


def parse_groups(text: str) -> tuple[ChakraGroup, ...]:
    """The inverse of ``groups_text``; nothing where a text is none of that kind."""
    listed = json_or_none(text[2:-2])
    entries = listed if isinstance(listed, list) else []
    return tuple(
        ChakraGroup(str(entry.get("pg_name", "")), tuple(r for r in entry["ranks"] if type(r) is int))
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("ranks"), list)
    )
