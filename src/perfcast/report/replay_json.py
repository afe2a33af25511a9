"""A replay beside its recording as JSON by a published schema; what is not known is ``null``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from perfcast.replay.judge.fidelity import Fidelity, Pair
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.version import perfcast_version


def replay_to_dict(ranks: Sequence[Fidelity]) -> dict[str, Any]:
    """Everything that was found, in the keys of ``replay_schema``; one entry a rank."""
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "ranks": [fidelity_to_dict(fidelity) for fidelity in ranks],
    }


def fidelity_to_dict(fidelity: Fidelity) -> dict[str, Any]:
    """One rank."""
    program, steps = fidelity.program, fidelity.played.steps
    return {
        "source": program.source,
        "source_hash": program.source_hash,
        "selection": dict(program.selection),
        "rank": program.rank,
        "world_size": program.world_size,
        "num_steps": program.num_steps,
        "num_calls": len(program.calls),
        "num_repetitions": len(steps.wall_seconds),
        "is_interrupted": steps.is_interrupted,
        "host_gaps": fidelity.host_gaps,
        "added_gap_seconds": fidelity.played.added_gap_seconds / program.num_steps,
        "preparation": fidelity.played.preparation.value,
        "operation_coverage": fidelity.operation_coverage,
        "time_coverage": _known(fidelity.time_coverage),
        "wall_seconds": _all_known(asdict(fidelity.wall)),
        "processor_seconds": _all_known(asdict(fidelity.processor)),
        "repetitions": {
            "wall_seconds": [one / program.num_steps for one in steps.wall_seconds],
            "processor_seconds": [one / program.num_steps for one in steps.processor_seconds],
        },
        "step": [_pair(pair) for pair in fidelity.step],
        "kinds": [_pair(pair) for pair in fidelity.kinds],
        "launches": _pair(fidelity.launches),
        "memory_bytes": _pair(fidelity.memory),
        "collectives": [
            {
                "name": one.name,
                "seconds": _known(one.median_seconds),
                "bus_bytes_per_second": _known(one.bus_bytes_per_second),
                "is_asynchronous": one.is_asynchronous,
                "is_emulated": one.is_emulated,
            }
            for one in fidelity.collectives
        ],
        "left_out": [asdict(one) for one in fidelity.left_out],
        "num_stand_ins": fidelity.num_replaced,
        "utilisation": _all_known(asdict(fidelity.utilisation)),
        "notes": list(fidelity.notes),
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "label": pair.label,
        "recorded": _known(pair.recorded),
        "replayed": _known(pair.replayed),
        "relative_error": _known(pair.relative_error),
    }


def _all_known(values: dict[str, float]) -> dict[str, float | None]:
    return {name: _known(value) for name, value in values.items()}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def replay_schema() -> dict[str, Any]:
    """The published schema."""
    folder = resources.files("perfcast.report").joinpath("schema")
    schema: dict[str, Any] = json.loads(folder.joinpath("replay.schema.json").read_text("utf-8"))
    return schema
