"""Shapes for a timeline that was recorded without them, from another one of the same program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from perfcast.traces.align import align
from perfcast.traces.events import NONE, Category, Events, Numbers, Trace
from perfcast.traces.kineto_collectives import asked_collectives
from perfcast.traces.process_groups import with_only_group


def with_inputs_of(trace: Trace, other: Trace) -> Trace:
    """The trace, its operators with the inputs of the same operators in a step of the other one.

    Each marked step (or the whole, where there are none) is aligned, thread by thread in the order of
    starts, with the other's first step. Operators that have inputs keep them; those without a partner
    get none. Exchanges whose size nothing told (gloo's) get it from these inputs.
    """
    events, lent = trace.events, other.events
    inputs = events.inputs.copy()
    source = next(_parts(other))
    for part in _parts(trace):
        for ours, theirs in zip(_threads(events, part), _threads(lent, source), strict=False):
            codes: dict[str, int] = {}
            first = [codes.setdefault(events.name(row), len(codes)) for row in ours]
            second = [codes.setdefault(lent.name(row), len(codes)) for row in theirs]
            for a, b in align(first, second):
                if inputs[ours[a]] == NONE and lent.inputs[theirs[b]] != NONE:
                    inputs[ours[a]] = lent.inputs[theirs[b]] + len(events.inputs_table)
    table = (*events.inputs_table, *lent.inputs_table)
    told = replace(events, inputs=inputs, inputs_table=table)
    asked = {one.row: one for one in with_only_group(asked_collectives(told), trace.process_groups)}
    collectives = (one if one.in_elements else asked.get(one.row, one) for one in trace.collectives)
    return replace(trace, events=told, collectives=tuple(collectives))


def _parts(trace: Trace) -> Iterator[Numbers]:
    """Rows of operators and marked ranges in each marked step, or all of them."""
    events = trace.events
    rows = events.rows_in(Category.OPERATOR, Category.ANNOTATION)
    rows = rows[events.threads[rows] != NONE]
    starts = events.start_seconds[rows]
    for step in trace.steps:
        yield rows[(starts >= step.start_seconds) & (starts < step.end_seconds)]
    if not trace.steps:
        yield rows


def _threads(events: Events, rows: Numbers) -> list[list[int]]:
    """The rows of each thread in the order of starts, the thread with the most first."""
    ordered = rows[np.lexsort((events.orders[rows], events.start_seconds[rows]))]
    threads = events.threads[ordered]
    found = [ordered[threads == thread].tolist() for thread in np.unique(threads).tolist()]
    return sorted(found, key=len, reverse=True)
