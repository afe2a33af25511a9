"""What belongs to what within one trace: nested calls, and the operator behind every kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.traces.events import CALL_CATEGORIES, DEVICE_CATEGORIES, NONE, Category, Events
from perfcast.units import MICRO

#: Starts and durations are rounded each for itself: a child may end this much after its parent.
TOLERANCE_SECONDS = MICRO
#: What nests on a host thread, Python's frames aside.
NESTED_CATEGORIES = (Category.OPERATOR, Category.ANNOTATION, *CALL_CATEGORIES)


@dataclass(frozen=True)
class Nesting:
    """``parents[row]`` is the innermost event around a row on its thread; ``NONE`` at the top, and off it.

    ``depths[row]`` counts the events around it. ``overlaps`` are rows that neither lie in an earlier
    event of their thread nor after it: threads do not do that, so these were recorded wrongly.
    """

    parents: Integers
    depths: Integers
    overlaps: tuple[int, ...]


@dataclass(frozen=True)
class KernelLinks:
    """For each device row (``rows``): the call that launched it and the innermost operator around that.

    ``NONE`` where there is none in the recording. ``is_earlier`` marks work that was launched before the
    recording began: its correlation is lower than the first recorded call's.
    """

    rows: Integers
    calls: Integers
    operators: Integers
    is_earlier: Flags

    @property
    def operator_rate(self) -> float:
        """Share of the work launched while recording whose operator is known; 1 where there is none."""
        is_known = self.operators[~self.is_earlier] != NONE
        return float(is_known.mean()) if len(is_known) else 1.0

    @cached_property
    def call_of(self) -> Mapping[int, int]:
        """The call of each device row."""
        return dict(zip(self.rows.tolist(), self.calls.tolist(), strict=True))

    @cached_property
    def operator_of(self) -> Mapping[int, int]:
        """The operator of each device row."""
        return dict(zip(self.rows.tolist(), self.operators.tolist(), strict=True))


def nest(events: Events, categories: tuple[Category, ...] = NESTED_CATEGORIES) -> Nesting:
    """Find the event around each event of these kinds, thread by thread, by containment in time.

    An event lies in the last one begun before it that has not ended; ends may be late by the tolerance.
    """
    chosen = np.flatnonzero(events.is_in(*categories) & (events.threads != NONE))
    parents = np.full(len(events), NONE, dtype=np.int64)
    depths = np.zeros(len(events), dtype=np.int64)
    overlaps: list[int] = []
    threads = events.threads[chosen]
    for thread in np.unique(threads).tolist():
        _nest_thread(events, chosen[threads == thread], parents, depths, overlaps)
    return Nesting(parents, depths, tuple(sorted(overlaps)))


def _nest_thread(
    events: Events, rows: Integers, parents: Integers, depths: Integers, overlaps: list[int]
) -> None:
    """Fill in the parents and depths of one thread's rows, which stand in order of start."""
    open_rows: list[int] = []
    open_ends: list[float] = []
    found = []
    for row, start, end in zip(
        rows.tolist(), events.start_seconds[rows].tolist(), events.end_seconds[rows].tolist(), strict=True
    ):
        while open_ends and (open_ends[-1] <= start or end > open_ends[-1] + TOLERANCE_SECONDS):
            if start < open_ends[-1] - TOLERANCE_SECONDS:
                overlaps.append(row)
            open_rows.pop()
            open_ends.pop()
        found.append((row, open_rows[-1] if open_rows else NONE, len(open_rows)))
        open_rows.append(row)
        open_ends.append(min(end, open_ends[-1]) if open_ends else end)
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    parents[table[:, 0]], depths[table[:, 0]] = table[:, 1], table[:, 2]


def innermost(parents: Integers, rows: Integers, is_wanted: Flags) -> Integers:
    """For each row, itself or the innermost event around it that is wanted; ``NONE`` where there is none.

    Args:
        parents: The event around each row of the trace, ``Nesting.parents``.
        rows: Rows of the trace, or ``NONE``.
        is_wanted: Of each row of the trace.
    """
    found = rows
    while True:
        climbs = (found != NONE) & ~is_wanted[found]
        if not climbs.any():
            return found
        found = np.where(climbs, parents[found], found)


def outermost_operators(events: Events) -> Integers:
    """Operators on host threads that lie in no other operator, in order."""
    rows = events.rows_in(Category.OPERATOR)
    parents = nest(events, (Category.OPERATOR,)).parents
    found: Integers = rows[(parents[rows] == NONE) & (events.threads[rows] != NONE)]
    return found


def own_seconds(seconds: Floats, parents: Integers, is_counted: Flags) -> Floats:
    """For each row of the trace that counts, its seconds without those of counted rows inside it; else 0."""
    rows = np.flatnonzero(is_counted)
    around = innermost(parents, parents[rows], is_counted)
    own = np.where(is_counted, seconds, 0.0)
    np.subtract.at(own, around[around != NONE], seconds[rows[around != NONE]])
    return np.maximum(own, 0.0)


def link_kernels(events: Events, nesting: Nesting | None = None) -> KernelLinks:
    """Link device work to its call by correlation, and the call to its operator by containment.

    External ids are not used: before 2024 a kernel's is its correlation, later the operator's.
    """
    nesting = nest(events) if nesting is None else nesting
    rows = events.rows_in(*DEVICE_CATEGORIES)
    calls = calls_of(events, rows)
    is_linked = calls != NONE
    operators = innermost(nesting.parents, calls, events.categories == Category.OPERATOR)
    correlations = events.correlations[events.rows_in(*CALL_CATEGORIES)]
    first = correlations[correlations > 0].min(initial=np.iinfo(np.int64).max)
    is_earlier = ~is_linked & (events.correlations[rows] < first) & (events.correlations[rows] != NONE)
    return KernelLinks(rows, calls, operators, is_earlier)


def calls_of(events: Events, rows: Integers) -> Integers:
    """For each row the host call with the same correlation; ``NONE`` where there is none.

    Where two calls share one (a runtime call and the driver call inside it), the outer, earlier one.
    """
    calls = events.rows_in(*CALL_CATEGORIES)
    correlations = events.correlations[calls]
    calls, correlations = calls[correlations != NONE], correlations[correlations != NONE]
    known, first = np.unique(correlations, return_index=True)
    return _looked_up(events.correlations[rows], known, calls[first])


def _looked_up(keys: Integers, known: Integers, values: Integers) -> Integers:
    """``values`` at the place of each key in the sorted ``known``; ``NONE`` where it is not."""
    if not len(known):
        return np.full(len(keys), NONE, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    is_known: Flags = known[places] == keys
    return np.where(is_known, values[places], NONE)
