"""How well execution traces and timelines of the same ranks fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.errors import TraceError
from perfcast.traces.events import Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.link.kernels import link_kernels
from perfcast.traces.link.traces import TraceLink, containment_violations, link, repaired


@dataclass(frozen=True)
class LinkReport:
    """One rank. Rates are shares of what could be linked.

    ``num_violations`` counts nodes that the timeline shows outside their callers, and
    ``num_violations_repaired`` those left after the repair. ``kernel_rate`` is the share of kernels with
    their operator, ``None`` where there is no kernel.
    """

    execution_trace: str
    timeline: str
    rank: int
    how: str
    num_linked: int
    num_nodes: int
    num_rows: int
    node_rate: float
    row_rate: float
    num_violations: int
    num_violations_repaired: int
    kernel_rate: float | None
    unlinked_names: tuple[tuple[str, int], ...]


def report_links(
    execution_traces: Sequence[ExecutionTrace], traces: Sequence[Trace]
) -> tuple[LinkReport, ...]:
    """Link each execution trace, in the order of its name, with the timeline of that place among ranks.

    Raises:
        TraceError: Not as many of one as of the other, or two that do not belong together.
    """
    if len(execution_traces) != len(traces):
        raise TraceError(
            f"{len(execution_traces)} execution traces and {len(traces)} timelines: not the same ranks"
        )
    return tuple(_report(one, other) for one, other in zip(execution_traces, traces, strict=True))


def _report(execution_trace: ExecutionTrace, trace: Trace) -> LinkReport:
    found: TraceLink = link(execution_trace, trace)
    mended = repaired(execution_trace, trace, found)
    kernels = link_kernels(trace.events)
    return LinkReport(
        execution_trace=execution_trace.source,
        timeline=trace.source,
        rank=trace.rank,
        how=found.how,
        num_linked=found.num_linked,
        num_nodes=found.num_nodes,
        num_rows=found.num_rows,
        node_rate=found.node_rate,
        row_rate=found.row_rate,
        num_violations=len(containment_violations(execution_trace, trace, found)),
        num_violations_repaired=len(containment_violations(mended, trace, found)),
        kernel_rate=kernels.operator_rate if len(kernels.rows) else None,
        unlinked_names=found.unlinked_names,
    )
