"""A search for inference as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfcast.prediction.sweep.serving import Phase
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.report.search_serving_text import plan_degrees
from perfcast.search.serving import ServingChoice, ServingReport, ServingResult
from perfcast.version import perfcast_version


def serving_search_to_dict(found: ServingReport) -> dict[str, Any]:
    """Every figure in SI units, the best cluster first."""
    request = found.results[0].request
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": found.results[0].model,
        "mode": request.mode,
        "dtype": request.dtype,
        "context_length": found.results[0].context_length,
        "objective": found.objective,
        "max_first_token_seconds": request.max_first_seconds,
        "max_token_seconds": request.max_token_seconds,
        "clusters": [_result_to_dict(result) for result in found.results],
        "failed": [{"cluster": name, "reason": reason} for name, reason in found.failed],
    }


def _result_to_dict(result: ServingResult) -> dict[str, Any]:
    return {
        "cluster": result.cluster,
        "device": result.device,
        "num_devices": result.num_devices,
        "cost_model": result.cost_model,
        "num_plans": result.num_plans,
        "num_points": len(result.points),
        "memory_capacity_bytes": result.capacity_bytes,
        "ranked": [
            {"rank": place, **_choice_to_dict(choice, result)}
            for place, choice in enumerate(result.ranked, start=1)
        ],
        "assumptions": list(result.assumptions),
    }


def _choice_to_dict(choice: ServingChoice, result: ServingResult) -> dict[str, Any]:
    point = choice.point
    return {
        "option": plan_degrees(choice).replace(" ", ","),
        "plan": asdict(choice.plan),
        "batch_size": point.batch_size,
        "first_token": _phase_to_dict(point.prefill),
        "token": _phase_to_dict(point.decode),
        "tokens_per_second": choice.tokens_per_second,
        "tokens_per_second_per_device": choice.tokens_per_second / result.num_devices,
        "memory_bytes": point.memory_bytes,
        "dollars_per_token": result.dollars_per_token(choice),
    }


def _phase_to_dict(phase: Phase | None) -> dict[str, float] | None:
    if phase is None:
        return None
    return {
        "seconds": phase.seconds,
        "seconds_low": phase.seconds_low,
        "seconds_high": phase.seconds_high,
    }
