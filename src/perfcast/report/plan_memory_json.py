"""Memory under a plan as JSON by a published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from perfcast.core.forecast.footprint import PlanMemory, StageFootprint
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.version import perfcast_version


def plan_memory_to_dict(result: PlanMemory) -> dict[str, Any]:
    """All moments of all stages, and the remedies, in the keys of ``plan_memory_schema``."""
    footprint = result.footprint
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": result.model,
        "device": result.device,
        "device_title": result.device_title,
        "mode": result.mode,
        "dtype": result.dtype,
        "sequence_length": result.sequence_length,
        "parameter_count": result.parameter_count,
        "world_size": result.plan.world_size,
        "global_batch_size": result.plan.global_batch_size,
        "plan": asdict(result.plan),
        "training": None if result.training is None else asdict(result.training),
        "peak_memory_bytes": footprint.peak_bytes,
        "peak_memory_bytes_low": footprint.peak_bytes_low,
        "peak_memory_bytes_high": footprint.peak_bytes_high,
        "reserved_memory_bytes": footprint.reserved_bytes,
        "reserved_memory_bytes_low": footprint.reserved_bytes_low,
        "reserved_memory_bytes_high": footprint.reserved_bytes_high,
        "context_bytes": footprint.context_bytes,
        "device_bytes": footprint.device_bytes,
        "memory_capacity_bytes": result.capacity_bytes,
        "fits": result.fits,
        "peak_stage": footprint.peak_stage.stage,
        "stages": [_stage_to_dict(stage) for stage in footprint.stages],
        "layer_terms": [asdict(term) for term in footprint.layer_terms],
        "step_seconds": result.step_seconds,
        "remedies": [asdict(remedy) for remedy in result.remedies],
        "assumptions": list(footprint.assumptions),
    }


def _stage_to_dict(stage: StageFootprint) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "peak_moment": stage.peak.name,
        "peak_memory_bytes": stage.peak.num_bytes,
        "moments": [
            {
                "name": moment.name,
                "memory_bytes": moment.num_bytes,
                "terms": [asdict(term) for term in moment.terms],
            }
            for moment in stage.peak_candidates
        ],
    }


@cache
def plan_memory_schema() -> dict[str, Any]:
    """The published schema."""
    text = resources.files("perfcast.report").joinpath("schema", "plan_memory.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
