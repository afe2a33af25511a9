"""A search as JSON by a published schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from perfcast.core.forecast.plan import CAUSES
from perfcast.core.plan_text import format_plan
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.search.report.baseline import BaselineRanking
from perfcast.search.report.clusters import ClusterOutcome
from perfcast.search.report.compose import SearchReport
from perfcast.search.report.explain import Change, Difference, Explanation
from perfcast.search.report.sensitivity import Sensitivity, SensitivityPoint
from perfcast.search.result import RankedPlan, SearchResult
from perfcast.version import perfcast_version


def search_to_dict(found: SearchReport) -> dict[str, Any]:
    """Everything that was found, in the keys of ``search_schema``."""
    best = found.best
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": best.model,
        "objective": best.objective,
        "sequence_length": best.sequence_length,
        "global_batch_size": best.global_batch_size,
        "training": asdict(best.training),
        "best_cluster": f"{best.cluster}:{best.num_devices}",
        "best_plan": format_plan(best.winner.plan),
        "clusters": [_outcome_to_dict(outcome) for outcome in found.comparison.outcomes],
        "ranking": [found.comparison.outcomes[at].asked for at in found.comparison.ranking],
        "explanations": [_explanation_to_dict(explanation) for explanation in found.explanations],
        "differences": [_difference_to_dict(difference) for difference in found.differences],
        "skipped": [{"label": label, "reason": reason} for label, reason in found.skipped],
        "sensitivity": None if found.sensitivity is None else _sensitivity_to_dict(found.sensitivity),
        "rival": None if found.baseline is None else _baseline_to_dict(found.baseline),
    }


def _outcome_to_dict(outcome: ClusterOutcome) -> dict[str, Any]:
    return {
        "asked": outcome.asked,
        "reason": outcome.reason or None,
        "result": None if outcome.result is None else _result_to_dict(outcome.result),
    }


def _result_to_dict(result: SearchResult) -> dict[str, Any]:
    return {
        "cluster": result.cluster,
        "device": result.device,
        "num_devices": result.num_devices,
        "cost_model": result.cost_model,
        "num_plans": result.num_plans,
        "num_valid": result.num_valid,
        "num_simulated": result.num_simulated,
        "num_operations": result.num_operations,
        "num_steps": result.num_steps,
        "excluded": dict(result.excluded),
        "seconds_by_part": dict(result.seconds_by_part),
        "ranked": [
            {"rank": place, **_plan_to_dict(plan)} for place, plan in enumerate(result.ranked, start=1)
        ],
        "front": [_plan_to_dict(plan) for plan in result.front],
        "separations": [
            {
                "first_rank": separation.first + 1,
                "second_rank": separation.second + 1,
                "difference_seconds": separation.difference_seconds,
                "difference_seconds_low": separation.difference_seconds_low,
                "difference_seconds_high": separation.difference_seconds_high,
                "measurements": list(separation.measurements),
            }
            for separation in result.separations
        ],
        "assumptions": list(result.assumptions),
    }


def _plan_to_dict(plan: RankedPlan) -> dict[str, Any]:
    return {
        "option": format_plan(plan.plan),
        "plan": asdict(plan.plan),
        "method": plan.method,
        "step_seconds": plan.step_seconds,
        "step_seconds_low": plan.step_seconds_low,
        "step_seconds_high": plan.step_seconds_high,
        "seconds_by_cause": _by_cause(plan.seconds_by_cause),
        "tokens_per_second": plan.tokens_per_second,
        "tokens_per_second_per_device": plan.tokens_per_second_per_device,
        "mfu": plan.mfu,
        "peak_memory_bytes": plan.peak_bytes,
        "device_memory_bytes": plan.device_bytes,
        "memory_capacity_bytes": plan.capacity_bytes,
        "headroom_bytes": plan.headroom_bytes,
        "device_watts": plan.device_watts,
        "joules_per_token": plan.joules_per_token,
        "dollars_per_device_hour": plan.dollars_per_device_hour,
        "dollars_per_token": plan.dollars_per_token,
        "objective_value": plan.value,
    }


def _by_cause(seconds: Mapping[str, float]) -> dict[str, float]:
    return {cause: float(seconds[cause]) for cause in CAUSES if seconds.get(cause)}


def _explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    forecast = explanation.forecast
    memory = forecast.memory
    return {
        "label": explanation.label,
        "option": format_plan(explanation.plan),
        "method": forecast.method,
        "step_seconds": forecast.step_seconds,
        "step_seconds_low": forecast.step_seconds_low,
        "step_seconds_high": forecast.step_seconds_high,
        "mfu": forecast.mfu,
        "seconds_by_cause": _by_cause(explanation.seconds_by_cause),
        "bytes_by_category": dict(explanation.bytes_by_category),
        "fits": None if memory is None else memory.fits,
    }


def _difference_to_dict(difference: Difference) -> dict[str, Any]:
    return {
        "first": difference.first.label,
        "second": difference.second.label,
        "dimensions": list(difference.dimensions),
        "step_seconds": difference.seconds,
        "causes": [_change_to_dict(change) for change in difference.causes],
        "categories": [_change_to_dict(change) for change in difference.categories],
        "sentences": list(difference.sentences),
    }


def _change_to_dict(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "difference": change.difference,
        "because": list(change.because),
    }


def _sensitivity_to_dict(sensitivity: Sensitivity) -> dict[str, Any]:
    return {
        "network": sensitivity.network,
        "base": _plan_to_dict(sensitivity.base),
        "points": [_point_to_dict(point) for point in sensitivity.points],
    }


def _baseline_to_dict(baseline: BaselineRanking) -> dict[str, Any]:
    return {
        "name": baseline.name,
        "num_plans": baseline.num_plans,
        "reason": baseline.reason or None,
        "plans": [
            {
                "data_parallel": one.data_parallel,
                "tensor_parallel": one.tensor_parallel,
                "pipeline_parallel": one.pipeline_parallel,
                "rival_step_seconds": one.baseline_seconds,
                "option": None if one.plan is None else format_plan(one.plan),
                "step_seconds": one.step_seconds,
            }
            for one in baseline.plans
        ],
    }


def _point_to_dict(point: SensitivityPoint) -> dict[str, Any]:
    return {
        "name": point.condition.name,
        "factor": point.condition.factor,
        "winner": None if point.winner is None else _plan_to_dict(point.winner),
        "changes": list(point.changes),
        "kept_step_seconds": point.kept_seconds,
        "loss": point.loss,
        "reason": point.reason or None,
    }


@cache
def search_schema() -> dict[str, Any]:
    """The published schema."""
    text = resources.files("perfcast.report").joinpath("schema", "search.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
