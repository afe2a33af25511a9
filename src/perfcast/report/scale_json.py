"""Scaling curves as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfcast.prediction.sweep.scale import ScaleForecast, ScalePoint


def scaling_to_dict(found: ScaleForecast) -> dict[str, Any]:
    """Every figure in SI units; a point without a forecast has nulls and says why."""
    return {
        "model": found.model,
        "kind": "weak" if found.is_weak else "strong",
        "training": None if found.training is None else asdict(found.training),
        "sequence_length": found.sequence_length,
        "batch_size": found.batch_size,
        "curves": [
            {
                "cluster": curve.cluster,
                "title": curve.title,
                "device": curve.device,
                "points": [_point_to_dict(point) for point in curve.points],
            }
            for curve in found.curves
        ],
        "assumptions": list(found.assumptions),
    }


def _point_to_dict(point: ScalePoint) -> dict[str, Any]:
    forecast = point.forecast
    data: dict[str, Any] = {
        "num_devices": point.num_devices,
        "batch_size": point.batch_size,
        "skipped": point.skipped or None,
        "efficiency": point.efficiency,
        "exposed_communication_share": point.exposed_share,
        "bubble_share": point.bubble_share,
    }
    names = (
        "step_seconds", "step_seconds_low", "step_seconds_high", "tokens_per_second",
        "tokens_per_second_per_device", "mfu", "hfu", "method",
    )  # fmt: skip
    data |= {name: None if forecast is None else getattr(forecast, name) for name in names}
    data["seconds_by_cause"] = None if forecast is None else forecast.time.seconds_by_cause
    data["plan"] = None if forecast is None or forecast.plan is None else asdict(forecast.plan)
    memory = None if forecast is None else forecast.memory
    data["fits"] = None if memory is None else memory.fits
    return data
