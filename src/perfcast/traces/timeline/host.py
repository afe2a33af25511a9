"""What a rank's host did: outermost operators and calls, in chains of threads that take turns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.traces.events import CALL_CATEGORIES, Category, Events, Trace
from perfcast.traces.timeline.calls import CallKind, call_kind, is_operator

#: Threads that are busy at the same time for less than this share of the less busy one take turns.
TURNS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Unit:
    """An outermost operator, or a call that no operator holds, with the calls inside that matter."""

    row: int
    name: str
    start: float
    end: float
    calls: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Threads that take turns, as one sequence of units by start."""

    name: str
    units: tuple[Unit, ...]


def find_chains(trace: Trace, start: float, end: float) -> tuple[Chain, ...]:
    """Chains of the units that start within a window; the one with the most units comes first.

    A backward pass runs on its own thread while the thread that asked for it waits; both are one chain.
    """
    events = trace.events
    by_thread = {t: u for t, u in _units_by_thread(events, start, end).items() if u}
    threads = sorted(by_thread, key=lambda t: (-len(by_thread[t]), t))
    merged: list[tuple[str, list[Unit]]] = []
    for thread in threads:
        units = by_thread[thread]
        home = next((m for m in merged if _take_turns(m[1], units)), None)
        if home is None:
            number = events.threads_table[thread]
            merged.append((number.name or f"thread {number.number}", units))
        else:
            home[1].extend(units)
            home[1].sort(key=lambda u: (u.start, u.row))
    return tuple(Chain(name, tuple(units)) for name, units in merged)


def _units_by_thread(events: Events, start: float, end: float) -> dict[int, list[Unit]]:
    is_unit_name = np.array([is_operator(name) for name in events.names], dtype=np.bool_)
    kinds = [call_kind(name) for name in events.names]
    matters = np.array([kind is not CallKind.OTHER for kind in kinds], dtype=np.bool_)
    is_call = events.is_in(*CALL_CATEGORIES)
    is_op = events.is_in(Category.OPERATOR) & is_unit_name[events.name_codes]
    within = (events.start_seconds >= start) & (events.start_seconds < end) & (events.threads >= 0)
    found: dict[int, list[Unit]] = {}
    for thread in np.unique(events.threads[within & (is_op | is_call)]).tolist():
        rows = np.flatnonzero(within & (is_op | is_call) & (events.threads == thread))
        is_outer = _is_outermost(events.start_seconds[rows], events.end_seconds[rows])
        found[thread] = _units(events, rows, is_outer, is_call & matters[events.name_codes])
    return found


def _is_outermost(starts: Floats, ends: Floats) -> Flags:
    """Which of some intervals, sorted by start, begin when all before them have ended (bool, [intervals])."""
    if not len(starts):
        return np.zeros(0, dtype=np.bool_)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(ends)[:-1]])
    return np.asarray(starts >= before)


def _units(events: Events, rows: Integers, is_outer: Flags, is_mattering_call: Flags) -> list[Unit]:
    heads = np.flatnonzero(is_outer)
    units = []
    for low, high in pairwise([*heads.tolist(), len(rows)]):
        inside = rows[low:high]
        row = int(inside[0])
        calls = tuple(inside[is_mattering_call[inside]].tolist())
        if is_mattering_call[row] or events.categories[row] == Category.OPERATOR:
            end = float(events.end_seconds[inside].max())
            units.append(Unit(row, events.name(row), float(events.start_seconds[row]), end, calls))
    return units


def _take_turns(chain: Sequence[Unit], others: Sequence[Unit]) -> bool:
    """Whether two sequences of units hardly ever run at the same time."""
    starts = [u.start for u in chain]
    busy = sum(u.end - u.start for u in others)
    shared = 0.0
    for unit in others:
        at = max(bisect_right(starts, unit.start) - 1, 0)
        while at < len(chain) and chain[at].start < unit.end:
            shared += max(0.0, min(chain[at].end, unit.end) - max(chain[at].start, unit.start))
            at += 1
    return shared <= TURNS_SHARE * min(busy, sum(u.end - u.start for u in chain))
