"""A sweep of searches: the best plan of every cell, for a terminal and as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from perfcast.core.plan import Plan
from perfcast.core.plan_text import format_plan
from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.report.search_text import format_value
from perfcast.report.tables import new_table, percent, print_list
from perfcast.search.space.fixed import KEYS
from perfcast.units import format_bytes, format_count, format_seconds
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from perfcast.search.sweep.run import SweepResult

_CELL = ("model", "cluster", "global_batch_size", "sequence_length")
#: Objectives whose figure no column shows.
_WITH_VALUE = ("dollars-per-token", "energy-per-token", "time-to-train")
#: Characters of a row beside the names of model and cluster.
_FIGURES_WIDTH = 48
MAX_ROWS = 200


def print_sweep(found: SweepResult, objective: str, console: Console) -> None:
    """Each cell's best plan by the objective on a line beneath its figures, then cells without one."""
    progress = found.progress
    title = f"{progress.num_cells:,} cells: {progress.num_computed:,} computed, {progress.num_reused:,} kept"
    console.print(Text(title, style="bold"))
    rows = list(found.table.iter_rows(named=True))
    best = [row for row in rows if row["place"] == 1]
    if best:
        _print_cells(best[:MAX_ROWS], objective, console)
    if len(best) > MAX_ROWS:
        console.print(Text(f"The first {MAX_ROWS} of {len(best):,}; --json has all.", style="dim"))
    print_list(console, _failed(rows))
    console.print(Text(f"store: {found.folder}", style="dim"), soft_wrap=True)


def _print_cells(rows: Sequence[Mapping[str, Any]], objective: str, console: Console) -> None:
    table = new_table("")
    table.padding = (0, 0, 0, 0)
    for heading in ("Model", "Cluster"):
        table.add_column(heading, no_wrap=True)
    for heading in ("Batch", "Length", "Step", "± 90 %", "MFU", "Memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    longest = max(console.width - _FIGURES_WIDTH, 2) // 2
    for row in rows:
        table.add_row(*map(Text, _cells(row, longest)))
    headings, rule, *lines = (
        Text.assemble(*((part.text, part.style or "") for part in line))
        for line in console.render_lines(table, pad=False)
    )
    console.print(headings, rule, sep="\n")
    for row, line in zip(rows, lines, strict=True):
        console.print(line)
        console.print(Padding(Text(_plan_line(row, objective), style="dim"), (0, 0, 0, 2)))


def _cells(row: Mapping[str, Any], longest: int) -> list[str]:
    half = (row["step_seconds_high"] - row["step_seconds_low"]) / 2
    model, cluster = _file_name(row["model"]), _file_name(row["cluster"])
    return [
        model if len(model) <= longest else f"{model[: longest - 1]}…",
        cluster if len(cluster) <= longest else f"…{cluster[1 - longest :]}",  # its end is its devices
        f"{row['global_batch_size']:,}", f"{row['sequence_length']:,}", format_seconds(row["step_seconds"]),
        percent(half / row["step_seconds"]), percent(row["mfu"]), format_bytes(row["device_memory_bytes"]),
    ]  # fmt: skip


def _file_name(name: str) -> str:
    """A file without its folder, a model's config by its folder."""
    return name.removesuffix("/config.json").rstrip("/").rpartition("/")[2]


def _plan_line(row: Mapping[str, Any], objective: str) -> str:
    """The objective's figure where no column has it, the rate, and the plan as ``--compare`` takes it."""
    figures = [format_value(row["value"], objective)] if objective in _WITH_VALUE else []
    rate = f"{format_count(row['tokens_per_second'])} tokens/s"
    return " · ".join([*figures, rate, format_plan(_plan(row), " ")])


def _plan(row: Mapping[str, Any]) -> Plan:
    values = {name: row[key] for key, name in KEYS.items()}
    values["stage_layers"] = tuple(int(layers) for layers in row["stages"].split("/") if layers)
    num_micro_batches = row["global_batch_size"] // (row["dp"] * row["mbs"])
    return Plan(**values, num_micro_batches=num_micro_batches)


def _failed(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    failed = [row for row in rows if row["place"] == 0]
    lines = [("·", f"{', '.join(str(row[key]) for key in _CELL)}: {row['outcome']}") for row in failed]
    more = [("·", f"{len(lines) - MAX_ROWS:,} more without a plan")] if len(lines) > MAX_ROWS else []
    return lines[:MAX_ROWS] + more


def sweep_to_dict(found: SweepResult, objective: str) -> dict[str, Any]:
    """Every row, in the keys of ``sweep_schema``; a cell without a plan has nulls and says why."""
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "objective": objective,
        "num_cells": found.progress.num_cells,
        "num_computed": found.progress.num_computed,
        "num_reused": found.progress.num_reused,
        "num_repeated_batches": found.progress.num_repeated,
        "store": str(found.folder),
        "rows": list(found.table.iter_rows(named=True)),
    }


@cache
def sweep_schema() -> dict[str, Any]:
    """The published schema."""
    folder = resources.files("perfcast.report").joinpath("schema")
    schema: dict[str, Any] = json.loads(folder.joinpath("search_sweep.schema.json").read_text("utf-8"))
    return schema
