"""``perfcast data``: what measured tables hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.shared import output_options

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.evidence.dataset.coverage import TableSummary

_NAMES_SHOWN = 6


@click.group()
def data() -> None:
    """Look into folders of measured tables."""


@data.command()
@click.option(
    "--data", "folders", multiple=True, required=True, metavar="DIR", help="Measured tables; may be repeated."
)
@output_options(html=False, timeline=False)
def summary(folders: tuple[str, ...], json_path: str | None) -> None:
    """Count what the tables hold, what is kept of it, and why the rest is not."""
    from pathlib import Path

    from rich.console import Console

    from perfcast.catalog.devices import find_device_name, load_device_entries
    from perfcast.evidence.dataset.coverage import cover, summarise
    from perfcast.evidence.dataset.table import read_tables
    from perfcast.files import check_writable

    check_writable(json_path)
    devices = {name: entry.device for name, entry in load_device_entries().items()}
    tables = [
        summarise(raw, find_device_name, devices) for folder in folders for raw in read_tables(Path(folder))
    ]
    coverage = cover(tables)
    if json_path:
        from perfcast.report.json_format import write_json

        write_json({"tables": [table.to_json() for table in tables], "coverage": coverage}, json_path)
    if json_path != "-":
        console = Console(highlight=False)
        print_tables(tables, console)
        print_coverage(coverage, console)


def print_tables(tables: Sequence[TableSummary], console: Console) -> None:
    """One line a table, and one for every reason why something is not kept."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False)
    grid.add_column("table", no_wrap=True)
    for heading in ("devices", "operations", "dtypes", "frameworks"):
        grid.add_column(heading, overflow="fold")
    for heading in ("rows", "read", "kept"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for table in tables:
        devices = [name or f"{spelling} (unknown)" for spelling, name in table.devices.items()]
        words = [_shorten(names) for names in (devices, table.operations, table.dtypes, table.frameworks)]
        counts = [f"{n:,}" for n in (table.num_rows, table.num_measurements, table.num_kept)]
        grid.add_row(table.table, *words, *counts)
    console.print("Measured tables")
    console.print(grid)
    reasons = Table(box=None, pad_edge=False)
    reasons.add_column("table", no_wrap=True)
    reasons.add_column("reason", overflow="fold")
    reasons.add_column("count", justify="right", no_wrap=True)
    for table in tables:
        for reason, count in table.rejected.items():
            reasons.add_row(table.table, reason, f"{count:,}")
    if reasons.row_count:
        console.print("\nNot kept")
        console.print(reasons)


def print_coverage(coverage: Mapping[str, Mapping[str, int]], console: Console) -> None:
    """Devices by families: how many calls are kept."""
    from rich.table import Table

    families = sorted({family for counts in coverage.values() for family in counts})
    grid = Table(box=None, pad_edge=False)
    grid.add_column("device", no_wrap=True)
    for family in families:
        grid.add_column(family, justify="right", no_wrap=True)
    for device, counts in coverage.items():
        grid.add_row(device, *(f"{counts[f]:,}" if f in counts else "–" for f in families))
    console.print("\nKept, by device and family")
    console.print(grid)


def _shorten(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    more = [f"and {len(shown) - _NAMES_SHOWN} more"] if len(shown) > _NAMES_SHOWN else []
    return ", ".join(shown[:_NAMES_SHOWN] + more)
