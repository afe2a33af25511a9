"""Plots of a recommendation model's step: where each rank's time goes, and what runs when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.core.forecast.recommender import RECOMMENDER_CAUSES, RecommenderForecast, RecommenderSpan
from perfcast.report.figures import BLUE, ORANGE, PINK, YELLOW, finish
from perfcast.report.plan_step_figures import spread_evenly
from perfcast.report.tables import percent
from perfcast.units import format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_BACKWARD, _LOOKUP_BACKWARD = "#7fb2dd", "#8f7a17"
CAUSE_COLOURS = {
    "dense": BLUE, "lookup forward": YELLOW, "lookup backward": _LOOKUP_BACKWARD, "exchange": ORANGE,
    "all-reduce": PINK, "waiting": "rgba(138,148,163,0.45)",
}  # fmt: skip
#: What a piece of the timeline looks like, in the order of the legend.
_LOOKS = (
    ("dense forward", BLUE), ("dense backward", _BACKWARD), ("dense optimizer", "#1f4e7d"),
    ("lookup forward", YELLOW), ("lookup backward", _LOOKUP_BACKWARD), ("all-to-all", ORANGE),
    ("all-reduce", PINK),
)  # fmt: skip
_LANE_PIXELS = 15


def plot_rank_causes(forecast: RecommenderForecast) -> Figure:
    """A bar for each rank, stacked by cause; they are equally long."""
    import plotly.graph_objects as go

    ranks = spread_evenly(forecast.ranks)
    names = [f"rank {rank.rank}" for rank in ranks]
    figure = go.Figure()
    for cause in RECOMMENDER_CAUSES:
        seconds = [rank.seconds_by_cause.get(cause, 0.0) for rank in ranks]
        if not any(seconds):
            continue
        figure.add_bar(
            y=names, x=seconds, name=cause, orientation="h", marker_color=CAUSE_COLOURS[cause],
            customdata=[f"{format_seconds(s)} · {percent(s / forecast.step_seconds)}" for s in seconds],
            hovertemplate="%{y}<br>%{customdata}<extra>" + cause + "</extra>",
        )  # fmt: skip
    finish(figure, height=120 + 26 * len(ranks), legend=True)
    figure.update_layout(
        barmode="stack", bargap=0.25, barcornerradius=0, legend={"traceorder": "normal"}, margin={"t": 60}
    )
    figure.update_xaxes(tickformat="~s", ticksuffix="s", nticks=8, rangemode="tozero")
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def plot_recommender_timeline(forecast: RecommenderForecast) -> Figure:
    """A lane for the compute of each rank, and one below for its exchanges."""
    import plotly.graph_objects as go

    shown = spread_evenly([rank.rank for rank in forecast.ranks])
    lanes = {rank: 2 * at for at, rank in enumerate(shown)}
    figure = go.Figure()
    for look, colour in _LOOKS:
        pieces = [s for s in forecast.spans if s.rank in lanes and look_of(s) == look]
        if not pieces:
            continue
        x, y, texts = list[float | None](), list[int | None](), list[str]()
        for piece in pieces:
            lane = lanes[piece.rank] + (piece.stream != "compute")
            x += [piece.start_seconds, piece.end_seconds, None]
            y += [lane, lane, None]
            texts += [f"{piece.label}, {format_seconds(piece.end_seconds - piece.start_seconds)}"] * 3
        figure.add_scatter(
            x=x, y=y, mode="lines", name=look, line={"color": colour, "width": _LANE_PIXELS - 3},
            customdata=texts, hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
    finish(figure, height=130 + 2 * _LANE_PIXELS * len(lanes), legend=True)
    figure.update_layout(margin={"t": 60})
    figure.update_xaxes(
        tickformat="~s", ticksuffix="s", nticks=8, range=[0, forecast.step_seconds],
        title="from the step's start",
    )  # fmt: skip
    return figure.update_yaxes(
        tickvals=[lane + 0.5 for lane in lanes.values()], ticktext=[f"rank {rank}" for rank in lanes],
        range=[2 * len(lanes) - 0.4, -0.6], showgrid=False, zeroline=False,
    )  # fmt: skip


def look_of(span: RecommenderSpan) -> str:
    """What a span looks like: its lookups, its part of the dense networks, or its kind of exchange."""
    if span.stream != "compute":
        return "all-reduce" if span.label.startswith("all-reduce") else "all-to-all"
    if span.label.startswith("lookup"):
        return span.label
    return f"dense {span.label.rpartition(' ')[2]}"
