"""Figures and tables of shapes that many subjects have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfcast.report.document import Card, Column, Only, Table, share_of
from perfcast.report.figure import Axis, Bars, Figure
from perfcast.report.palette import BLUE
from perfcast.report.values import Unit, format_value

#: Parts that a line names of what something goes to.
_MOST_NAMED, _LEAST_NAMED = 3, 0.05
SHARE = Column("Share", "share", has_bar=True)

#: Letters of a bar's label.
_MOST_LETTERS = 46
_FRAME_PIXELS, _BAR_PIXELS = 90, 26


def amount_bars(
    name: str,
    amounts: Mapping[str, float] | Sequence[tuple[str, float]],
    *,
    unit: Unit = "s",
    total: float | None = None,
    colours: str | Sequence[str] = BLUE,
    notes: Sequence[str] = (),
    cuts_left: bool = False,
    title: str = "",
) -> Figure:
    """Lying bars of amounts, the first on top, each with its amount and share.

    Args:
        total: What shares are of; None writes none.
        notes: What else pointing at a bar says.
        cuts_left: Whether long labels lose their start.
    """
    pairs = list(amounts.items()) if isinstance(amounts, Mapping) else list(amounts)
    values = tuple(value for _, value in pairs)
    texts = tuple(_amount(value, unit, total) for value in values)
    notes = notes or ("",) * len(pairs)
    hovers = tuple(
        f"{label}\n{text}\n{note}" for (label, _), text, note in zip(pairs, texts, notes, strict=True)
    )
    low, high = min((*values, 0.0)), max((*values, 0.0))
    room = 0.4 * ((high - low) or 1.0)
    shown = colours if isinstance(colours, str) else tuple(colours)
    bars = Bars(labels=tuple(range(len(pairs))), values=values, colours=shown, texts=texts, hovers=hovers)
    return Figure(
        name=name,
        series=(bars,),
        is_horizontal=True,
        height=_FRAME_PIXELS + _BAR_PIXELS * max(len(pairs), 1),
        x=Axis(unit=_axis_unit(unit), low=low - (room if low < 0 else 0), high=high + room, title=title),
        y=Axis(
            ticks=tuple((place, _cut(label, cuts_left)) for place, (label, _) in enumerate(pairs)),
            is_reversed=True,
            has_grid=False,
        ),
    )


def _axis_unit(unit: Unit) -> str:
    return unit.removeprefix("+")


def _amount(value: float, unit: Unit, total: float | None) -> str:
    text = format_value(value, unit)
    return text if total is None else f"{text} · {format_value(share_of(value, total), 'share')}"


def _cut(label: str, cuts_left: bool) -> str:
    if len(label) <= _MOST_LETTERS:
        return label
    return "…" + label[1 - _MOST_LETTERS :] if cuts_left else label[: _MOST_LETTERS - 1] + "…"


def stacked_bars(
    name: str,
    labels: Sequence[str],
    parts: Iterable[tuple[str, str, Sequence[float]]],
    *,
    unit: Unit = "s",
    totals: Sequence[float] = (),
    title: str = "",
) -> Figure:
    """A lying bar for each label, cut into parts.

    Args:
        parts: Name, colour and the amount at each label.
        totals: What shares are of, one for each label; () writes none.
    """
    series = tuple(
        Bars(
            name=part,
            labels=tuple(labels),
            values=tuple(amounts),
            colours=colour,
            hovers=tuple(
                f"{label}\n{part}: {_amount(amount, unit, totals[at] if totals else None)}"
                for at, (label, amount) in enumerate(zip(labels, amounts, strict=True))
            ),
        )
        for part, colour, amounts in parts
    )
    return Figure(
        name=name,
        series=series,
        is_horizontal=True,
        is_stacked=True,
        legend="above",
        height=130 + _BAR_PIXELS * len(labels),
        x=Axis(unit=_axis_unit(unit), from_zero=True, title=title),
        y=Axis(scale="category", is_reversed=True, has_grid=False),
    )


def step_card(seconds: float, low: float, high: float) -> Card:
    """The time of a step with its 90 % interval."""
    return Card(label="Step", value=seconds, unit="s", low=low, high=high, confidence=0.9)


def throughput_card(per_second: float, per_second_per_device: float, unit: Unit) -> Card:
    """What all devices get through, and each."""
    each = format_value(per_second_per_device, "count")
    return Card(label="Throughput", value=per_second, unit=unit, detail=f"{each} of one device")


def name_shares(begin: str, amounts: Mapping[str, float]) -> str:
    """The largest parts of a whole: ``'Limited by compute 71.0 %, memory 20.0 %'``; '' of nothing."""
    total = sum(amounts.values())
    if not total:
        return ""
    largest = sorted(amounts.items(), key=lambda item: -item[1])[:_MOST_NAMED]
    shares = [(name, share_of(amount, total)) for name, amount in largest]
    named = [pair for at, pair in enumerate(shares) if pair[1] >= (_LEAST_NAMED if at else 0)]
    return f"{begin} " + ", ".join(f"{name} {format_value(share, 'share')}" for name, share in named)


def share_table(
    title: str,
    label: str,
    amounts: Mapping[str, float] | Sequence[tuple[str, float]],
    *,
    unit: Unit = "s",
    amount: str = "Time",
    total: float | None = None,
    most_rows: int | None = None,
    things: str = "parts",
    folds: bool = False,
    only: Only | None = None,
) -> Table:
    """Names, amounts and their shares of the total, by default of their sum."""
    pairs = list(amounts.items()) if isinstance(amounts, Mapping) else list(amounts)
    whole = sum(value for _, value in pairs) if total is None else total
    return Table(
        title=title,
        columns=(Column(label, folds=folds), Column(amount, unit), SHARE),
        most_rows=most_rows,
        things=things,
        rows=tuple((name, value, share_of(value, whole)) for name, value in pairs),
        only=only,
    )
