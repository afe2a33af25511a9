"""A choice of sharding as JSON by a published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from perfcast.core.embedding.lookup import EmbeddingTable, TablePlacement
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.search.sharding.on_cluster import ShardingFindings
from perfcast.search.sharding.result import BaselineTime, ShardingTime
from perfcast.version import perfcast_version


def sharding_to_dict(found: ShardingFindings) -> dict[str, Any]:
    """Everything that was found, in the keys of ``shard_schema``."""
    choice = found.choice
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "cluster": found.cluster,
        "device": found.device,
        "num_devices": choice.num_ranks,
        "global_batch_size": choice.global_batch_size,
        "optimizer": found.optimizer,
        "cost_model": found.cost_model,
        "memory_limit_bytes": choice.memory_limit_bytes,
        "time": _time_to_dict(choice.time),
        "tables": [
            _table_to_dict(table, placement)
            for table, placement in zip(choice.tables, choice.placements, strict=True)
        ],
        "devices": [asdict(rank) for rank in choice.ranks],
        "baselines": [_baseline_to_dict(one) for one in choice.baselines],
        "found_from": choice.origin,
        "num_changes": choice.num_rounds,
        "assumptions": list(found.assumptions),
    }


@cache
def shard_schema() -> dict[str, Any]:
    """The published schema."""
    text = resources.files("perfcast.report").joinpath("schema", "shard.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _time_to_dict(time: ShardingTime) -> dict[str, Any]:
    return asdict(time) | {"exchange_seconds": time.exchange_seconds}


def _table_to_dict(table: EmbeddingTable, placement: TablePlacement) -> dict[str, Any]:
    return {
        "name": table.name,
        "num_rows": table.num_rows,
        "dim": table.dim,
        "pooling": table.pooling,
        "weight_bytes": table.weight_bytes,
        **_placement_to_dict(placement),
    }


def _placement_to_dict(placement: TablePlacement) -> dict[str, Any]:
    return {"sharding": placement.kind.value, "ranks": list(placement.ranks)}


def _baseline_to_dict(one: BaselineTime) -> dict[str, Any]:
    return {
        "name": one.name,
        "fits": one.time is not None,
        "time": None if one.time is None else _time_to_dict(one.time),
        "takes_longer_fraction": one.gain,
        "takes_longer_fraction_low": one.gain_low,
        "takes_longer_fraction_high": one.gain_high,
        "placements": None
        if one.placements is None
        else [_placement_to_dict(placement) for placement in one.placements],
    }
