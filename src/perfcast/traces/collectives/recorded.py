"""Collectives of one rank with what carried them out, and the same collective on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.errors import TraceError
from perfcast.traces.events import NONE, Category, Collective, Trace
from perfcast.traces.link.kernels import KernelLinks, innermost, link_kernels, nest
from perfcast.traces.marks import GLOO


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """One collective of one rank.

    ``host_row`` is the operator that asked for it (``NONE`` where only its kernel was recorded).
    ``work_rows`` are where it ran: kernels, or gloo's ranges on its own threads.
    """

    collective: Collective
    host_row: int
    work_rows: tuple[int, ...]


@dataclass(frozen=True)
class CollectiveInstance:
    """The same collective on the ranks that were recorded; ``members`` gives each rank's part."""

    group: str
    sequence: int
    name: str
    members: Mapping[int, RecordedCollective]
    missing_ranks: tuple[int, ...] = ()


def recorded_collectives(trace: Trace, links: KernelLinks | None = None) -> tuple[RecordedCollective, ...]:
    """The rank's collectives in the order in which they were asked for."""
    events = trace.events
    nesting = nest(events)
    links = link_kernels(events, nesting) if links is None else links
    asked = [c for c in trace.collectives if events.categories[c.row] == Category.OPERATOR]
    work: dict[int, list[int]] = {collective.row: [] for collective in asked}
    is_asked = np.zeros(len(events), dtype=bool)
    is_asked[list(work)] = True
    loose = []
    operators = innermost(nesting.parents, links.operators, is_asked)
    for row, operator in zip(links.rows.tolist(), operators.tolist(), strict=True):
        if operator != NONE and _is_communication_kernel(trace, row):
            work[operator].append(row)
        elif operator == NONE and row in trace.collective_by_row:
            loose.append(RecordedCollective(trace.collective_by_row[row], NONE, (row,)))
    ranges = _gloo_ranges(trace, asked)
    found = [RecordedCollective(c, c.row, tuple(work[c.row]) or ranges.get(c.row, ())) for c in asked]
    return tuple(
        sorted(found + loose, key=lambda one: one.host_row if one.host_row != NONE else one.work_rows[0])
    )


def _is_communication_kernel(trace: Trace, row: int) -> bool:
    name = trace.events.name(row).lower()
    return row in trace.collective_by_row or "nccl" in name or "oneshot" in name or "symm_mem" in name


def _gloo_ranges(trace: Trace, asked: Sequence[Collective]) -> dict[int, tuple[int, ...]]:
    """Row of the operator → gloo's range: collectives of one name run in the order they are asked for."""
    events = trace.events
    codes = [code for code, name in enumerate(events.names) if name.startswith(GLOO)]
    waiting: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isin(events.name_codes, codes)).tolist():
        waiting.setdefault(_plain(events.name(row).removeprefix(GLOO)), []).append(row)
    found: dict[int, tuple[int, ...]] = {}
    for collective in asked:
        rows = waiting.get(_plain(collective.name), [])
        later = next((row for row in rows if row > collective.row), None)
        if later is not None:
            rows.remove(later)
            found[collective.row] = (later,)
    return found


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def match_collectives(traces: Iterable[Trace]) -> tuple[CollectiveInstance, ...]:
    """Collectives of several ranks, matched by group and place in it (or its number, where the file has it).

    Groups are told apart by name and members; a rank's collectives in groups that do not name their members
    are matched with all ranks' of that name. Instances that not all recorded members have come with the
    ranks that lack them.

    Raises:
        TraceError: Matched collectives of different kinds: the ranks were not recorded at the same time.
    """
    traces = tuple(traces)
    recorded = tuple(trace.rank for trace in traces)
    found: dict[tuple[str, tuple[int, ...], int], dict[int, RecordedCollective]] = {}
    for trace in traces:
        counts: dict[tuple[str, tuple[int, ...]], int] = {}
        for part in recorded_collectives(trace):
            collective = part.collective
            key = (_group_key(collective), collective.ranks)
            place = counts.get(key, 0)
            counts[key] = place + 1
            number = collective.sequence if collective.sequence != NONE else place
            found.setdefault((*key, number), {})[trace.rank] = part
    return tuple(
        _instance(group, number, members, [rank for rank in ranks or recorded if rank in recorded])
        for (group, ranks, number), members in found.items()
    )


def _group_key(collective: Collective) -> str:
    """Groups named by an address (before 1.0.3) have another name on each rank."""
    return "" if collective.group.isdecimal() and int(collective.group) > 2**32 else collective.group


def _instance(
    group: str, number: int, members: Mapping[int, RecordedCollective], expected: Sequence[int]
) -> CollectiveInstance:
    names = {_plain(part.collective.name) for part in members.values()}
    if len(names) > 1:
        raise TraceError(
            f"collective {number} of group '{group}' is {' and '.join(sorted(names))} on different ranks: "
            "the ranks were not recorded at the same time"
        )
    first = next(iter(members.values()))
    missing = tuple(rank for rank in expected if rank not in members)
    return CollectiveInstance(group, number, first.collective.name, dict(members), missing)
