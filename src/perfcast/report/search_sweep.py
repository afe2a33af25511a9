"""A sweep of searches: the best plan of every cell, for a terminal and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from perfcast.report.json_format import SCHEMA_VERSION, perfcast_version
from perfcast.report.tables import new_table, percent, print_list, print_table
from perfcast.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from perfcast.search.sweep_run import SweepResult

_CELL = ("model", "cluster", "global_batch_size", "sequence_length")
#: Keys of a plan that are shown where they are not these.
_USUAL: Mapping[str, object] = {
    "tp": 1, "pp": 1, "cp": 1, "ep": 1, "vp": 1, "zero": 0, "recompute": "none", "offload": "none",
}  # fmt: skip
MAX_ROWS = 200


def print_sweep(found: SweepResult, console: Console) -> None:
    """A row for each cell's best plan, then cells without one."""
    progress = found.progress
    title = f"{progress.num_cells:,} cells: {progress.num_computed:,} computed, {progress.num_reused:,} kept"
    console.print(Text(title, style="bold"))
    rows = list(found.table.iter_rows(named=True))
    table = new_table("")
    table.add_column("Model", overflow="fold")
    table.add_column("Cluster", overflow="fold")
    for heading in ("Batch", "Length", "Step", "MFU", "Tokens/s", "Memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Plan", overflow="fold")
    best = [row for row in rows if row["place"] == 1]
    for row in best[:MAX_ROWS]:
        table.add_row(*map(Text, _cells(row)))
    print_table(console, table)
    if len(best) > MAX_ROWS:
        console.print(Text(f"The first {MAX_ROWS} of {len(best):,}; --json has all.", style="dim"))
    print_list(console, _failed(rows))
    console.print(Text(f"store: {found.folder}", style="dim"), soft_wrap=True)


def _cells(row: Mapping[str, Any]) -> list[str]:
    plan = ",".join(f"{key}={row[key]}" for key, usual in _USUAL.items() if row[key] != usual)
    return [
        row["model"], row["cluster"], f"{row['global_batch_size']:,}", f"{row['sequence_length']:,}",
        format_seconds(row["step_seconds"]), percent(row["mfu"]), format_count(row["tokens_per_second"]),
        format_bytes(row["device_memory_bytes"]), f"{plan},mbs={row['mbs']}".lstrip(","),
    ]  # fmt: skip


def _failed(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    failed = [row for row in rows if row["place"] == 0]
    lines = [("·", f"{', '.join(str(row[key]) for key in _CELL)}: {row['outcome']}") for row in failed]
    more = [("·", f"{len(lines) - MAX_ROWS:,} more without a plan")] if len(lines) > MAX_ROWS else []
    return lines[:MAX_ROWS] + more


def sweep_to_dict(found: SweepResult) -> dict[str, Any]:
    """Every row in SI units; a cell without a plan has nulls and says why."""
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "num_cells": found.progress.num_cells,
        "num_computed": found.progress.num_computed,
        "num_reused": found.progress.num_reused,
        "num_repeated_batches": found.progress.num_repeated,
        "store": str(found.folder),
        "rows": list(found.table.iter_rows(named=True)),
    }
