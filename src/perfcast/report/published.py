"""Error tables of published training runs, in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfcast.report.tables import new_table, percent, print_table
from perfcast.report.text import print_validation
from perfcast.report.validation import error_row, print_skipped

Entry = Mapping[str, Any]

_GROUPS = ("all", "usp", "target", "target, usp", "kind", "interval", "source", "device", "devices", "plan")
#: Tables beside that of training runs, and their groups.
_OTHER_GROUPS = {
    "inference": ("table, kind", "source, kind, device", "plan"),
    "whole runs": ("all", "device", "plan"),
}


def print_published(summary: Sequence[Entry], console: Console) -> None:
    """Errors by group, ranks and choices of plans, how far repeats differ; then the other tables."""
    print_skipped([entry for entry in summary if entry["group"] == "skipped"], console)
    for group in _GROUPS:
        _print_group(summary, group, console)
    for entry in summary:
        if entry["group"] == "rank correlation":
            console.print(
                f"{entry['predictor']}: rank correlation of plans within one model, cluster and batch, "
                f"{entry['value']}: median {entry['median_rank_correlation']:.2f}, mean "
                f"{entry['mean_rank_correlation']:.2f} ({entry['num_groups']} groups, {entry['n']} plans)",
                markup=False,
                soft_wrap=True,
            )
        elif entry["group"] == "noise floor":
            console.print(
                f"repeats of one run, {entry['value']}: median distance from their median "
                f"{100 * entry['median_absolute_relative_error']:.1f} %, 90th percentile "
                f"{100 * entry['p90_absolute_relative_error']:.1f} % ({entry['n']} runs)",
                markup=False,
                soft_wrap=True,
            )
    _print_choices([entry for entry in summary if entry["group"] == "choice of plan"], console)
    for table, groups in _OTHER_GROUPS.items():
        entries = [
            {**entry, "group": entry["group"].removeprefix(f"{table}, ")}
            for entry in summary
            if entry["group"].startswith(f"{table}, ")
        ]
        if entries:
            console.print(f"\n[bold]{table.capitalize()}[/bold]")
            print_skipped([entry for entry in entries if entry["group"] == "skipped"], console)
            for group in groups:
                _print_group(entries, group, console)


def _print_choices(entries: Sequence[Entry], console: Console) -> None:
    """How good the first plan of each predictor is among the measured ones."""
    if not entries:
        return
    table = new_table("Choice of plan among the measured ones of a job")
    table.add_column("Groups")
    table.add_column("Chosen by")
    for heading in ("n", "Within 15 % of the best", "Best in first five", "Median loss"):
        table.add_column(heading, justify="right")
    for entry in entries:
        shares = (entry[k] for k in ("share_within_15_percent", "share_best_in_first_five", "median_loss"))
        table.add_row(entry["value"], entry["predictor"], f"{entry['n']}", *map(percent, shares))
    print_table(console, table)


def _print_group(summary: Sequence[Entry], group: str, console: Console) -> None:
    entries = [entry for entry in summary if entry["group"] == group and entry["n"]]
    if entries:
        print_validation([{**error_row(e), "group": e["value"]} for e in entries], console)
