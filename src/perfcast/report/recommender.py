"""A forecast of a recommendation model's step on a terminal and as JSON."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from perfcast.core.forecast.recommender import RECOMMENDER_CAUSES, RecommenderForecast
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.units import format_bytes, format_count, format_seconds
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from rich.console import Console

#: Ranks shown one by one; beyond, the slowest in lookups.
_MOST_RANKS = 16


def print_recommender_forecast(forecast: RecommenderForecast, console: Console) -> None:
    """Step, throughput, memory, and where each rank's time goes."""
    from perfcast.report.tables import new_table

    low, high = (format_seconds(s) for s in (forecast.step_seconds_low, forecast.step_seconds_high))
    fits = "fits" if forecast.peak_memory_bytes <= forecast.capacity_bytes else "DOES NOT FIT"
    lines = (
        f"{forecast.model.name} on {forecast.num_devices} × {forecast.device} ({forecast.cluster}), "
        f"batch {forecast.global_batch_size}, {forecast.dtype}, tables by {forecast.optimizer}",
        f"step {format_seconds(forecast.step_seconds)} ({low} to {high}), "
        f"{format_count(forecast.samples_per_second, 'samples/s')}",
        f"memory {format_bytes(forecast.peak_memory_bytes)}, {fits} {format_bytes(forecast.capacity_bytes)}",
        f"slowest rank's lookups {forecast.lookup_imbalance:.2f} × the mean",
    )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    table = new_table("Where each rank's step goes")
    for name in ("rank", "shards", *RECOMMENDER_CAUSES, "memory"):
        table.add_column(name.replace("-", "- "), justify="right")  # so that it may break there
    ranks = forecast.ranks
    if len(ranks) > _MOST_RANKS:
        ranks = tuple(sorted(ranks, key=lambda r: -r.seconds_by_cause["lookup backward"])[:_MOST_RANKS])
    for rank in ranks:
        seconds = (_spent(rank.seconds_by_cause[cause]) for cause in RECOMMENDER_CAUSES)
        table.add_row(str(rank.rank), str(rank.num_shards), *seconds, format_bytes(rank.memory_bytes))
    console.print(table)
    console.print()
    for note in forecast.assumptions:
        console.print(f"- {note}", markup=False, soft_wrap=True)


def _spent(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "–"


def recommender_to_dict(forecast: RecommenderForecast) -> dict[str, Any]:
    """Everything but the timeline, in the keys of ``recommender_schema``."""
    names = [table.name for table in forecast.model.tables]
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "model": forecast.model.name,
        "cluster": forecast.cluster,
        "device": forecast.device,
        "num_devices": forecast.num_devices,
        "global_batch_size": forecast.global_batch_size,
        "dtype": forecast.dtype,
        "optimizer": forecast.optimizer,
        "cost_model": forecast.cost_model,
        "step_seconds": forecast.step_seconds,
        "step_seconds_low": forecast.step_seconds_low,
        "step_seconds_high": forecast.step_seconds_high,
        "samples_per_second": forecast.samples_per_second,
        "peak_memory_bytes": forecast.peak_memory_bytes,
        "capacity_bytes": forecast.capacity_bytes,
        "lookup_imbalance": forecast.lookup_imbalance,
        "segment_seconds": dict(forecast.segment_seconds),
        "exchange_bytes": dict(forecast.exchange_bytes),
        "sharding": [
            {"table": name, "kind": place.kind.value, "ranks": list(place.ranks)}
            for name, place in zip(names, forecast.placements, strict=True)
        ],
        "ranks": [
            {
                "rank": rank.rank,
                "seconds_by_cause": dict(rank.seconds_by_cause),
                "memory_bytes": rank.memory_bytes,
                "num_shards": rank.num_shards,
            }
            for rank in forecast.ranks
        ],
        "assumptions": list(forecast.assumptions),
    }


@cache
def recommender_schema() -> dict[str, Any]:
    """The published schema."""
    text = resources.files("perfcast.report").joinpath("schema", "recommender.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
