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
    "c10d::recv_any_source_": "recv",
    "c10d::barrier": "barrier",
    "c10d::alltoall": "all_to_all",
    "c10d::alltoall_base": "all_to_all",
    "c10d::allgather_coalesced_": "all_gather",
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
    name = str(arguments.get("Collective name", "")).lower()
    return Collective(
        row=row,
        name=name,
        in_elements=_count(arguments.get("In msg nelems")),
        out_elements=_count(arguments.get("Out msg nelems")),
        dtype=dtype_of(str(arguments.get("dtype", ""))),
        group=str(arguments.get("Process Group Name", arguments.get("Process Group ID", ""))),
        group_size=size or len(ranks),
        ranks=ranks,
        in_splits=_splits(arguments.get("In split size")),
        out_splits=_splits(arguments.get("Out split size")),
        sequence=_count(arguments["Seq"]) if "Seq" in arguments else NONE,
        peer=_peer(arguments, name, ranks),
    )


def _peer(arguments: Mapping[str, Any], name: str, ranks: tuple[int, ...]) -> int:
    """The other rank of a message, among all ranks; before it had a name of its own, ``Rank`` is its place.

    ``saveNcclMeta`` of PyTorch's torch/csrc/profiler/util.cpp: the record of a send or a receive has the
    peer's place in the group where that of a collective has the rank's own or the root's.
    """
    if name not in ("send", "recv"):
        return NONE
    peer = arguments.get("Dst Rank" if name == "send" else "Src Rank")
    if peer is not None:
        return _count(peer)
    place = _count(arguments.get("Rank")) if "Rank" in arguments else NONE
    return ranks[place] if 0 <= place < len(ranks) else NONE


def with_only_group(
    collectives: Iterable[Collective], groups: tuple[ProcessGroup, ...]
) -> tuple[Collective, ...]:
    """Collectives that do not say their group are in the only one there is; with several, nobody can say.

    Where its sizes tell how many ranks it is between (an all-gather's parts, an all-to-all's splits), only
    the groups of that size are asked. The other ranks of their messages, counted within the group, become
    those among all ranks.
    """
    collectives = tuple(collectives)
    if not groups:
        return collectives
    return tuple(
        collective if collective.group or collective.ranks else _in_group(collective, groups)
        for collective in collectives
    )


def _in_group(collective: Collective, groups: tuple[ProcessGroup, ...]) -> Collective:
    fitting = [group for group in groups if collective.group_size in (0, group.size)]
    if len(fitting) != 1:
        return replace(collective, peer=NONE)
    group = fitting[0]
    is_member = 0 <= collective.peer < group.size
    peer = group.ranks[collective.peer] if is_member else NONE
    return replace(collective, group=group.name, group_size=group.size, ranks=group.ranks, peer=peer)


def with_only_peer(collective: Collective, rank: int, world_size: int) -> Collective:
    """A message whose other rank was not recorded is with the only other one of its group, or at all."""
    if not collective.is_message or collective.peer != NONE:
        return collective
    others = [other for other in collective.ranks or range(min(world_size, 3)) if other != rank]
    return replace(collective, peer=others[0]) if len(others) == 1 else collective


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
