"""Measured against predicted: the error tables of suites, predictors side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perfcast.report.document import Block, Cell, Column, Document, Items, Section, Table
from perfcast.report.values import percent
from perfcast.units import format_bytes, format_seconds

#: An entry of a suite's summary, or a row of it, as it is written as JSON.
Entry = Mapping[str, Any]

#: All rows of a suite: in one group, or by what was measured where that cannot be added up.
_WHOLE = ("all", "operation")
_PAIRED = "paired with "
_SOUND = "sound, "
#: Groups that are shown with the predictors side by side, and what they are called.
_SIDE_BY_SIDE = {
    "quality, operation, device": "Kernels by operation and device, sound measurements",
    "model, mode": "Steps by model",
    "mode, device": "Steps by device",
    "variant": "Steps, as run and compiled",
    "part, device": "Forward and backward of training apart",
    "distribution": "Devices and models that the study's own predictors had seen, and others",
    "half, operation": "By the half of configurations that constants were fitted to, and the other",
    "operation, framework": "By program",
    "provenance": "By what the predictor knows of it",
    "quality": "By what is known of the measurement",
}
_MEMORY_GROUPS = ("metric", "metric, source", "metric, table", "metric, device", "metric, devices")


def describe_row(row: Entry) -> str:
    """One row of a suite as it is done: what, predicted, measured, signed error."""
    what = f"{row['row']} · {row['predictor']}"
    if row["skipped"]:
        return f"{what:32} skipped: {row['skipped']}"
    low, high = (format_seconds(row[f"predicted_seconds_{end}"]) for end in ("low", "high"))
    return (
        f"{what:32} predicted {format_seconds(row['predicted_seconds']):>8} ({low} – {high})  "
        f"measured {format_seconds(row['measured_seconds']):>8}  {row['relative_error']:+.1%}"
    )


def summary_document(summary: Sequence[Entry]) -> Document:
    """The summary of a suite, one line per predictor and group."""
    entries = [entry for entry in summary if entry["group"] in ("all", "mode")]
    return Document(title="Validation", blocks=(error_table(entries),))


def suite_document(summary: Sequence[Entry]) -> Document:
    """All error tables of a suite over measured tables, predictors side by side."""
    whole = next((group for group in _WHOLE if any(entry["group"] == group for entry in summary)), "all")
    blocks: list[Block] = [
        error_table([entry for entry in summary if entry["group"] == whole], names_group=whole == "all"),
        skipped_items(summary),
    ]
    for group, title in _SIDE_BY_SIDE.items():
        entries = [entry for entry in summary if entry["group"] == group and entry["n"]]
        if group.startswith("quality, "):
            entries = [
                {**entry, "value": entry["value"].removeprefix(_SOUND)}
                for entry in entries
                if entry["value"].startswith(_SOUND)
            ]
        if entries:
            blocks.append(_side_by_side(title, entries))
    paired = [entry for entry in summary if entry["group"].startswith(_PAIRED)]
    if paired:
        blocks.append(_paired(paired))
    return Document(title="Validation", blocks=tuple(blocks))


def memory_document(rows: Iterable[Entry], summary: Sequence[Entry]) -> Document:
    """Every measurement of the memory suite, then its error tables and what it says of outcomes."""
    lines = Items(tuple(("·", describe_memory_row(row)) for row in rows))
    errors = [entry for entry in summary if entry["group"] in _MEMORY_GROUPS and entry["n"]]
    blocks: list[Block] = [lines, skipped_items(summary), error_table(errors, names_group=False)]
    outcomes = [entry for entry in summary if entry["group"].startswith("outcome")]
    if outcomes:
        blocks.append(_outcomes(outcomes))
    return Document(title="Validation of memory", blocks=tuple(blocks))


def describe_memory_row(row: Entry) -> str:
    """'training:12 · usp · allocated  predicted 24.1 GiB (22 GiB – 26 GiB)  measured 24.2 GiB  -0.5%'."""
    what = f"{row['table']}:{str(row['row']).rpartition(':')[2]} · {row['collection']} · {row['metric']}"
    marks = "".join(
        f"  {text} {row[key]}"
        for key, text in (("duplicate_of", "same as"), ("contradicted_by", "contradicted by"))
        if row.get(key)
    )
    if row["skipped"]:
        return f"{what:52} skipped: {row['skipped']}{marks}"
    low, high = (format_bytes(row[f"predicted_bytes_{end}"]) for end in ("low", "high"))
    predicted = f"predicted {format_bytes(row['predicted_bytes']):>8} ({low} – {high})"
    if row["metric"] == "outcome":
        said, was = (("fits" if row[f"{who}_fits"] else "fails") for who in ("predicted", "measured"))
        return f"{what:52} {predicted}  called {said}, {was}{marks}"
    measured = f"measured {format_bytes(row['measured_bytes']):>8}  {row['relative_error']:+.1%}"
    return f"{what:52} {predicted}  {measured}{marks}"


def _outcomes(entries: Sequence[Entry]) -> Table:
    return Table(
        title="Runs called as they went, in percent",
        columns=(
            Column("Predictor", folds=False),
            Column("Runs", folds=False),
            Column("Rows"),
            Column("Skipped"),
            Column("Called right"),
        ),
        rows=tuple(
            (
                entry["predictor"],
                entry["value"],
                entry["n"],
                entry["skipped"],
                hundredths(entry["share_called_right"]),
            )
            for entry in entries
        ),
        is_wide=True,
    )


def error_table(entries: Sequence[Entry], *, names_group: bool = True) -> Table:
    """Errors of the predictions, one line per predictor and group.

    Args:
        names_group: Whether the value of a group stands after the group's name.
    """
    return Table(
        title="Error of the predictions, in percent",
        columns=(
            Column("Predictor", folds=False),
            Column("Group"),
            Column("Rows"),
            Column("Skipped"),
            *(Column(name) for name in ("Mean", "Median", "90th", "Bias", "Covered")),
        ),
        rows=tuple(
            (
                entry["predictor"],
                _group(entry, names_group),
                entry["n"],
                entry["skipped"],
                hundredths(entry["mean_absolute_relative_error"]),
                hundredths(entry["median_absolute_relative_error"]),
                hundredths(entry["p90_absolute_relative_error"]),
                hundredths(entry["mean_relative_error"], "+"),
                hundredths(entry["coverage"]),
            )
            for entry in entries
        ),
    )


def _group(entry: Entry, names_group: bool) -> str:
    if not names_group:
        return str(entry["value"])
    return f"{entry['group']} {entry['value']}" if entry["group"] != "all" else "all"


def hundredths(fraction: float | None, sign: str = "") -> Cell | None:
    """A fraction in percent, under a heading that says so."""
    return None if fraction is None else Cell(f"{100 * fraction:{sign}.1f}", fraction)


def skipped_items(summary: Sequence[Entry]) -> Items:
    """'learned skipped 2,881 rows: unsupported operation 598, …'."""
    entries = [entry for entry in summary if entry["group"] == "skipped"]
    lines = []
    for name in dict.fromkeys(entry["predictor"] for entry in entries):
        mine = [entry for entry in entries if entry["predictor"] == name]
        reasons = ", ".join(f"{entry['value']} {entry['skipped']:,}" for entry in mine)
        total = sum(entry["skipped"] for entry in mine)
        lines.append(("·", f"{name} skipped {total:,} rows: {reasons}"))
    return Items(tuple(lines))


def _side_by_side(title: str, entries: Sequence[Entry]) -> Table:
    """A line for each value; for each predictor mean error in percent, rows judged, and coverage if any."""
    judged = dict.fromkeys(entry["predictor"] for entry in entries)
    sure = dict.fromkeys(entry["predictor"] for entry in entries if entry["coverage"] is not None)
    found = {(entry["value"], entry["predictor"]): entry for entry in entries}
    columns = [Column("", least_width=20)]
    for name in judged:
        columns.append(Column(name, short=name.replace(":", ":\n")))
        if name in sure:
            columns.append(Column("Covered"))
    rows = []
    for value in dict.fromkeys(entry["value"] for entry in entries):
        cells: list[str | Cell | None] = [value]
        for name in judged:
            entry = found.get((value, name))
            cells += [_error(entry), *([_coverage(entry)] if name in sure else [])]
        rows.append(tuple(cells))
    return Table(
        title=f"{title}: mean error in percent (rows)",
        columns=tuple(columns),
        rows=tuple(rows),
        is_wide=True,
    )


def _error(entry: Entry | None) -> Cell:
    """'8.2 (59)': mean absolute relative error, rows."""
    if entry is None or not entry["n"]:
        return Cell("–")
    mean = entry["mean_absolute_relative_error"]
    return Cell(f"{100 * mean:.1f} ({entry['n']})", mean)


def _coverage(entry: Entry | None) -> Cell:
    if entry is None or entry["coverage"] is None:
        return Cell("–")
    return Cell(f"{100 * entry['coverage']:.0f} %", entry["coverage"])


def _paired(entries: Sequence[Entry]) -> Table:
    first, second = entries[0]["predictor"], entries[0]["group"].removeprefix(_PAIRED)
    names = (first, second, "Difference", "90 % interval", "Better")
    return Table(
        title=f"{first} and {second} on the same steps: mean error in percent, difference in points",
        columns=(
            Column("Steps", least_width=12),
            Column("n"),
            *(Column(name, short=name.replace(":", ":\n")) for name in names),
        ),
        rows=tuple(_pair(entry) for entry in entries),
        is_wide=True,
    )


def _pair(entry: Entry) -> tuple[str | int | Cell | None, ...]:
    low, high = entry["mean_difference_low"], entry["mean_difference_high"]
    return (
        entry["value"],
        entry["n"],
        hundredths(entry["mean_absolute_relative_error"]),
        hundredths(entry["mean_absolute_relative_error_other"]),
        hundredths(entry["mean_difference"], "+"),
        Cell(f"{100 * low:+.1f} to {100 * high:+.1f}", low),
        Cell(f"{entry['wins']} of {entry['n']}", entry["wins"]),
    )


def collectives_document(summary: Sequence[Entry]) -> Document:
    """Errors over all rows and by range of size, then by system and collective."""
    shown = [entry for entry in summary if entry["group"] in ("all", "sizes", "message", "collection")]
    named = [
        {**entry, "value": "all"} if entry["group"] == "all" else entry
        for entry in shown
        if entry["n"] or entry["group"] == "all"
    ]
    blocks: list[Block] = [error_table(named, names_group=False)]
    for group, title in (
        ("skipped", "Rows without a forecast"),
        ("system, operation", "By system and collective"),
        ("group, operation", "By group (members on each level) and collective"),
    ):
        entries = [
            entry for entry in summary if entry["group"] == group and (entry["n"] or group == "skipped")
        ]
        if entries:
            blocks.append(_spreads(title, entries))
    published = [entry for entry in summary if "published_mean_absolute_relative_error" in entry]
    if published:
        blocks.append(_stated(published))
    return Document(title="Validation of collectives", blocks=tuple(blocks))


def _spreads(title: str, entries: Sequence[Entry]) -> Table:
    """A line per value, predictors side by side: median, 90th percentile and mean in percent, rows."""
    names = list(dict.fromkeys(entry["predictor"] for entry in entries))
    found = {(entry["value"], entry["predictor"]): entry for entry in entries}
    return Table(
        title=f"{title}: error in percent, median / 90th percentile / mean (rows)",
        columns=(Column(""), *(Column(name) for name in names)),
        rows=tuple(
            (value, *(_spread(found.get((value, name))) for name in names))
            for value in dict.fromkeys(entry["value"] for entry in entries)
        ),
    )


def _spread(entry: Entry | None) -> Cell:
    if entry is None:
        return Cell("–")
    if not entry["n"]:
        return Cell(f"{entry['skipped']} skipped" if entry["skipped"] else "–")
    keys = ("median_absolute_relative_error", "p90_absolute_relative_error", "mean_absolute_relative_error")
    text = f"{' / '.join(f'{100 * entry[key]:.1f}' for key in keys)} ({entry['n']})"
    return Cell(text, entry[keys[0]])


def _stated(entries: Sequence[Entry]) -> Table:
    return Table(
        title="All-reduce on HGX H100: mean error in percent, and what ASTRA-sim states of itself",
        columns=(
            Column("GPUs"),
            Column("Predictor"),
            Column("Rows"),
            Column("Ours"),
            Column("ASTRA-sim"),
        ),
        rows=tuple(
            (
                Cell(str(entry["value"])),
                entry["predictor"],
                entry["n"],
                hundredths(entry["mean_absolute_relative_error"]),
                hundredths(entry["published_mean_absolute_relative_error"]),
            )
            for entry in entries
        ),
    )


def choice_table(entries: Sequence[Entry]) -> Table:
    """How good the first plan of each predictor is among the measured ones."""
    keys = ("share_within_15_percent", "share_best_in_first_five", "median_loss")
    return Table(
        title="Choice of plan among the measured ones of a job",
        columns=(
            Column("Groups"),
            Column("Chosen by"),
            Column("n"),
            Column("Within 15 % of the best", "share"),
            Column("Best in first five", "share"),
            Column("Median loss", "share"),
        ),
        rows=tuple(
            (entry["value"], entry["predictor"], entry["n"], *(entry[key] for key in keys))
            for entry in entries
        ),
    )


_PUBLISHED_GROUPS = (
    "all", "usp", "target", "target, usp", "kind", "interval", "source", "device", "devices", "plan",
)  # fmt: skip
#: Tables beside that of training runs, and their groups.
_OTHER_GROUPS = {
    "inference": ("table, kind", "source, kind, device", "plan"),
    "whole runs": ("all", "device", "plan"),
}


def published_document(summary: Sequence[Entry]) -> Document:
    """Errors by group, ranks and choices of plans, how far repeats differ; then the other tables."""
    choices = [entry for entry in summary if entry["group"] == "choice of plan"]
    blocks: list[Block] = [
        skipped_items(summary),
        *_group_tables(summary, _PUBLISHED_GROUPS),
        Items(tuple(("·", line) for line in map(_remark, summary) if line)),
        choice_table(choices),
    ]
    for table, groups in _OTHER_GROUPS.items():
        entries = [
            {**entry, "group": entry["group"].removeprefix(f"{table}, ")}
            for entry in summary
            if entry["group"].startswith(f"{table}, ")
        ]
        if entries:
            inside: tuple[Block, ...] = (
                skipped_items(entries),
                *_group_tables(entries, groups),
            )
            blocks.append(Section(title=table.capitalize(), blocks=inside))
    return Document(title="Validation on published runs", blocks=tuple(blocks))


def _group_tables(summary: Sequence[Entry], groups: Sequence[str]) -> list[Table]:
    found = ([e for e in summary if e["group"] == group and e["n"]] for group in groups)
    return [error_table(entries, names_group=False) for entries in found if entries]


def _remark(entry: Entry) -> str:
    """What an entry that is no error says; '' of others."""
    if entry["group"] == "rank correlation":
        return (
            f"{entry['predictor']}: rank correlation of plans within one model, cluster and batch, "
            f"{entry['value']}: median {entry['median_rank_correlation']:.2f}, mean "
            f"{entry['mean_rank_correlation']:.2f} ({entry['num_groups']} groups, {entry['n']} plans)"
        )
    if entry["group"] == "noise floor":
        return (
            f"repeats of one run, {entry['value']}: median distance from their median "
            f"{percent(entry['median_absolute_relative_error'])}, 90th percentile "
            f"{percent(entry['p90_absolute_relative_error'])} ({entry['n']} runs)"
        )
    return ""
