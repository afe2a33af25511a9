"""Shapes for a timeline that was recorded without them, from another one of the same program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from perfcast.core.arrays import Integers
from perfcast.traces.collectives.groups import with_only_group
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES
from perfcast.traces.kineto.collectives import asked_collectives
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.link.partners import partners

#: Ends of names of what a recording writes: the timeline of all steps, and that of one step with shapes.
_TIMELINE, _LINKED = ".kineto.json.gz", ".linked.json.gz"


def read_ranks_with_inputs(
    paths: Sequence[str | Path], *, max_bytes: int = DEFAULT_MAX_BYTES, is_truncated_allowed: bool = False
) -> tuple[Trace, ...]:
    """``read_ranks``, with the shapes of ``NAME.linked.json.gz`` for a ``NAME.kineto.json.gz`` without any.

    A trace that got them says so in its ``warnings``.

    Raises:
        TraceError: As ``read_ranks``, of either file.
    """
    traces = read_ranks(paths, max_bytes=max_bytes, is_truncated_allowed=is_truncated_allowed)
    bare = {trace.source for trace in traces if not trace.events.inputs_table}
    beside = [_linked(Path(path)) for path in paths if Path(path).name in bare]
    lent = read_ranks([path for path in beside if path is not None], max_bytes=max_bytes)
    by_rank = {trace.rank: trace for trace in lent}
    return tuple(
        _with_borrowed(trace, by_rank[trace.rank])
        if trace.source in bare and trace.rank in by_rank
        else trace
        for trace in traces
    )


def _linked(path: Path) -> Path | None:
    """The timeline of one step with shapes that stands beside another, where there is one."""
    if not path.name.endswith(_TIMELINE):
        return None
    beside = path.with_name(path.name.removesuffix(_TIMELINE) + _LINKED)
    return beside if beside.is_file() else None


def _with_borrowed(trace: Trace, other: Trace) -> Trace:
    note = f"shapes of arguments are those of one step recorded beside (*{_LINKED})"
    return replace(with_inputs_of(trace, other), warnings=(*trace.warnings, note))


def with_inputs_of(trace: Trace, other: Trace) -> Trace:
    """The trace, its operators with the inputs of the same operators in a step of the other one.

    Each marked step (or the whole, where there are none) is aligned, thread by thread in the order of
    starts, with the other's first step. Operators that have inputs keep them; those without a partner
    get none. Collectives whose size was not recorded (gloo's) get it from these inputs.
    """
    events, lent = trace.events, other.events
    inputs = events.inputs.copy()
    source = next(step_parts(other))
    for part in step_parts(trace):
        for row, partner in partners(events, part, lent, source).items():
            if inputs[row] == NONE and lent.inputs[partner] != NONE:
                inputs[row] = lent.inputs[partner] + len(events.inputs_table)
    table = (*events.inputs_table, *lent.inputs_table)
    filled = replace(events, inputs=inputs, inputs_table=table)
    asked = {one.row: one for one in with_only_group(asked_collectives(filled), trace.process_groups)}
    collectives = (one if one.in_elements else asked.get(one.row, one) for one in trace.collectives)
    return replace(trace, events=filled, collectives=tuple(collectives))


def step_parts(trace: Trace) -> Iterator[Integers]:
    """Rows of operators and marked ranges in each marked step, or all of them."""
    events = trace.events
    rows = events.rows_in(Category.OPERATOR, Category.ANNOTATION)
    rows = rows[events.threads[rows] != NONE]
    starts = events.start_seconds[rows]
    for step in trace.steps:
        yield rows[(starts >= step.start_seconds) & (starts < step.end_seconds)]
    if not trace.steps:
        yield rows
