"""Process groups and collectives, as traces name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from perfcast.traces.dtype_words import dtype_of
from perfcast.traces.events import NONE, Collective, ProcessGroup

#: Ranks of one group; larger lists are not machines.
_MAX_RANKS = 1_000_000
#: Names of records that exchange nothing themselves.
BOOKKEEPING = frozenset({"wait", "init", ""})
#: ``c10d::`` operators that exchange, by the name that NCCL's record gives them.
C10D_NAMES = {
    "c10d::allreduce_": "allreduce",
    "c10d::allreduce_coalesced_": "allreduce_coalesced",
    "c10d::allgather_": "all_gather",
    "c10d::_allgather_base_": "_allgather_base",
    "c10d::allgather_into_tensor_coalesced_": "allgather_into_tensor_coalesced",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::_reduce_scatter_base_": "_reduce_scatter_base",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "c10d::alltoall_base_": "all_to_all",
    "c10d::alltoall_": "all_to_all",
    "c10d::broadcast_": "broadcast",
    "c10d::reduce_": "reduce",
    "c10d::gather_": "gather",
    "c10d::scatter_": "scatter",
    "c10d::send": "send",
    "c10d::recv_": "recv",
    "c10d::barrier": "barrier",
}
#: Numbers of groups are smaller, addresses larger.
_LARGEST_NAME = 2**32
_WHOLE_NUMBERS = re.compile(r"-?\d{1,18}")


def numbers_in(value: object) -> tuple[int, ...]:
    """Whole numbers of a list, or of a text such as ``'[0, 1, 2, ...]'``; no ellipsis is filled in."""
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, int))[:_MAX_RANKS]
    return tuple(int(number) for number in _WHOLE_NUMBERS.findall(value)) if isinstance(value, str) else ()


def ranks_in(value: object, size: int) -> tuple[int, ...]:
    """The ranks of a group of ``size``; a list that was cut short is continued by its stride.

    ``'[0, 8, 16, ...]'`` of size 5 is (0, 8, 16, 24, 32). Where the shown ranks have no common stride, or
    are fewer than two of many, nobody can say: an empty tuple. A text may keep the last rank:
    ``'[0, 1, ..., 7]'``.
    """
    ranks = numbers_in(value)
    if not isinstance(value, str) or not _is_cut(value) or len(ranks) >= size:
        return ranks
    shown = ranks if value.rstrip("]) ").endswith(("...", "…")) else ranks[:-1]
    strides = {after - before for before, after in pairwise(shown)}
    if len(strides) != 1 or size > _MAX_RANKS:
        return ()
    stride = strides.pop()
    continued = tuple(shown[0] + stride * index for index in range(size))
    return continued if len(shown) == len(ranks) or continued[-1] == ranks[-1] else ()


def is_address(name: str) -> bool:
    """Whether a group is named by an address (before 1.0.3 of execution traces), another on each rank."""
    return name.isdecimal() and int(name) > _LARGEST_NAME


def collective_of(row: int, arguments: Mapping[str, Any]) -> Collective:
    """The collective that a row's arguments describe (NCCL kernels, ``record_param_comms``)."""
    size = _count(arguments.get("Group size"))
    ranks = ranks_in(arguments.get("Process Group Ranks"), size)
    return Collective(
        row=row,
        name=str(arguments.get("Collective name", "")).lower(),
        in_elements=_count(arguments.get("In msg nelems")),
        out_elements=_count(arguments.get("Out msg nelems")),
        dtype=dtype_of(str(arguments.get("dtype", ""))),
        group=str(arguments.get("Process Group Name", arguments.get("Process Group ID", ""))),
        group_size=size or len(ranks),
        ranks=ranks,
        in_splits=_splits(arguments.get("In split size")),
        out_splits=_splits(arguments.get("Out split size")),
        sequence=_count(arguments["Seq"]) if "Seq" in arguments else NONE,
        peer=_peer(arguments),
    )


def _peer(arguments: Mapping[str, Any]) -> int:
    """The other rank of a message, among all ranks."""
    peer = arguments.get({"send": "Dst Rank", "recv": "Src Rank"}.get(str(arguments["Collective name"]), ""))
    return _count(peer) if peer is not None else NONE


def with_only_group(
    collectives: Iterable[Collective], groups: tuple[ProcessGroup, ...]
) -> tuple[Collective, ...]:
    """Collectives that do not say their group are in the only one there is; with several, nobody can say.

    The other ranks of their messages, counted within the group, become those among all ranks.
    """
    if not groups:
        return tuple(collectives)
    only = groups[0] if len(groups) == 1 else None
    return tuple(
        collective if collective.group or collective.group_size else _in_group(collective, only)
        for collective in collectives
    )


def _in_group(collective: Collective, group: ProcessGroup | None) -> Collective:
    if group is None:
        return replace(collective, peer=NONE)
    is_member = 0 <= collective.peer < group.size
    peer = group.ranks[collective.peer] if is_member else NONE
    return replace(collective, group=group.name, group_size=group.size, ranks=group.ranks, peer=peer)


def peer_and_tag(name: str, numbers: Sequence[int]) -> tuple[int, int]:
    """The other rank and the tag of a ``c10d::send`` or ``recv_``: the first of its whole numbers."""
    if name not in ("c10d::send", "c10d::recv_") or not numbers:
        return NONE, 0
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _splits(value: object) -> tuple[int, ...]:
    """Split sizes; empty where they are even, or cut short and so unknown."""
    return () if isinstance(value, str) and _is_cut(value) else numbers_in(value)


def _is_cut(text: str) -> bool:
    return "..." in text or "…" in text


def _count(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0


def groups_of(configurations: object, collectives: Iterable[Collective]) -> tuple[ProcessGroup, ...]:
    """The groups that the file lists, and those that only its collectives name.

    A listed group without ranks is of all; it is filled in from a collective that knows them.
    """
    groups: dict[str, ProcessGroup] = {}
    for entry in configurations if isinstance(configurations, list) else []:
        if isinstance(entry, dict):
            name = str(entry.get("pg_name", ""))
            size = _count(entry.get("pg_size", entry.get("group_size")))
            groups[name] = ProcessGroup(
                name,
                str(entry.get("pg_desc", "")),
                str(entry.get("backend_config", "")),
                ranks_in(entry.get("ranks"), size) or (tuple(range(size)) if size <= _MAX_RANKS else ()),
            )
    for collective in collectives:
        known = groups.get(collective.group)
        if collective.ranks and (known is None or not known.ranks):
            groups[collective.group] = ProcessGroup(
                collective.group,
                known.description if known else "",
                known.backend if known else "",
                collective.ranks,
            )
    return tuple(groups.values())
