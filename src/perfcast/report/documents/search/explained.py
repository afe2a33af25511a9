"""Why a plan wins, and what would change that."""

from __future__ import annotations

from perfcast.report.document import Cell, Column, Items, Note, Section, Table, words
from perfcast.report.documents.search.figures import categories_figure, sensitivity_figure
from perfcast.report.documents.step.plan import CAUSE_WORDS, visible
from perfcast.report.values import Value, format_value
from perfcast.searches.report.compose import SearchReport
from perfcast.searches.report.explain import Change, Difference, Explanation
from perfcast.searches.report.sensitivity import Sensitivity, SensitivityPoint
from perfcast.units import MICRO, format_bytes


def explained_sections(found: SearchReport) -> tuple[Section, ...]:
    """Time by cause and memory by category, side by side; then each difference in words."""
    explanations = found.explanations
    notes = [("·", note) for note in map(_describe_overfull, explanations) if note]
    notes += [("·", f"{label} is not compared: {reason}") for label, reason in found.skipped]
    return (
        Section(title="Where the step goes", blocks=(_causes(explanations),)),
        _memory(explanations, tuple(notes)),
        *(_difference(difference) for difference in found.differences),
    )


def _describe_overfull(explanation: Explanation) -> str:
    """What a plan needs beyond its device's memory; '' where it fits."""
    memory, needed = explanation.forecast.memory, sum(explanation.bytes_by_category.values())
    if memory is None or needed <= memory.capacity_bytes:
        return ""
    sizes = f"{format_bytes(needed)} of {format_bytes(memory.capacity_bytes)}"
    return f"{explanation.label} does not fit: it needs {sizes} of a device"


def _causes(explanations: tuple[Explanation, ...]) -> Table:
    """A column for each plan; causes of the first by their time."""
    first = explanations[0].seconds_by_cause
    names = dict.fromkeys(cause for e in explanations for cause in e.seconds_by_cause)
    return Table(
        columns=(Column("Cause", folds=False), *(Column(e.label, "s") for e in explanations)),
        rows=tuple(
            (CAUSE_WORDS[cause], *(e.seconds_by_cause.get(cause, 0.0) or None for e in explanations))
            for cause in sorted(names, key=lambda cause: -first.get(cause, 0.0))
        ),
        total=("step", *(e.forecast.step_seconds for e in explanations)),
    )


def _memory(explanations: tuple[Explanation, ...], notes: tuple[tuple[str, str], ...]) -> Section:
    """A column for each plan; categories of the first by their size."""
    first = explanations[0].bytes_by_category
    names = dict.fromkeys(name for e in explanations for name in e.bytes_by_category)
    if not names:
        return Section(blocks=(Items(notes),))
    table = Table(
        columns=(Column("Category", folds=False), *(Column(e.label, "B") for e in explanations)),
        rows=tuple(
            (words(name), *(e.bytes_by_category.get(name, 0) or None for e in explanations))
            for name in sorted(names, key=lambda name: -first.get(name, 0))
        ),
        total=("device", *(sum(e.bytes_by_category.values()) for e in explanations)),
    )
    return Section(
        title="Memory of the worst stage at its peak",
        blocks=(categories_figure(explanations), table, Items(notes)),
    )


def _difference(difference: Difference) -> Section:
    changed = ", ".join(difference.dimensions) or "nothing"
    first, second = difference.first.label, difference.second.label
    table = Table(
        columns=(
            Column("Cause"),
            Column(first, "s"),
            Column(second, "s"),
            Column("Difference", "+s"),
            Column("Depends on"),
        ),
        rows=tuple(_change(change) for change in difference.causes),
        only="page",
    )
    sentences = Items(tuple(("·", sentence) for sentence in difference.sentences))
    return Section(title=f"From {first} to {second}: {changed}", blocks=(sentences, table))


def _change(change: Change) -> tuple[Value, ...]:
    moved = change.difference if abs(change.difference) >= MICRO / 1000 else None
    because = ", ".join(change.because)
    return (CAUSE_WORDS[change.name], visible(change.before), visible(change.after), moved, because)


def sensitivity_section(found: Sensitivity) -> Section:
    """What wins under other conditions, and what keeping the winner would cost."""
    names = dict.fromkeys(point.condition.name for point in found.points)
    figures = tuple(sensitivity_figure(found, name, f"sensitivity-{at}") for at, name in enumerate(names))
    table = Table(
        columns=(
            Column("What", folds=False),
            Column("Factor", "×"),
            Column("Step", "s", missing=""),
            Column("Kept", missing=""),
            Column("Change of plan"),
        ),
        rows=tuple(_point(point) for point in found.points),
    )
    note = f"Network: {found.network}. Kept: the step with the winner as it is, over the best one's."
    return Section(title="How the winner changes (closed forms)", blocks=(*figures, table, Note(note)))


def _point(point: SensitivityPoint) -> tuple[Value | Cell, ...]:
    condition = point.condition
    if point.winner is None:
        return (condition.name, condition.factor, None, None, point.reason)
    change = ", ".join(point.changes) or "the same plan wins"
    kept = Cell("not possible", 0.0)
    if point.loss is not None:
        kept = Cell(format_value(max(point.loss, 0.0), "+share"), point.loss)
    return (condition.name, condition.factor, point.winner.step_seconds, kept, change)
