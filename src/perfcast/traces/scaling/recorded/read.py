"""Where a recording's calls come from: the execution trace beside a timeline, or the timeline alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcast.core.arrays import Integers
from perfcast.errors import TraceError
from perfcast.traces.events import NONE, Trace
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.files.archive import DEFAULT_MAX_BYTES
from perfcast.traces.kineto.borrowed_inputs import step_parts
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.link.partners import partners
from perfcast.traces.link.traces import link
from perfcast.traces.scaling.recorded.calls import ScalingCall
from perfcast.traces.scaling.recorded.nodes import calls_of_nodes
from perfcast.traces.scaling.recorded.rows import calls_of_rows

#: Ends of names of what a recording writes: the timeline of all steps, that of one more step with shapes, and
#: the execution trace of that step.
_TIMELINE, _LINKED, _EXECUTION = ".kineto.json.gz", ".linked.json.gz", ".et.json.gz"


@dataclass(frozen=True)
class RecordedCalls:
    """Calls of one rank, and which of a timeline's rows are which of them.

    Attributes:
        places: Row → place of its call.
        has_tensors: Whether the calls say which tensor is which.
    """

    calls: Sequence[ScalingCall]
    places: Mapping[int, int]
    has_tensors: bool


def calls_alone(trace: Trace, parents: Integers) -> RecordedCalls:
    """Calls of a timeline, by sizes."""
    calls = calls_of_rows(trace, parents)
    return RecordedCalls(calls, {call.place: call.place for call in calls}, has_tensors=False)


def calls_beside(
    paths: Sequence[str | Path], traces: Sequence[Trace], *, max_bytes: int = DEFAULT_MAX_BYTES
) -> dict[int, RecordedCalls]:
    """Rank → its calls, of ranks beside whose timeline an execution trace stands that fits it.

    Args:
        traces: What was read from the paths.
    """
    by_source = {trace.source: trace for trace in traces}
    found = {}
    for path in map(Path, paths):
        trace, stem = by_source.get(path.name), _stem(path)
        if trace is None or stem is None:
            continue
        execution = path.with_name(stem + _EXECUTION)
        linked = path.with_name(stem + _LINKED)
        if execution.is_file() and linked.is_file():
            calls = _joined(trace, linked, execution, max_bytes)
            if calls is not None:
                found[trace.rank] = calls
    return found


def _stem(path: Path) -> str | None:
    for end in (_TIMELINE, _LINKED):
        if path.name.endswith(end):
            return path.name.removesuffix(end)
    return None


def _joined(trace: Trace, linked: Path, execution: Path, max_bytes: int) -> RecordedCalls | None:
    """The calls of the execution trace, by way of the one step that both its timeline and this one hold."""
    (lent,) = read_ranks([linked], max_bytes=max_bytes)
    nodes = read_execution_trace(execution, max_bytes=max_bytes)
    try:
        node_ids = link(nodes, lent).node_ids
    except TraceError:
        return None
    source = next(step_parts(lent))
    places: dict[int, int] = {}
    for part in step_parts(trace):
        for row, partner in partners(trace.events, part, lent.events, source).items():
            if node_ids[partner] != NONE:
                places[row] = int(node_ids[partner])
    return RecordedCalls(calls_of_nodes(nodes), places, has_tensors=True)
