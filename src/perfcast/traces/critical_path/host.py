"""Edges of a critical path on the host: nested operators, threads, and the runtime's lock."""

from __future__ import annotations

import numpy as np

from perfcast.traces.critical_path.graph import EdgeKind, PathGraph, nanoseconds
from perfcast.traces.events import HOST_CATEGORIES, NONE, Category, Trace

#: Calls of which only one makes progress at a time.
LOCKING = frozenset({"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"})
#: Calls whose end waits for something else, which edges say; their own tail takes no time.
BLOCKING = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "cudaEventQuery",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaMemcpyAsync",
        "hipDeviceSynchronize",
        "hipStreamSynchronize",
        "hipEventSynchronize",
    }
)


def connect_lock(trace: Trace, graph: PathGraph) -> None:
    """Calls that hold the runtime's lock end one after another, across threads.

    Who ended first had the lock first. Every call that began before such an end leads to it.
    """
    locks = _locking(trace)
    waiting: list[int] = []
    last = NONE
    codes = trace.events.name_codes
    for node, row in enumerate(graph.rows):
        if codes[row] not in locks:
            continue
        if graph.is_start[node]:
            waiting.append(node)
        else:
            while waiting:
                begin = waiting.pop()
                if graph.rows[begin] == row:
                    graph.connect(begin, node, EdgeKind.WORK, row)
                else:
                    graph.connect(begin, node, EdgeKind.HOST_ORDER)
            if last != NONE and not graph.is_start[last]:
                graph.connect(last, node, EdgeKind.HOST_ORDER)
        last = node


def _locking(trace: Trace) -> set[int]:
    return {code for code, name in enumerate(trace.events.names) if name in LOCKING}


def connect_threads(trace: Trace, graph: PathGraph, low: float, high: float) -> None:
    """Operators and calls of each thread in the order in which they begin and end."""
    events = trace.events
    within = (events.start_seconds >= low) & (events.start_seconds <= high)
    lasts = events.end_seconds > events.start_seconds
    rows = np.flatnonzero(within & lasts & events.is_in(*HOST_CATEGORIES) & (events.threads != NONE))
    threads = _merge_backward(trace, rows)
    keys = [(events.threads_table[t].process, events.threads_table[t].number) for t in threads]
    by_thread: dict[tuple[int, int], list[int]] = {}
    for row, key in zip(rows.tolist(), keys, strict=True):
        by_thread.setdefault(key, []).append(row)
    locks = _locking(trace)
    blocks = {code for code, name in enumerate(events.names) if name in BLOCKING}
    for key in sorted(by_thread):
        _connect_thread(trace, graph, by_thread[key], locks, blocks)


def _merge_backward(trace: Trace, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """The thread of each row; one thread of backward work counts as the one of forward work."""
    events = trace.events
    threads = events.threads[rows]
    is_marked = np.isin(events.categories[rows], [Category.OPERATOR, Category.ANNOTATION])
    found = []
    for word in ("forward", "autograd"):
        codes = [code for code, name in enumerate(events.names) if word in name]
        on = np.unique(threads[is_marked & np.isin(events.name_codes[rows], codes)])
        found.append(int(on[0]) if len(on) == 1 else NONE)
    forward, backward = found
    if NONE not in (forward, backward) and forward != backward:
        threads = np.where(threads == backward, forward, threads)
    return [int(thread) for thread in threads.tolist()]


def _connect_thread(
    trace: Trace, graph: PathGraph, rows: list[int], locks: set[int], blocks: set[int]
) -> None:
    """Walk the starts and ends of a thread's events, joining each to the one before.

    Of instants that coincide, ends come before starts, longer events start first and shorter ones end first.
    """
    codes = trace.events.name_codes[np.asarray(rows, dtype=np.int64)].tolist()
    last, last_locks, last_is_start, depth, parent = NONE, False, False, 0, NONE
    stack: list[int] = []
    for row, code, is_end in _instants(trace, rows, codes):
        around = stack[-1] if stack else NONE
        if is_end:
            if stack:
                stack.pop()
            around = stack[-1] if stack else NONE
        else:
            stack.append(row)
        if row not in graph.start_of:
            continue
        node = graph.end_of[row] if is_end else graph.start_of[row]
        is_lock = code in locks
        shares = last_locks and is_lock and (last_is_start or is_end)
        if last != NONE and not shares:
            if not is_end and depth == 0:
                graph.connect(last, node, EdgeKind.HOST_ORDER)
            else:
                owner = _owner(graph, last, node, parent)
                graph.connect(last, node, EdgeKind.WORK, owner, weightless=is_end and code in blocks)
        last, last_locks, last_is_start, parent = node, is_lock, not is_end, around
        depth += -1 if is_end else 1


def _instants(trace: Trace, rows: list[int], codes: list[int]) -> list[tuple[int, int, bool]]:
    """(row, name code, whether it ends) in the order in which a thread passes them."""
    starts, ends = nanoseconds(trace.events, rows)
    orders = trace.events.orders[np.asarray(rows, dtype=np.int64)].tolist()
    marks = []
    for row, code, start, end, order in zip(rows, codes, starts, ends, orders, strict=True):
        marks.append((start, 1, start - end, order, row, code))
        marks.append((end, 0, end - start, -order, row, code))
    marks.sort()
    return [(row, code, not is_start) for _, is_start, _, _, row, code in marks]


def _owner(graph: PathGraph, begin: int, end: int, parent: int) -> int:
    """The event that a stretch of a thread belongs to."""
    if graph.is_start[begin]:
        return graph.rows[begin]
    return parent if graph.is_start[end] else graph.rows[end]
