"""Which rows of a recording count as work, and what each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.operation import OperationKind
from perfcast.errors import TraceError
from perfcast.traces.events import (
    CALL_CATEGORIES,
    DEVICE_CATEGORIES,
    HOST_CATEGORIES,
    NONE,
    Category,
    Trace,
)
from perfcast.traces.explain.contexts import Contexts, find_contexts
from perfcast.traces.explain.kernel_kinds import kernel_kind, operator_kind
from perfcast.traces.link.kernels import KernelLinks, innermost, link_kernels, nest, own_seconds
from perfcast.traces.marks import GLOO, WAIT
from perfcast.traces.spans import clip, total_seconds, union, without
from perfcast.traces.timeline.calls import is_operator

#: Beginnings of names of operators that may wait for other threads or ranks.
_MAY_WAIT = ("c10d::", "_c10d_functional::", "c10d_functional::", "autograd::", "torch::autograd::")


@dataclass(frozen=True)
class Analysed:
    """A recording with what others look up in it; ``low`` and ``high`` are its window's ends."""

    trace: Trace
    links: KernelLinks
    parents: Integers
    contexts: Contexts
    low: float
    high: float

    @property
    def on_device(self) -> bool:
        """Whether kernels were recorded."""
        return bool(len(self.links.rows))


@dataclass(frozen=True)
class WindowWork:
    """Rows that count as work within the window: device rows, or operators of a processor.

    Attributes:
        seconds: Within the window; of an operator, without the operators inside it.
        places: The host rows that they come from; ``NONE`` where that is not known.
        operators: Rows of the innermost operators; ``NONE`` likewise.
    """

    rows: Integers
    seconds: Floats
    places: Integers
    operators: Integers
    kinds: tuple[OperationKind, ...]


def analyse(trace: Trace) -> Analysed:
    """Link, nest and locate all events.

    The window is that of the marked steps and of the device work that they launched; without marks, of all
    work.

    Raises:
        TraceError: No event of a host or a device.
    """
    nesting = nest(trace.events)
    links = link_kernels(trace.events, nesting)
    low, high = _window(trace, links)
    has_frames = bool(trace.events.is_in(Category.PYTHON).any())
    around = nest(trace.events, HOST_CATEGORIES).parents if has_frames else nesting.parents
    return Analysed(trace, links, nesting.parents, find_contexts(trace, around), low, high)


def _window(trace: Trace, links: KernelLinks) -> tuple[float, float]:
    events = trace.events
    rows = events.rows_in(Category.OPERATOR, Category.ANNOTATION, *CALL_CATEGORIES, *DEVICE_CATEGORIES)
    if not len(rows):
        raise TraceError(f"{trace.source}: no event of a host or a device")
    if not trace.steps:
        worked = events.rows_in(Category.OPERATOR, *CALL_CATEGORIES, *DEVICE_CATEGORIES)
        rows = worked if len(worked) else rows
        return float(events.start_seconds[rows].min()), float(events.end_seconds[rows].max())
    low, high = trace.steps[0].start_seconds, max(step.end_seconds for step in trace.steps)
    known = links.calls != NONE
    launched = known & (events.start_seconds[np.where(known, links.calls, 0)] <= high)
    return low, max(high, float(events.end_seconds[links.rows[launched]].max(initial=high)))


def find_work(analysed: Analysed) -> WindowWork:
    """The works of the window; operators' own times stand for kernels where none were recorded."""
    return _device_work(analysed) if analysed.on_device else _host_work(analysed)


def _device_work(analysed: Analysed) -> WindowWork:
    events, links = analysed.trace.events, analysed.links
    starts, ends = clip(
        events.start_seconds[links.rows], events.end_seconds[links.rows], analysed.low, analysed.high
    )
    chosen = np.flatnonzero(ends > starts)
    rows, operators = links.rows[chosen], links.operators[chosen]
    names = (events.name(row) for row in rows.tolist())
    behind = (events.name(row) if row != NONE else "" for row in operators.tolist())
    kinds = tuple(kernel_kind(name, operator) for name, operator in zip(names, behind, strict=True))
    return WindowWork(rows, (ends - starts)[chosen], links.calls[chosen], operators, kinds)


def _host_work(analysed: Analysed) -> WindowWork:
    events = analysed.trace.events
    is_op = np.array([is_operator(name) for name in events.names], dtype=np.bool_)
    starts, ends = clip(events.start_seconds, events.end_seconds, analysed.low, analysed.high)
    counts = events.is_in(Category.OPERATOR) & is_op[events.name_codes]
    own = own_seconds(ends - starts, analysed.parents, counts)
    rows = np.flatnonzero(counts & (ends > starts))
    kinds = [operator_kind(events.name(row)) for row in rows.tolist()]
    for place in _waiting(analysed, rows, kinds, own):
        kinds[place] = OperationKind.COLLECTIVE
    return WindowWork(rows, own[rows], rows, rows, tuple(kinds))


def _waiting(
    analysed: Analysed, rows: Integers, kinds: Sequence[OperationKind], own: Floats
) -> tuple[int, ...]:
    """Places of autograd's nodes of unknown work that spent most of their time while gloo communicated.

    A function of the program's own that exchanges in its backward waits there, outside of any operator.
    """
    events = analysed.trace.events
    codes = [code for code, name in enumerate(events.names) if name.startswith(GLOO)]
    ranges = np.flatnonzero(np.isin(events.name_codes, codes))
    if not len(ranges):
        return ()
    starts, ends = union(events.start_seconds[ranges], events.end_seconds[ranges])
    before = np.concatenate([[0.0], np.cumsum(ends - starts)])

    def communicating(moment: float) -> float:
        place = int(np.searchsorted(starts, moment))
        return float(before[place] - max(0.0, ends[place - 1] - moment)) if place else 0.0

    found = []
    for place, (row, kind) in enumerate(zip(rows.tolist(), kinds, strict=True)):
        if kind is OperationKind.UNKNOWN and events.name(row).startswith(_MAY_WAIT):
            during = communicating(float(events.end_seconds[row]))
            during -= communicating(float(events.start_seconds[row]))
            if during > own[row] / 2:
                found.append(place)
    return tuple(found)


def computing_spans(analysed: Analysed) -> tuple[Floats, Floats]:
    """Union of the window's operators of a library (``aten::mm``), and of others that call no operator.

    Collectives and autograd's own nodes are none of them: those may wait; what waits within one is left out.
    """
    events = analysed.trace.events
    proper = [is_operator(name) and not name.startswith(_MAY_WAIT) for name in events.names]
    counts = events.is_in(Category.OPERATOR) & np.array(proper, dtype=np.bool_)[events.name_codes]
    around = innermost(analysed.parents, analysed.parents[counts], counts)
    calls_others = np.zeros(len(events), dtype=np.bool_)
    calls_others[around[around != NONE]] = True
    of_library = np.array(["::" in name for name in events.names], dtype=np.bool_)[events.name_codes]
    rows = np.flatnonzero(counts & (of_library | ~calls_others))
    computing = union(
        *clip(events.start_seconds[rows], events.end_seconds[rows], analysed.low, analysed.high)
    )
    waits = events.rows_named(*(name for name in events.names if name.endswith(WAIT)))
    return without(computing, union(events.start_seconds[waits], events.end_seconds[waits]))


def host_seconds(analysed: Analysed) -> float:
    """Within the window, while an operator or a call ran on some thread."""
    events = analysed.trace.events
    rows = events.rows_in(Category.OPERATOR, *CALL_CATEGORIES)
    spans = clip(events.start_seconds[rows], events.end_seconds[rows], analysed.low, analysed.high)
    return total_seconds(union(*spans))
