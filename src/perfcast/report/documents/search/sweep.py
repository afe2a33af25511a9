"""A sweep of searches: the best plan of every cell, then cells without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perfcast.core.plan import Plan
from perfcast.core.plans.text import format_plan
from perfcast.report.document import Block, Column, Document, Fact, Items, Section, Table, share_of
from perfcast.report.documents.search.figures import format_objective
from perfcast.report.values import Value, format_value
from perfcast.searches.space.fixed import KEYS

if TYPE_CHECKING:
    from perfcast.searches.sweep.run import SweepResult

_CELL = ("model", "cluster", "global_batch_size", "sequence_length")
#: Objectives whose figure no column shows.
_WITH_VALUE = ("dollars-per-token", "energy-per-token", "time-to-train")
MAX_ROWS = 200
#: Characters that a name of a model or cluster gets.
_NAME_WIDTH = 16


def document_of(found: SweepResult, objective: str) -> Document:
    """Each cell's best plan by the objective, then cells without one."""
    progress = found.progress
    rows = list(found.table.iter_rows(named=True))
    best = [row for row in rows if row["place"] == 1]
    blocks: list[Block] = []
    if best:
        blocks.append(Section(title="Best plan of each cell", blocks=(_cells(best, objective),)))
    blocks.append(Items(_failed(rows)))
    return Document(
        title=(
            f"{progress.num_cells:,} cells: {progress.num_computed:,} computed, {progress.num_reused:,} kept"
        ),
        facts=(Fact("Store", str(found.folder)),),
        blocks=tuple(blocks),
    )


def _cells(rows: Sequence[Mapping[str, Any]], objective: str) -> Table:
    return Table(
        columns=(
            Column("Model", folds=False, most_width=_NAME_WIDTH),
            Column("Cluster", folds=False, most_width=_NAME_WIDTH, cut="left"),
            Column("Batch", "number"),
            Column("Length", "number"),
            Column("Step", "s"),
            Column("± 90 %", "share"),
            Column("MFU", "share"),
            Column("Memory", "B"),
            Column("Plan", is_below=True),
        ),
        rows=tuple(_row(row, objective) for row in rows),
        things="cells; --json has all",
        most_rows=MAX_ROWS,
    )


def _row(row: Mapping[str, Any], objective: str) -> tuple[Value, ...]:
    half = (row["step_seconds_high"] - row["step_seconds_low"]) / 2
    return (
        _file_name(row["model"]),
        _file_name(row["cluster"]),
        row["global_batch_size"],
        row["sequence_length"],
        row["step_seconds"],
        share_of(half, row["step_seconds"]),
        row["mfu"],
        row["device_memory_bytes"],
        _plan_line(row, objective),
    )


def _file_name(name: str) -> str:
    """A file without its folder, a model's config by its folder."""
    return name.removesuffix("/config.json").rstrip("/").rpartition("/")[2]


def _plan_line(row: Mapping[str, Any], objective: str) -> str:
    """The objective's figure where no column has it, the rate, and the plan as ``--compare`` takes it."""
    figures = [format_objective(row["value"], objective)] if objective in _WITH_VALUE else []
    rate = format_value(row["tokens_per_second"], "tokens/s")
    return " · ".join([*figures, rate, format_plan(_plan(row), " ")])


def _plan(row: Mapping[str, Any]) -> Plan:
    values = {name: row[key] for key, name in KEYS.items()}
    values["stage_layers"] = tuple(int(layers) for layers in row["stages"].split("/") if layers)
    num_micro_batches = row["global_batch_size"] // (row["dp"] * row["mbs"])
    return Plan(**values, num_micro_batches=num_micro_batches)


def _failed(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    failed = [row for row in rows if row["place"] == 0]
    lines = [("·", f"{', '.join(str(row[key]) for key in _CELL)}: {row['outcome']}") for row in failed]
    more = [("·", f"{len(lines) - MAX_ROWS:,} more without a plan")] if len(lines) > MAX_ROWS else []
    return tuple(lines[:MAX_ROWS] + more)
