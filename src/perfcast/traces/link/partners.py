"""Events of two recordings of one program: which are the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.traces.events import Events
from perfcast.traces.link.align import align


def partners(events: Events, rows: Integers, other: Events, other_rows: Integers) -> Mapping[int, int]:
    """Row → row of another recording of the same program: thread by thread, in the order of starts."""
    found: dict[int, int] = {}
    for ours, theirs in zip(_by_thread(events, rows), _by_thread(other, other_rows), strict=False):
        pairs = align([events.name(row) for row in ours], [other.name(row) for row in theirs])
        found.update((ours[a], theirs[b]) for a, b in pairs)
    return found


def rows_by_thread(events: Events, rows: Integers) -> dict[int, list[int]]:
    """The rows of each thread in the order of starts."""
    ordered = rows[np.lexsort((events.orders[rows], events.start_seconds[rows]))]
    threads = events.threads[ordered]
    return {thread: ordered[threads == thread].tolist() for thread in np.unique(threads).tolist()}


def _by_thread(events: Events, rows: Integers) -> list[list[int]]:
    """The rows of each thread, the thread with the most first."""
    return sorted(rows_by_thread(events, rows).values(), key=len, reverse=True)
