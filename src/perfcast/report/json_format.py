"""Forecasts as JSON by a published schema: plain keys that carry their unit, SI throughout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from perfcast.core.forecast.device import Forecast, KindTime, MemoryForecast, ReservedMemory, TensorInterval
from perfcast.core.forecast.largest import Largest
from perfcast.files import write_text_atomically
from perfcast.version import perfcast_version

SCHEMA_VERSION = "1"
#: Of figures in answers. Processors round logarithms and sums differently, by some 1e-15 of a figure; with
#: all digits, two of them would give two answers.
STABLE_DIGITS = 12
MAX_INTERVALS = 100
MAX_TIMELINE_POINTS = 2000


def forecast_to_dict(forecast: Forecast) -> dict[str, Any]:
    """Time and memory of a step, in the keys of ``forecast_schema``."""
    phases = forecast.seconds_by_phase
    data = _header(forecast) | {
        "cost_model": forecast.cost_model,
        "step_seconds": forecast.step_seconds,
        "step_seconds_low": forecast.step_seconds_low,
        "step_seconds_high": forecast.step_seconds_high,
        "exposed_host_seconds": forecast.exposed_host_seconds,
        "seconds_by_provenance": forecast.seconds_by_provenance,
        "forward_seconds": phases.get("forward", 0.0),
        "backward_seconds": phases.get("backward", 0.0),
        "optimizer_seconds": phases.get("optimizer", 0.0),
        "samples_per_second": forecast.samples_per_second,
        "flops": forecast.flops,
        "recompute_flops": forecast.recompute_flops,
        "mfu": forecast.mfu,
        "hfu": forecast.hfu,
        "peak_flops_per_second": forecast.peak_flops_per_second,
        "memory_bytes_per_second": forecast.memory_bytes_per_second,
        "breakdown": [_group_to_dict("kind", group) for group in forecast.by_kind],
        "by_module": [_group_to_dict("module", group) for group in forecast.by_module],
        "operations": [asdict(operation) for operation in forecast.operations],
    }
    tokens = tokens_per_second(forecast)
    if tokens is not None:
        data["tokens_per_second"] = tokens
    return data | _memory(forecast.memory)


def memory_to_dict(forecast: Forecast, largest: Largest | None = None) -> dict[str, Any]:
    """Memory of a step, without times, in the keys of ``memory_schema``.

    Args:
        largest: The search whose answer (or smallest size, if nothing fits) the forecast is of.
    """
    memory = forecast.memory
    kept = downsample_indices(memory.timeline_bytes, MAX_TIMELINE_POINTS, memory.peak_node)
    return (
        _header(forecast)
        | _memory(memory)
        | {
            "memory_intervals": [asdict(interval) for interval in memory.intervals],
            "operations": [
                {
                    "name": operation.name,
                    "kind": operation.kind,
                    "phase": operation.phase,
                    "shapes": operation.shapes,
                    "count": operation.count,
                    "output_bytes": operation.output_bytes,
                }
                for operation in forecast.operations
            ],
            "timeline_node_count": len(memory.timeline_bytes),
            "timeline_nodes": kept,
            "timeline_bytes": [memory.timeline_bytes[i] for i in kept],
            "timeline_bytes_by_category": {
                category: [values[i] for i in kept]
                for category, values in memory.timeline_bytes_by_category.items()
            },
            "timeline_bytes_by_module": {
                module: [values[i] for i in kept]
                for module, values in memory.timeline_bytes_by_module.items()
            },
            "reserved": None if memory.reserved is None else _reserved(memory.reserved),
            "phase_starts": [{"phase": phase, "node": node} for phase, node in memory.phase_starts],
            "alive_at_peak": [
                asdict(group) | {"total_bytes": group.total_bytes} for group in memory.alive_at_peak
            ],
        }
        | ({} if largest is None else {"largest": asdict(largest)})
    )


def _reserved(reserved: ReservedMemory) -> dict[str, Any]:
    kept = downsample_indices(reserved.reserved_bytes, MAX_TIMELINE_POINTS, 0)
    return asdict(reserved) | {
        "total_bytes": reserved.total_bytes,
        "step_starts": list(reserved.step_starts),
        "requests": kept,
        "allocated_bytes": [reserved.allocated_bytes[i] for i in kept],
        "reserved_bytes": [reserved.reserved_bytes[i] for i in kept],
    }


def tokens_per_second(forecast: Forecast) -> float | None:
    """Tokens that a step advances, per second; None where the model has no sequence.

    A step of training or prefill handles every token of every sequence; a decode step adds one to each.
    """
    if forecast.sequence_length is None:
        return None
    per_sequence = 1 if forecast.mode == "decode" else forecast.sequence_length
    return forecast.samples_per_second * per_sequence


def downsample_indices(values: Sequence[int], limit: int, keep: int) -> list[int]:
    """Indices of at most ``limit`` values, ascending: the largest of each equal run, ``keep`` always."""
    if len(values) <= limit:
        return list(range(len(values)))
    bounds = [bucket * len(values) // limit for bucket in range(limit + 1)]
    return [
        keep if start <= keep < stop else max(range(start, stop), key=values.__getitem__)
        for start, stop in pairwise(bounds)
    ]


def largest_intervals(memory: MemoryForecast, limit: int = MAX_INTERVALS) -> list[TensorInterval]:
    """The largest blocks, largest first; equal ones in the order in which they are created."""
    return sorted(memory.intervals, key=lambda i: (-i.num_bytes, i.created_by))[:limit]


@cache
def _schema_text(name: str) -> str:
    return resources.files("perfcast.report").joinpath("schema", name).read_text(encoding="utf-8")


def forecast_schema() -> dict[str, Any]:
    """The published JSON schema of ``forecast_to_dict``."""
    schema: dict[str, Any] = json.loads(_schema_text("forecast.schema.json"))
    return schema


def memory_schema() -> dict[str, Any]:
    """The published JSON schema of ``memory_to_dict``."""
    schema: dict[str, Any] = json.loads(_schema_text("memory.schema.json"))
    return schema


def write_json(data: Mapping[str, Any], path: str | Path) -> None:
    """Write an answer to ``path``, or to standard output alone where it is ``-``.

    Figures have ``STABLE_DIGITS`` significant digits; counts that are whole numbers have all.

    Raises:
        InputError: The place cannot be written.
        ValueError: A number is not finite; nothing is written.
    """
    write_exact_json(_with_stable_digits(data), path)


def write_exact_json(data: Mapping[str, Any], path: str | Path, *, indent: int | None = 2) -> None:
    """Write what programs read back (timelines, fitted figures) with every digit; else as ``write_json``.

    Args:
        indent: Blanks of a level; None writes one line, a third as long.

    Raises:
        InputError: The place cannot be written.
        ValueError: A number is not finite; nothing is written.
    """
    text = json.dumps(data, indent=indent, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text_atomically(path, text)


def _with_stable_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{STABLE_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _with_stable_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_stable_digits(item) for item in value]
    return value


def _header(forecast: Forecast) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": forecast.model,
        "device": forecast.device,
        "device_title": forecast.device_title,
        "mode": forecast.mode,
        "dtype": forecast.dtype,
        "batch_size": forecast.batch_size,
        "sequence_length": forecast.sequence_length,
        "parameter_count": forecast.parameter_count,
        "assumptions": list(forecast.assumptions),
    }


def _memory(memory: MemoryForecast) -> dict[str, Any]:
    return {
        "peak_memory_bytes": memory.peak_bytes,
        "peak_memory_by_last_use_bytes": memory.peak_by_last_use_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "fits": memory.fits,
        "memory_bytes_by_category": dict(memory.bytes_by_category),
        "memory_peak": {
            "operation": memory.peak_operation,
            "module": memory.peak_module,
            "phase": memory.peak_phase,
            "node": memory.peak_node,
        },
        "memory_interval_count": len(memory.intervals),
        "memory_intervals": [asdict(interval) for interval in largest_intervals(memory)],
    }


def _group_to_dict(key: str, group: KindTime) -> dict[str, Any]:
    return {
        key: group.label,
        "seconds": group.seconds,
        "count": group.count,
        "flops": group.flops,
        "memory_traffic_bytes": group.memory_traffic_bytes,
    }
