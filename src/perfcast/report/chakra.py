"""Chakra traces in the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any

from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.units import format_bytes, format_seconds
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.traces.chakra.summary import ChakraSummary, WorkloadSummary


def chakra_to_dict(summary: WorkloadSummary, written: Sequence[str]) -> dict[str, Any]:
    """What traces hold, and the files that were written."""
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        **asdict(summary),
        "groups": {name: list(ranks) for name, ranks in summary.groups.items()},
        "files": list(written),
    }


def chakra_schema() -> dict[str, Any]:
    """The published schema."""
    file = resources.files("perfcast.report").joinpath("schema", "trace_chakra.schema.json")
    schema: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return schema


def print_chakra(summary: WorkloadSummary, written: Sequence[str], console: Console) -> None:
    """Each rank, all together, and what was written."""
    for rank in summary.ranks:
        console.print(_head(rank), markup=False)
        console.print(f"  {_counts(rank.num_nodes_by_type)}", markup=False)
        if rank.num_collectives_by_type:
            size = format_bytes(rank.communication_bytes)
            console.print(f"  {_counts(rank.num_collectives_by_type)}: {size} put in", markup=False)
        console.print(f"  longest path {_path(rank)}", markup=False)
        if rank.num_missing:
            console.print(f"  {rank.num_missing} dependencies on nodes that are not there", markup=False)
    if len(summary.ranks) > 1:
        together = summary.problem or format_seconds(summary.together_seconds or 0.0)
        console.print(f"all ranks together: {together}", markup=False)
    if summary.num_objections:
        console.print(f"ASTRA-sim would not take it ({summary.num_objections} reasons):", markup=False)
        for objection in summary.objections:
            console.print(f"  {objection}", markup=False)
    for path in written:
        console.print(f"wrote {path}", markup=False)


def _head(rank: ChakraSummary) -> str:
    number = f"rank {rank.rank}" if rank.rank >= 0 else "rank unknown"
    return f"{number}: {rank.num_nodes} nodes, {rank.num_dependencies} dependencies ({rank.source})"


def _counts(counts: dict[str, int] | Any) -> str:
    return ", ".join(f"{count} {name.replace('_', '-')}" for name, count in counts.items())


def _path(rank: ChakraSummary) -> str:
    path = format_seconds(rank.longest_path_seconds)
    if not rank.measured_seconds:
        return path
    error = round(rank.longest_path_seconds / rank.measured_seconds - 1, 4) + 0.0
    return f"{path}; recorded {format_seconds(rank.measured_seconds)} ({error:+.2%})"
