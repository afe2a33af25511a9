"""Runs that failed though a larger one ran: the label may be a crash of another kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from perfcast.core.plan import Plan
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.runs.lines import Run


def mark_contradicted(cases: Sequence[MemoryCase]) -> list[MemoryCase]:
    """Name in each failed run one that ran and needs at least as much memory, if there is one."""
    fitted: defaultdict[Any, list[MemoryCase]] = defaultdict(list)
    for case in cases:
        if case.run is not None and case.measured_fits:
            fitted[_kind(case, case.run)].append(case)
    return [_mark(case, fitted) for case in cases]


def _mark(case: MemoryCase, fitted: dict[Any, list[MemoryCase]]) -> MemoryCase:
    if case.run is None or case.measured_fits is not False:
        return case
    larger = _larger(case.run.plan, fitted.get(_kind(case, case.run), ()))
    return case if larger is None else replace(case, contradicted_by=larger.label)


def _kind(case: MemoryCase, run: Run) -> Any:
    """What must be equal for plans to be comparable."""
    plan = run.plan
    return (
        case.source,
        case.catalog_device,
        run.model,
        run.training,
        run.sequence_length,
        plan.recompute,
        plan.context_parallel,
        plan.expert_parallel,
        plan.virtual_stages_per_rank,
    )


def _larger(failed: Plan, ran: Iterable[MemoryCase]) -> MemoryCase | None:
    return next((case for case in ran if case.run and needs_at_least(case.run.plan, failed)), None)


def needs_at_least(one: Plan, other: Plan) -> bool:
    """Whether a plan shards no more and keeps no fewer sequences than another, in every respect.

    In flight are as many micro-batches as the pipeline is deep, or all of a step if these are fewer; each
    keeps a share 1 / depth of the layers.
    """
    return (
        one.tensor_parallel <= other.tensor_parallel
        and one.pipeline_parallel <= other.pipeline_parallel
        and one.data_parallel <= other.data_parallel
        and one.zero_stage <= other.zero_stage
        and one.sequence_parallel <= other.sequence_parallel
        and one.micro_batch_size >= other.micro_batch_size
        and _share_in_flight(one) >= _share_in_flight(other)
    )


def _share_in_flight(plan: Plan) -> float:
    return min(plan.pipeline_parallel, plan.num_micro_batches) / plan.pipeline_parallel
