"""Inference over batch sizes and contexts as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfcast.prediction.sweep.serving import Phase, ServingForecast, ServingPoint


def serving_to_dict(found: ServingForecast) -> dict[str, Any]:
    """Every figure in SI units."""
    return {
        "model": found.model,
        "cluster": found.cluster,
        "device": found.device,
        "num_devices": found.num_devices,
        "plan": asdict(found.plan),
        "dtype": found.dtype,
        "cost_model": found.cost_model,
        "capacity_bytes": found.capacity_bytes,
        "points": [_point_to_dict(point, found.num_devices) for point in found.points],
        "largest_batches": [
            {"context_length": context, "batch_size": batch} for context, batch in found.largest_batches
        ],
        "assumptions": list(found.assumptions),
    }


def _point_to_dict(point: ServingPoint, num_devices: int) -> dict[str, Any]:
    return {
        "batch_size": point.batch_size,
        "context_length": point.context_length,
        "time_to_first_token": _phase_to_dict(point.prefill, num_devices),
        "time_per_output_token": _phase_to_dict(point.decode, num_devices),
        "memory_bytes": point.memory_bytes,
        "fits": point.fits,
        "skipped": point.skipped or None,
    }


def _phase_to_dict(phase: Phase | None, num_devices: int) -> dict[str, Any] | None:
    if phase is None:
        return None
    return {
        "seconds": phase.seconds,
        "seconds_low": phase.seconds_low,
        "seconds_high": phase.seconds_high,
        "tokens_per_second": phase.tokens_per_second,
        "tokens_per_second_per_device": phase.tokens_per_second / num_devices,
        "seconds_by_cause": phase.forecast.time.seconds_by_cause,
    }
