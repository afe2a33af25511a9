"""A step under a plan as JSON by a published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime
from perfcast.prediction.run.predict import RunForecast
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.report.plan_memory_json import plan_memory_to_dict
from perfcast.report.plan_step_text import num_sequences
from perfcast.report.run_json import run_to_dict
from perfcast.version import perfcast_version


def plan_forecast_to_dict(forecast: PlanForecast, run: RunForecast | None = None) -> dict[str, Any]:
    """Everything but the timeline, in the keys of ``plan_forecast_schema``.

    Args:
        run: The whole run, where one was asked for.
    """
    time = forecast.time
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": forecast.model,
        "cluster": forecast.cluster,
        "device": forecast.device,
        "num_devices": forecast.num_devices,
        "mode": forecast.mode,
        "method": forecast.method,
        "dtype": forecast.dtype,
        "sequence_length": forecast.sequence_length,
        "global_batch_size": num_sequences(forecast),
        "plan": None if forecast.plan is None else asdict(forecast.plan),
        "training": None if forecast.training is None else asdict(forecast.training),
        "parameter_count": forecast.parameter_count,
        "cost_model": forecast.cost_model,
        "step_seconds": forecast.step_seconds,
        "step_seconds_low": forecast.step_seconds_low,
        "step_seconds_high": forecast.step_seconds_high,
        "num_tokens": forecast.num_tokens,
        "tokens_per_second": forecast.tokens_per_second,
        "tokens_per_second_per_device": forecast.tokens_per_second_per_device,
        "flops": forecast.flops,
        "recompute_flops": forecast.recompute_flops,
        "peak_flops_per_second": forecast.peak_flops_per_second,
        "mfu": forecast.mfu,
        "hfu": forecast.hfu,
        "seconds_by_cause": time.seconds_by_cause,
        "ranks": [_rank_to_dict(rank) for rank in time.ranks],
        "critical_path": [{"label": label, "seconds": seconds} for label, seconds in time.critical_path],
        "reliefs": [asdict(relief) for relief in forecast.reliefs],
        "stragglers": None if forecast.stragglers is None else asdict(forecast.stragglers),
        "seconds_by_provenance": dict(forecast.seconds_by_provenance),
        "num_events": time.num_events,
        "memory": None if forecast.memory is None else plan_memory_to_dict(forecast.memory),
        "run": None if run is None else run_to_dict(run),
        "assumptions": list(forecast.assumptions),
    }


def _rank_to_dict(rank: RankTime) -> dict[str, Any]:
    causes = {cause: rank.seconds_by_cause[cause] for cause in CAUSES if cause in rank.seconds_by_cause}
    return {
        "rank": rank.rank,
        "stage": rank.stage,
        "num_equal": rank.num_equal,
        "seconds_by_cause": causes,
    }


@cache
def plan_forecast_schema() -> dict[str, Any]:
    """The published schema."""
    text = resources.files("perfcast.report").joinpath("schema", "plan_step.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
