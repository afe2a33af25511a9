"""Plots of a step under a plan: where each rank's time goes, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, TypeVar

from perfcast.core.forecast.plan import PlanForecast
from perfcast.report.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    YELLOW,
    finish,
)
from perfcast.report.plan_step_text import CAUSE_WORDS, visible_causes
from perfcast.units import format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Item = TypeVar("Item")

CAUSE_COLOURS = {
    "compute": BLUE,
    "recompute": "#1f4e7d",
    "optimizer": GREEN,
    "tensor": ORANGE,
    "context": YELLOW,
    "expert": PURPLE,
    "data": PINK,
    "pipeline": "#7a5230",
    "offload": "#4fb3bf",
    "bubble": "rgba(138,148,163,0.45)",
    "host": RED,
    "straggler": "#b3261e",
    "other": GREY,
}
#: Ranks of a plot; of more, these are spread evenly over them.
MAX_RANKS = 24


def plot_ranks(forecast: PlanForecast) -> Figure:
    """A bar for each differing rank, stacked by cause; they are equally long."""
    import plotly.graph_objects as go

    ranks = spread_evenly(sorted(forecast.time.ranks, key=lambda rank: (rank.stage, rank.rank)))
    names = [f"stage {rank.stage} · rank {rank.rank}" for rank in ranks]
    figure = go.Figure()
    for cause in visible_causes(forecast):
        seconds = [rank.seconds_by_cause.get(cause, 0.0) for rank in ranks]
        word = CAUSE_WORDS[cause]
        figure.add_bar(
            y=names, x=seconds, name=word, orientation="h", marker_color=CAUSE_COLOURS[cause],
            customdata=[f"{format_seconds(s)} · {100 * s / forecast.step_seconds:.1f} %" for s in seconds],
            hovertemplate="%{y}<br>%{customdata}<extra>" + word + "</extra>",
        )  # fmt: skip
    finish(figure, height=120 + 26 * len(ranks), legend=True)
    figure.update_layout(barmode="stack", bargap=0.25, barcornerradius=0)
    figure.update_xaxes(tickformat="~s", ticksuffix="s", rangemode="tozero")
    return figure.update_yaxes(autorange="reversed")


def plot_reliefs(forecast: PlanForecast) -> Figure:
    """Seconds that each relaxed bound would save."""
    import plotly.graph_objects as go

    reliefs = forecast.reliefs
    saved = [relief.saved_seconds for relief in reliefs]
    figure = go.Figure(
        go.Bar(
            y=[escape(relief.name) for relief in reliefs], x=saved, orientation="h", marker_color=GREEN,
            text=[f"{format_seconds(s)} · {100 * s / forecast.step_seconds:.1f} %" for s in saved],
            textposition="outside", cliponaxis=False, textfont={"color": INK}, hoverinfo="skip",
        )
    )  # fmt: skip
    finish(figure, height=90 + 28 * len(reliefs))
    figure.update_xaxes(
        range=[0, 1.35 * max(saved, default=1.0)], tickformat="~s", ticksuffix="s", title="saved of the step"
    )
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def spread_evenly(items: Sequence[Item]) -> list[Item]:
    """All of a few; of more than ``MAX_RANKS`` that many, the first and the last among them."""
    if len(items) <= MAX_RANKS:
        return list(items)
    last = len(items) - 1
    return [items[round(at * last / (MAX_RANKS - 1))] for at in range(MAX_RANKS)]
