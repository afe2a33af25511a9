"""Two recordings side by side: what got slower and what got faster, a step."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.report import palette
from perfcast.report.blocks import amount_bars
from perfcast.report.document import Block, Cell, Column, Section, Table
from perfcast.report.documents.traces.names import short_name
from perfcast.report.figure import Figure
from perfcast.report.values import Value
from perfcast.traces.explain.compare import Change, Comparison
from perfcast.units import format_seconds

MAX_ROWS, MAX_LABEL, MAX_BARS = 12, 40, 14
#: Its rows are parts of one time, which are not counted.
_PARTS = "The device's time"


def compared_section(comparison: Comparison) -> Section:
    """The largest changes of every kind."""
    before, after = comparison.before_step_seconds, comparison.after_step_seconds
    ratio = f", × {after / before:.3g}" if before else ""
    groups = (
        (_PARTS, comparison.parts),
        ("Work by kind", comparison.kinds),
        ("By operator", comparison.operators),
        ("By kernel", comparison.kernels),
        ("By module", comparison.modules),
        ("Host overheads", comparison.overheads),
    )
    blocks: list[Block] = []
    for at, (title, changes) in enumerate(groups):
        if any(change.seconds for change in changes):
            blocks.append(_group(at, title, changes))
    return Section(
        title="Compared with the other recording",
        lead=f"{format_seconds(before)} before, {format_seconds(after)} after{ratio}",
        blocks=tuple(blocks),
    )


def _group(at: int, title: str, changes: Sequence[Change]) -> Section:
    moved = [change for change in changes if change.seconds]
    is_path, counts = title == "By module", title != _PARTS
    table = Table(
        columns=(
            Column("", folds=False, most_width=MAX_LABEL, cut="left" if is_path else "right"),
            Column("Before", "s"),
            Column("After", "s"),
            Column("Change", "+s"),
            Column("Ratio"),
            *((Column("Count a step"),) if counts else ()),
        ),
        rows=tuple(_change(change)[: None if counts else -1] for change in moved),
        things="changes",
        most_rows=MAX_ROWS,
    )
    figure = changes_figure(f"change-{at}", moved, cuts_left=is_path)
    return Section(title=f"{title}: largest changes, a step", blocks=(figure, table))


def _change(change: Change) -> tuple[Value | Cell, ...]:
    ratio = Cell("new") if change.ratio is None else Cell(f"{change.ratio:.3g}", change.ratio)
    counts = Cell(f"{_count(change.before_count)} → {_count(change.after_count)}", change.after_count)
    return (
        short_name(change.label) or "(none)",
        change.before_seconds or None,
        change.after_seconds or None,
        change.seconds,
        ratio,
        counts,
    )


def _count(count: float) -> str:
    """How often in a step: whole numbers as they are; what runs once in six steps is 0.17."""
    if count >= 100 or count == round(count):
        return f"{round(count):,}"
    return f"{count:.2g}" if count < 1 else f"{count:.3g}"


def changes_figure(name: str, changes: Sequence[Change], *, cuts_left: bool = False) -> Figure:
    """What got slower (right) and faster (left), largest on top."""
    shown = [change for change in changes if change.seconds][:MAX_BARS]
    return amount_bars(
        name,
        [(short_name(change.label) or "(none)", change.seconds) for change in shown],
        unit="+s",
        colours=[palette.RED if change.seconds > 0 else palette.GREEN for change in shown],
        notes=[f"{format_seconds(c.before_seconds)} → {format_seconds(c.after_seconds)}" for c in shown],
        cuts_left=cuts_left,
    )
