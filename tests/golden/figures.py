"""What is kept of an answer: figures by name where they are few, fingerprints of whole documents."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

#: How long the command itself took, and where it kept what it found.
OF_THIS_RUN = {"timings", "store", "origin"}
_PLAN_TIMES = ("step_seconds", "step_seconds_low", "step_seconds_high", "seconds_by_cause", "mfu", "flops")
_MEMORY = ("peak_memory_bytes", "reserved_memory_bytes", "context_bytes", "device_bytes", "fits")


def pick(data: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Some figures."""
    return {key: data[key] for key in keys}


def plan_forecast(data: Any) -> dict[str, Any]:
    """Time by cause and memory of a step under a plan, and how a run over its tokens goes."""
    kept = pick(data, *_PLAN_TIMES, "recompute_flops", "num_events")
    kept["recommendations"] = {each["name"]: each["step_seconds"] for each in data["recommendations"]}
    if data["memory"]:
        kept |= pick(data["memory"], *_MEMORY)
    return kept | ({"run": numbers(data["run"])} if data["run"] else {})


def footprint(data: Any) -> dict[str, Any]:
    """Every term of every moment of each different stage, and of one layer."""
    stages = {
        f"stage {stage['stage']}": {
            moment["name"]: {term["name"]: term["num_bytes"] for term in moment["terms"]}
            for moment in stage["moments"]
        }
        for stage in data["stages"]
    }
    layer = {term["name"]: term["num_bytes"] for term in data["layer_terms"]}
    return pick(data, "parameter_count", *_MEMORY, "peak_stage") | stages | {"one layer": layer}


def search(data: Any) -> dict[str, Any]:
    """The best plans in their order, how many there were, and the plans that trade time for memory."""
    kept = pick(data, "objective", "best_cluster", "best_plan")
    for one in data["clusters"]:
        result = one["result"]
        if result is None:
            kept[one["asked"]] = one["reason"]
            continue
        kept[one["asked"]] = {
            **pick(result, "num_plans", "num_valid", "num_simulated"),
            "ranked": [
                pick(plan, "option", "step_seconds", "device_memory_bytes", "objective_value")
                for plan in result["ranked"]
            ],
            "front": [plan["option"] for plan in result["front"]],
        }
    return kept


def serving(data: Any) -> dict[str, Any]:
    """The best plans of inference, and how fast they answer."""
    return {
        one["cluster"]: {
            **pick(one, "num_plans", "num_points"),
            "ranked": [
                {
                    **pick(plan, "option", "batch_size", "tokens_per_second", "memory_bytes"),
                    "first token": plan["first_token"] and plan["first_token"]["seconds"],
                    "token": plan["token"] and plan["token"]["seconds"],
                }
                for plan in one["ranked"]
            ],
        }
        for one in data["clusters"]
    }


def numbers(data: Any) -> dict[str, Any]:
    """Every number of a small document, by its path."""
    return dict(_numbers(data, ""))


def fingerprint(data: Any) -> dict[str, Any]:
    """For each key at the top: a hash of all that is no number, how many numbers, and two sums of them.

    A hash of numbers would flip where one is rounded differently; sums are compared with a tolerance. In
    ``weighed`` each number's size counts by a weight of its path, so that two that swap places are seen.
    """
    return {key: _fingerprint(value) for key, value in sorted(data.items()) if key not in OF_THIS_RUN}


def _fingerprint(value: Any) -> dict[str, Any]:
    found = dict(_numbers(value, ""))
    text = json.dumps(_structure(value), sort_keys=True, ensure_ascii=False)
    return {
        "structure": hashlib.sha256(text.encode()).hexdigest()[:12],
        "count": len(found),
        "sum": float(sum(map(abs, found.values()))),
        "weighed": float(sum(abs(x) * (1 + crc32(path.encode()) / 2**32) for path, x in found.items())),
    }


def _structure(value: Any) -> Any:
    """Keys, words with ``#`` for numbers in them, and lengths of lists."""
    if isinstance(value, Mapping):
        return {key: _structure(item) for key, item in value.items() if key not in OF_THIS_RUN}
    if isinstance(value, list):
        return [_structure(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", value)
    return value if value is None or isinstance(value, bool) else 0


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in OF_THIS_RUN:
                yield from _numbers(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _numbers(item, f"{path}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
