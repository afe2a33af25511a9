"""What one rank asked other ranks for, with what carried it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.collectives.groups import with_only_peer
from perfcast.traces.collectives.kernels import is_communication, word_of_kernel
from perfcast.traces.collectives.undescribed import (
    batches_of_messages,
    carried_out_in_order,
    collectives_by_kernels,
    with_groups_of_streams,
)
from perfcast.traces.events import NONE, Category, Collective, Trace
from perfcast.traces.link.kernels import KernelLinks, innermost, link_kernels, nest
from perfcast.traces.marks import GLOO

_ASKING = (Category.OPERATOR, Category.ANNOTATION)
#: The record of several that were asked for one by one.
_TOGETHER = "coalesced"


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """One collective of one rank.

    ``host_row`` is the operator that asked for it (``NONE`` where only its kernel was recorded).
    ``work_rows`` are where it ran: kernels, or gloo's ranges on its own threads.
    """

    collective: Collective
    host_row: int
    work_rows: tuple[int, ...]


def recorded_collectives(
    trace: Trace, links: KernelLinks | None = None, parents: Integers | None = None
) -> tuple[RecordedCollective, ...]:
    """The rank's collectives in the order in which they were asked for.

    A kernel that nothing describes is told by its name, by the operator around its launch whose name is that
    of a collective, and by the range above it on its device.

    Args:
        links, parents: Of the trace, where they are known.
    """
    events = trace.events
    parents = nest(events).parents if parents is None else parents
    links = link_kernels(events) if links is None else links
    asked = [c for c in trace.collectives if events.categories[c.row] in _ASKING and c.name != _TOGETHER]
    work: dict[int, list[int]] = {collective.row: [] for collective in asked}
    is_asked = np.zeros(len(events), dtype=bool)
    is_asked[list(work)] = True
    loose: list[RecordedCollective] = []
    undescribed: list[tuple[int, int]] = []
    requests = innermost(parents, links.calls, is_asked)
    for row, call, request in zip(links.rows.tolist(), links.calls.tolist(), requests.tolist(), strict=True):
        own, is_one = trace.collective_by_row.get(row), is_communication(events.name(row))
        is_described = own is not None and own.name != _TOGETHER
        if request != NONE and (is_described or is_one):
            work[request].append(row)
        elif is_described:
            loose.append(RecordedCollective(trace.collective_by_row[row], NONE, (row,)))
        elif is_one:
            undescribed.append((row, call))
    ranges = _gloo_ranges(trace, asked)
    workless = [c for c in asked if not work[c.row] and c.row not in ranges and not _is_gloo(trace, c)]
    unlinked = [row for row, call in undescribed if call == NONE]
    matched = dict(carried_out_in_order(trace, unlinked, workless))
    batches = batches_of_messages(trace, undescribed, [c for c in workless if c not in matched.values()])
    undescribed = [(row, call) for row, call in undescribed if row not in matched and row not in batches]
    for row, own_collectives in ({row: (one,) for row, one in matched.items()} | batches).items():
        for collective in own_collectives:
            work[collective.row].append(row)
    found = [
        RecordedCollective(c, NONE, (c.row,))
        if _is_gloo(trace, c)
        else RecordedCollective(c, c.row, tuple(work[c.row]) or ranges.get(c.row, ()))
        for c in asked
    ]
    known = (one.collective for one in (*found, *loose))
    named = collectives_by_kernels(trace, undescribed, parents, known)
    found += loose
    found += [RecordedCollective(one, operator, (one.row,)) for one, operator in named]
    grouped = with_groups_of_streams(trace, [(one.collective, one.work_rows) for one in found])
    found = [
        replace(one, collective=with_only_peer(whole, trace.rank, trace.world_size))
        for one, whole in zip(found, grouped, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: one.host_row if one.host_row != NONE else one.work_rows[0]))


def _is_gloo(trace: Trace, collective: Collective) -> bool:
    return trace.events.name(collective.row).startswith(GLOO)


def _gloo_ranges(trace: Trace, asked: Sequence[Collective]) -> dict[int, tuple[int, ...]]:
    """Row of the operator → gloo's range: collectives of one kind run in the order they are asked for.

    Gloo makes a reduce-scatter an all-reduce (PyTorch's ``ProcessGroupGloo::_reduce_scatter_base``).
    """
    events = trace.events
    codes = [code for code, name in enumerate(events.names) if name.startswith(GLOO)]
    waiting: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isin(events.name_codes, codes)).tolist():
        waiting.setdefault(_kind(events.name(row).removeprefix(GLOO)), []).append(row)
    found: dict[int, tuple[int, ...]] = {}
    has_scatters = "reduce_scatter" in waiting
    for collective in asked:
        kind = _kind(collective.name)
        made = "all_reduce" if kind == "reduce_scatter" and not has_scatters else kind
        rows = waiting.get(made, [])
        later = next((row for row in rows if row > collective.row), None)
        if later is not None:
            rows.remove(later)
            found[collective.row] = (later,)
    return found


def _kind(name: str) -> str:
    """``_allgather_base`` and ``all_gather`` are of one kind."""
    return word_of_kernel(name) or name.replace("_", "").lower()
