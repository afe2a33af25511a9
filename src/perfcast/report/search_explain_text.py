"""Why a plan wins, and what would change it, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.report.documents.plan_step import CAUSE_WORDS
from perfcast.report.tables import new_table, print_list, print_table, words
from perfcast.search.report.compose import SearchReport
from perfcast.search.report.explain import Difference, Explanation
from perfcast.search.report.sensitivity import Sensitivity, SensitivityPoint
from perfcast.units import format_bytes, format_seconds


def print_explanations(found: SearchReport, console: Console) -> None:
    """Time by cause and memory by category, side by side; then each difference in words."""
    print_table(console, cause_table(found.explanations))
    print_table(console, category_table(found.explanations))
    print_list(console, (("·", note) for note in map(describe_overfull, found.explanations) if note))
    print_list(console, (("·", describe_skipped(*pair)) for pair in found.skipped))
    for difference in found.differences:
        console.print()
        console.print(Text(describe_difference(difference), style="bold"))
        print_list(console, (("·", sentence) for sentence in difference.sentences))


def describe_overfull(explanation: Explanation) -> str:
    """What a plan needs beyond its device's memory; '' where it fits."""
    memory, needed = explanation.forecast.memory, sum(explanation.bytes_by_category.values())
    if memory is None or needed <= memory.capacity_bytes:
        return ""
    sizes = f"{format_bytes(needed)} of {format_bytes(memory.capacity_bytes)}"
    return f"{explanation.label} does not fit: it needs {sizes} of a device"


def describe_skipped(label: str, reason: str) -> str:
    """Why a named plan is not beside the winner."""
    return f"{label} is not compared: {reason}"


def cause_table(explanations: tuple[Explanation, ...]) -> Table:
    """A column for each plan; causes of the first by their time."""
    table = _columns("Where the step goes", "Cause", explanations)
    first = explanations[0].seconds_by_cause
    names = dict.fromkeys(cause for e in explanations for cause in e.seconds_by_cause)
    for cause in sorted(names, key=lambda cause: -first.get(cause, 0.0)):
        cells = [_seconds(e.seconds_by_cause.get(cause, 0.0)) for e in explanations]
        table.add_row(CAUSE_WORDS[cause], *cells)
    table.add_row("step", *(format_seconds(e.forecast.step_seconds) for e in explanations), style="bold")
    return table


def category_table(explanations: tuple[Explanation, ...]) -> Table:
    """A column for each plan; categories of the first by their size."""
    table = _columns("Memory of the worst stage at its peak", "Category", explanations)
    first = explanations[0].bytes_by_category
    names = dict.fromkeys(name for e in explanations for name in e.bytes_by_category)
    for name in sorted(names, key=lambda name: -first.get(name, 0)):
        cells = [_bytes(e.bytes_by_category.get(name, 0)) for e in explanations]
        table.add_row(words(name), *cells)
    if names:
        totals = [format_bytes(sum(e.bytes_by_category.values())) for e in explanations]
        table.add_row("device", *totals, style="bold")
    return table


def _columns(title: str, heading: str, explanations: tuple[Explanation, ...]) -> Table:
    table = new_table(title)
    table.add_column(heading, no_wrap=True)
    for explanation in explanations:
        table.add_column(Text(explanation.label), justify="right", overflow="fold")
    return table


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds > 0 else "–"


def _bytes(num_bytes: int) -> str:
    return format_bytes(num_bytes) if num_bytes > 0 else "–"


def describe_difference(difference: Difference) -> str:
    """From one plan to another: what is set differently."""
    changed = ", ".join(difference.dimensions) or "nothing"
    return f"From {difference.first.label} to {difference.second.label}: {changed}"


def print_sensitivity(found: Sensitivity, console: Console) -> None:
    """What wins under other conditions, and what keeping the winner would cost."""
    table = new_table("How the winner changes (closed forms)")
    for heading in ("What", "Factor", "Step", "Kept"):
        table.add_column(heading, justify="left" if heading == "What" else "right", no_wrap=True)
    table.add_column("Change of plan", overflow="fold")
    for point in found.points:
        table.add_row(*sensitivity_cells(point))
    print_table(console, table)
    note = f"Network: {found.network}. Kept: the step with the winner as it is, over the best one's."
    console.print(Text(note, style="dim"))


def sensitivity_cells(point: SensitivityPoint) -> list[str]:
    """Texts of one row."""
    condition = point.condition
    first = [condition.name, f"× {condition.factor:g}"]
    if point.winner is None:
        return [*first, "", "", point.reason]
    kept = "not possible" if point.loss is None else f"+{100 * max(point.loss, 0.0):.1f} %"
    change = ", ".join(point.changes) or "the same plan wins"
    return [*first, format_seconds(point.winner.step_seconds), kept, change]
