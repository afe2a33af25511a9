"""Model cards of the trained predictors, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]


def print_predictors(predictors: Iterable[Row], console: Console) -> None:
    """A list: ``name``, ``description``, ``trained`` (where, or how to train it)."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("Name", "What it is", "Trained"):
        table.add_column(name, overflow="fold")
    for row in predictors:
        table.add_row(Text(row["name"]), Text(row["description"]), Text(row["trained"]))
    console.print(table)


def print_card(card: Row, console: Console) -> None:
    """``learned``: data, protocol, limits, and errors by operation and device."""
    console.print(Text("learned: our forecaster", style="bold"))
    for key in ("protocol", "limits", "command"):
        console.print(Text(f"{key.capitalize()}: {card[key]}"))
    for model in card["models"]:
        _print_model(model, console)


def _print_model(model: Row, console: Console) -> None:
    record = model["record"]
    console.print()
    console.print(Text(f"{model['name']}: {record['num_rows']} rows", style="bold"))
    console.print(Text(f"devices {', '.join(record['devices'])}"))
    console.print(Text(f"tables {', '.join(record['tables'])}"))
    if record["left_out"]:
        console.print(Text(f"left out {', '.join(record['left_out'])}"))
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("Operation", overflow="fold")
    table.add_column("Format", no_wrap=True)
    for name in ("Devices", "Rows", "Known", "Unseen"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in model["errors"]:
        table.add_row(
            Text(row["operation"]), Text(row["dtype"]), str(row["devices"]), str(row["count"]),
            _percent(row["known_error"]), _percent(row["unseen_error"]),
        )  # fmt: skip
    console.print(table)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
