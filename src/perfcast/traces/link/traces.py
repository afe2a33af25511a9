"""An execution trace and a timeline of the same rank, joined: which node is which event.

Recorded together by a recent PyTorch, both carry the number of the record function: one to one. Recorded
apart, or before those numbers were written, they are joined thread by thread in the order of starts,
since a thread of the same program calls the same operators in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import TraceError
from perfcast.traces.events import NONE, Category, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node
from perfcast.traces.execution_trace.storages import with_storages
from perfcast.traces.link.align import align
from perfcast.traces.link.kernels import nest
from perfcast.traces.link.partners import rows_by_thread
from perfcast.traces.marks import GROUPS_NODE, STEP_MARK, is_root_name

BY_NUMBER, BY_ORDER = "record function numbers", "order of starts"
#: Below this share of linked events on the side that has fewer, the files are not of the same program.
_MIN_RATE = 0.5


@dataclass(frozen=True)
class TraceLink:
    """``node_ids[row]`` is the node that an event is; ``NONE`` where it is none.

    ``num_rows`` and ``num_nodes`` count what could be linked: operators and marked ranges; steps' own
    marks, the process, its threads and the list of process groups stand in one file only.
    """

    how: str
    node_ids: Integers
    num_rows: int
    num_nodes: int
    unlinked_names: tuple[tuple[str, int], ...] = ()

    @cached_property
    def rows(self) -> Mapping[int, int]:
        """The event of each linked node."""
        rows = np.flatnonzero(self.node_ids != NONE)
        return dict(zip(self.node_ids[rows].tolist(), rows.tolist(), strict=True))

    @property
    def num_linked(self) -> int:
        """Pairs found, steps' marks among them where both files have them."""
        return int(np.count_nonzero(self.node_ids != NONE))

    @property
    def row_rate(self) -> float:
        """Share of events that are linked."""
        return min(1.0, self.num_linked / self.num_rows) if self.num_rows else 0.0

    @property
    def node_rate(self) -> float:
        """Share of nodes that are linked."""
        return min(1.0, self.num_linked / self.num_nodes) if self.num_nodes else 0.0


def link(execution_trace: ExecutionTrace, trace: Trace) -> TraceLink:
    """Join an execution trace with the timeline of the same rank.

    Raises:
        TraceError: The two do not belong together: neither numbers nor order agree.
    """
    rows = _linkable_rows(trace)
    nodes = [
        node for node in execution_trace.nodes if not is_root_name(node.name) and node.name != GROUPS_NODE
    ]
    found = _by_number(nodes, trace, rows)
    how = BY_NUMBER
    if not _is_enough(found, len(nodes), len(rows)):
        found, how = _by_order(nodes, trace, rows), BY_ORDER
    if not _is_enough(found, len(nodes), len(rows)):
        raise TraceError(_mismatch(execution_trace, trace, nodes, rows))
    node_ids = np.full(len(trace.events), NONE, dtype=np.int64)
    node_ids[list(found)] = list(found.values())
    missing = Counter(
        trace.events.name(row)
        for row in rows[node_ids[rows] == NONE].tolist()
        if not trace.events.name(row).startswith(STEP_MARK)
    )
    return TraceLink(
        how,
        node_ids,
        sum(not trace.events.name(row).startswith(STEP_MARK) or row in found for row in rows.tolist()),
        sum(not node.name.startswith(STEP_MARK) or node.id in set(found.values()) for node in nodes)
        if how == BY_ORDER
        else len(nodes),
        tuple(missing.most_common(10)),
    )


def _linkable_rows(trace: Trace) -> Integers:
    events = trace.events
    return np.flatnonzero(events.is_in(Category.OPERATOR, Category.ANNOTATION) & (events.threads != NONE))


def _is_enough(found: Mapping[int, int], num_nodes: int, num_rows: int) -> bool:
    return len(found) > 0 and len(found) >= _MIN_RATE * min(num_nodes, num_rows)


def _by_number(nodes: Sequence[Node], trace: Trace, rows: Integers) -> dict[int, int]:
    """Row → node id where number and name agree."""
    by_number = {node.record_function_id: node for node in nodes if node.record_function_id > 0}
    numbers = trace.events.record_function_ids[rows]
    found = {}
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        node = by_number.get(number)
        if node is not None and node.name == trace.events.name(row):
            found[row] = node.id
    return found


def _by_order(nodes: Sequence[Node], trace: Trace, rows: Integers) -> dict[int, int]:
    """Row → node id, thread by thread; threads are paired by what they call."""
    events = trace.events
    node_threads: dict[int, list[Node]] = {}
    for node in nodes:
        node_threads.setdefault(node.thread, []).append(node)
    row_threads = rows_by_thread(events, rows)
    found: dict[int, int] = {}
    for node_thread, row_thread in _paired(node_threads, row_threads, trace):
        ours, theirs = node_threads[node_thread], row_threads[row_thread]
        pairs = align([node.name for node in ours], [events.name(row) for row in theirs])
        found |= {theirs[b]: ours[a].id for a, b in pairs}
    return found


def _paired(
    node_threads: Mapping[int, list[Node]], row_threads: Mapping[int, list[int]], trace: Trace
) -> list[tuple[int, int]]:
    """Threads of both files that call the same, the most alike first; each thread once."""
    calls = {thread: Counter(node.name for node in nodes) for thread, nodes in node_threads.items()}
    others = {thread: Counter(trace.events.name(row) for row in rows) for thread, rows in row_threads.items()}
    alike = sorted(
        ((calls[a] & others[b]).total(), -abs(calls[a].total() - others[b].total()), a, b)
        for a in calls
        for b in others
    )[::-1]
    pairs: list[tuple[int, int]] = []
    for common, _, a, b in alike:
        if common and all(a != x and b != y for x, y in pairs):
            pairs.append((a, b))
    return pairs


def _mismatch(execution_trace: ExecutionTrace, trace: Trace, nodes: Sequence[Node], rows: Integers) -> str:
    calls = Counter(node.name for node in nodes)
    others = Counter(trace.events.name(row) for row in rows.tolist())
    common = (calls & others).total()
    return (
        f"'{execution_trace.source}' and '{trace.source}' do not belong together: they have {common} of "
        f"{calls.total()} nodes and {others.total()} events in common by name, "
        "and neither numbers nor order join them"
    )


def repaired(execution_trace: ExecutionTrace, trace: Trace, found: TraceLink) -> ExecutionTrace:
    """The execution trace with callers as the timeline has them, and storages followed anew.

    Gloo's records are pushed on the stack of a thread on which they do not run, so that operators after
    a collective are noted as called by it. The timeline knows better: where it shows a node outside its
    caller, the caller becomes the innermost event around it on its thread. All others keep theirs.
    """
    nesting = nest(trace.events)
    node_ids, roots = found.node_ids, _thread_roots(execution_trace)
    parents: dict[int, int] = {}
    for node_id in containment_violations(execution_trace, trace, found):
        around = int(nesting.parents[found.rows[node_id]])
        while around != NONE and node_ids[around] == NONE:
            around = int(nesting.parents[around])
        node = execution_trace.by_id[node_id]
        parents[node_id] = int(node_ids[around]) if around != NONE else roots.get(node.thread, node.parent)
    nodes = [replace(node, parent=parents.get(node.id, node.parent)) for node in execution_trace.nodes]
    tracked, storages = with_storages(nodes)
    return replace(execution_trace, nodes=tuple(tracked), storages=storages)


def _thread_roots(execution_trace: ExecutionTrace) -> dict[int, int]:
    """The node that stands for each thread."""
    return {
        node.thread: node.id
        for node in execution_trace.nodes
        if is_root_name(node.name) and node.parent != node.id
    }


def containment_violations(
    execution_trace: ExecutionTrace, trace: Trace, found: TraceLink
) -> tuple[int, ...]:
    """Ids of linked nodes that the timeline shows outside their callers, or on another thread."""
    events, rows = trace.events, found.rows
    tolerance = 1.5e-6
    wrong = []
    for node in execution_trace.nodes:
        row, caller = rows.get(node.id), rows.get(node.parent)
        if row is None or caller is None or row == caller:
            continue
        is_inside = (
            events.start_seconds[row] >= events.start_seconds[caller] - tolerance
            and events.end_seconds[row] <= events.end_seconds[caller] + tolerance
        )
        if not is_inside or events.threads[row] != events.threads[caller]:
            wrong.append(node.id)
    return tuple(wrong)
