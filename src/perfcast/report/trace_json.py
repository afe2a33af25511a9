"""An explained recording as JSON by a published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from typing import Any

from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.traces.critical_path.path import CriticalPath
from perfcast.traces.explain.breakdown import Breakdown, TimeShare
from perfcast.traces.explain.compare import Comparison
from perfcast.traces.explain.recordings import Explanation, RankExplanation
from perfcast.version import perfcast_version

#: Rows of a table of shares, and stretches of a path, that are written; what is left out is counted.
MAX_SHARES, MAX_STRETCHES = 500, 5000


def explanation_to_dict(explanation: Explanation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Everything that was found, in the keys of ``explanation_schema``."""
    imbalance = explanation.imbalance
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "step_seconds": explanation.mean_step_seconds,
        "ranks": [_rank(rank) for rank in explanation.ranks],
        "collectives": [
            {**asdict(item), "bus_bytes_per_second": item.bus_bytes_per_second}
            for item in explanation.collectives
        ],
        "imbalance": {
            "ranks": [asdict(load) for load in imbalance.ranks],
            "num_matched_collectives": imbalance.num_matched,
            "compute_imbalance": imbalance.compute_imbalance,
            "embedding_imbalance": imbalance.embedding_imbalance,
        },
        "comparison": _comparison(comparison) if comparison else None,
        "notes": list(explanation.notes),
    }


def _rank(rank: RankExplanation) -> dict[str, Any]:
    own = rank.breakdown
    return {
        "source": own.source,
        "rank": own.rank,
        "world_size": own.world_size,
        "platform": own.platform,
        "device": own.device,
        "on_device": own.on_device,
        "window_seconds": own.window_seconds,
        "steps": [{"number": number, "seconds": seconds} for number, seconds in own.step_seconds],
        "host_seconds": own.host_seconds,
        "num_launches": own.num_launches,
        "device_time": _device_time(own),
        **{name: _shares(getattr(own, name)) for name in _SHARES},
        "overheads": [
            {"overhead": o.overhead.value, "seconds": o.seconds, "count": o.count} for o in rank.overheads
        ],
        "critical_path": _path(rank.critical_path),
    }


_SHARES = ("kinds", "phases", "modules", "ranges", "operators", "kernels", "streams")


def _device_time(own: Breakdown) -> dict[str, float]:
    time = own.device_time
    return {
        **asdict(time),
        "busy_seconds": time.busy_seconds,
        "idle_seconds": time.idle_seconds,
        "host_bound_share": time.host_bound_share,
    }


def _shares(shares: tuple[TimeShare, ...]) -> dict[str, Any]:
    rows = [{"label": s.label, "seconds": s.seconds, "count": s.count, "kind": s.kind} for s in shares]
    return {"rows": rows[:MAX_SHARES], "num_rows": len(rows)}


def _path(path: CriticalPath) -> dict[str, Any]:
    stretches = [
        {
            "begin_event": stretch.begin_row,
            "end_event": stretch.end_row,
            "event": stretch.row,
            "name": stretch.name,
            "kind": stretch.kind.value,
            "bound_by": stretch.bound_by.value,
            "start_seconds": stretch.start_seconds,
            "seconds": stretch.seconds,
        }
        for stretch in path.stretches[:MAX_STRETCHES]
    ]
    return {
        "seconds": path.seconds,
        "seconds_by_bound": path.seconds_by_bound,
        "has_synchronizations": path.has_synchronizations,
        "num_stretches": len(path.stretches),
        "stretches": stretches,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    names = ("parts", "kinds", "phases", "operators", "kernels", "modules", "overheads")
    return {
        "before_step_seconds": comparison.before_step_seconds,
        "after_step_seconds": comparison.after_step_seconds,
        **{
            name: [
                {**asdict(change), "seconds": change.seconds, "ratio": change.ratio}
                for change in getattr(comparison, name)[:MAX_SHARES]
            ]
            for name in names
        },
    }


def explanation_schema() -> dict[str, Any]:
    """The published schema."""
    folder = resources.files("perfcast.report").joinpath("schema")
    schema: dict[str, Any] = json.loads(folder.joinpath("trace_explain.schema.json").read_text("utf-8"))
    return schema
