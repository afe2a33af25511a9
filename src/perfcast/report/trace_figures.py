"""Plots of an explained recording."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from perfcast.report.figures import (
    BLUE,
    FAMILIES,
    GREEN,
    GREY,
    ORANGE,
    OTHER_FAMILY,
    PINK,
    PURPLE,
    RED,
    YELLOW,
    finish,
)
from perfcast.report.tables import percent, words
from perfcast.report.trace_text import short_name
from perfcast.traces.explain.breakdown import TimeShare
from perfcast.traces.explain.compare import Change, device_parts
from perfcast.traces.explain.recordings import Explanation
from perfcast.units import format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_BARS = 14
MAX_LABEL = 46

_PARTS = (BLUE, ORANGE, YELLOW, RED, PINK, GREY)
_BOUNDS = {
    "host": RED, "data loading": YELLOW, "device compute": BLUE, "device communication": ORANGE,
    "between kernels": PINK, "launch": PURPLE,
}  # fmt: skip


def plot_device_time(explanation: Explanation) -> Figure:
    """Each rank's time as one bar, cut into its parts."""
    from plotly import graph_objects as go

    figure = go.Figure()
    ranks = [f"rank {own.rank}" for own in explanation.breakdowns]
    columns = [device_parts(own) for own in explanation.breakdowns]
    for index, colour in enumerate(_PARTS):
        parts = [column[index] for column in columns]
        figure.add_bar(
            x=[part.seconds for part in parts], y=ranks, orientation="h", name=parts[0].label,
            marker_color=colour,
            customdata=[
                _hover(part, own.window_seconds)
                for part, own in zip(parts, explanation.breakdowns, strict=True)
            ],
            hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(tickformat="~s", ticksuffix="s", nticks=6, rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    finished = finish(figure, height=150 + 30 * len(ranks), legend=True)
    return finished.update_layout(barmode="stack", legend={"traceorder": "normal"}, margin={"t": 60})


def _hover(part: TimeShare, total: float) -> str:
    return f"{part.label}: {format_seconds(part.seconds)}, {percent(part.seconds / total if total else 0)}"


def plot_shares(shares: Sequence[TimeShare], *, by_kind: bool = False, are_paths: bool = False) -> Figure:
    """Labels with their seconds, longest on top; coloured by family where they are kinds or have one.

    Of long paths the end is shown, of other labels the start.
    """
    shown = [item for item in shares if item.seconds > 0][:MAX_BARS]
    total = sum(item.seconds for item in shares)
    colours = [
        FAMILIES.get(item.label if by_kind else item.kind, OTHER_FAMILY)[1] if by_kind or item.kind else BLUE
        for item in shown
    ]
    return _bars(
        [
            words(item.label)
            if by_kind
            else (short_name(item.label) if item.kind else item.label) or "(none)"
            for item in shown
        ],
        [item.seconds for item in shown],
        colours,
        [f"{format_seconds(i.seconds)} · {percent(i.seconds / total if total else 0)}" for i in shown],
        [f"{item.count:,} times" for item in shown],
        are_paths=are_paths,
    )


def plot_path(seconds_by_bound: dict[str, float]) -> Figure:
    """What the critical path was spent on."""
    total = sum(seconds_by_bound.values())
    return _bars(
        list(seconds_by_bound),
        list(seconds_by_bound.values()),
        [_BOUNDS.get(name, GREY) for name in seconds_by_bound],
        [f"{format_seconds(s)} · {percent(s / total if total else 0)}" for s in seconds_by_bound.values()],
        [""] * len(seconds_by_bound),
    )


def plot_changes(changes: Sequence[Change], *, are_paths: bool = False) -> Figure:
    """What got slower (right) and faster (left), largest on top; of long paths the end."""
    shown = [change for change in changes if change.seconds][:MAX_BARS]
    return _bars(
        [short_name(change.label) or "(none)" for change in shown],
        [change.seconds for change in shown],
        [RED if change.seconds > 0 else GREEN for change in shown],
        [f"{'+' if c.seconds > 0 else '−'}{format_seconds(abs(c.seconds))}" for c in shown],
        [f"{format_seconds(c.before_seconds)} → {format_seconds(c.after_seconds)}" for c in shown],
        are_paths=are_paths,
    )


def _bars(
    labels: Sequence[str],
    seconds: Sequence[float],
    colours: Sequence[str],
    texts: Sequence[str],
    notes: Sequence[str],
    *,
    are_paths: bool = False,
) -> Figure:
    from plotly import graph_objects as go

    figure = go.Figure(
        go.Bar(
            x=list(seconds), y=list(range(len(labels))), orientation="h", marker={"color": list(colours)},
            text=list(texts), textposition="outside", cliponaxis=False,
            customdata=[f"<b>{escape(n)}</b><br>{note}" for n, note in zip(labels, notes, strict=True)],
            hovertemplate="%{customdata}<br>%{text}<extra></extra>",
        )
    )  # fmt: skip
    low, high = min([*seconds, 0.0]), max([*seconds, 0.0])
    room = 0.4 * ((high - low) or 1.0)
    figure.update_xaxes(
        range=[low - (room if low < 0 else 0), high + room], tickformat="~s", ticksuffix="s", nticks=5
    )
    short = [escape(_shortened(label, are_paths)) for label in labels]
    figure.update_yaxes(
        autorange="reversed", showgrid=False, tickvals=list(range(len(labels))), ticktext=short
    )
    return finish(figure, height=90 + 26 * max(len(labels), 1))


def _shortened(label: str, is_path: bool) -> str:
    if len(label) <= MAX_LABEL:
        return label
    return "…" + label[1 - MAX_LABEL :] if is_path else label[: MAX_LABEL - 1] + "…"
