"""Plots of a choice of sharding: published rules beside it, and what each device does."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from perfcast.report.figures import BLUE, ORANGE, YELLOW, finish
from perfcast.report.plan_step_figures import spread_evenly
from perfcast.report.tables import percent
from perfcast.search.sharding.result import ShardingChoice, ShardingTime
from perfcast.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

CHOSEN = "this placement"
_BACKWARD = "#8f7a17"


def plot_rules(choice: ShardingChoice) -> Figure:
    """Step times of the choice and of the rules that fit, the fastest on top, cut into their parts."""
    import plotly.graph_objects as go

    fitting = [(one.name, one.time) for one in choice.baselines if one.time is not None]
    rows: list[tuple[str, ShardingTime]] = [(CHOSEN, choice.time)]
    rows += sorted(fitting, key=lambda row: row[1].step_seconds)
    names = [f"<b>{name}</b>" if name == CHOSEN else escape(name) for name, _ in rows]
    figure = go.Figure()
    for label, colour, key in (
        ("lookups forward", YELLOW, "forward_seconds"),
        ("lookups backward", _BACKWARD, "backward_seconds"),
        ("exchanges", ORANGE, "exchange_seconds"),
    ):
        seconds = [float(getattr(time, key)) for _, time in rows]
        figure.add_bar(
            y=names, x=seconds, name=label, orientation="h", marker_color=colour,
            customdata=[
                f"{format_seconds(s)} · {percent(s / time.step_seconds)} of the step"
                for s, (_, time) in zip(seconds, rows, strict=True)
            ],
            hovertemplate="%{y}<br>%{customdata}<extra>" + label + "</extra>",
        )  # fmt: skip
    for name, (_, time) in zip(names, rows, strict=True):
        figure.add_annotation(
            x=time.step_seconds, y=name, text=_versus(time, choice.time), showarrow=False, xanchor="left",
            xshift=6,
        )  # fmt: skip
    finish(figure, height=130 + 30 * len(rows), legend=True)
    figure.update_layout(
        barmode="stack", bargap=0.3, barcornerradius=0, legend={"traceorder": "normal"}, margin={"t": 60}
    )
    longest = max(time.step_seconds for _, time in rows)
    figure.update_xaxes(tickformat="~s", ticksuffix="s", nticks=6, range=[0, 1.3 * longest])
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def _versus(time: ShardingTime, chosen: ShardingTime) -> str:
    text = format_seconds(time.step_seconds)
    longer = time.step_seconds / chosen.step_seconds - 1 if chosen.step_seconds else math.inf
    return text if time is chosen else f"{text} · {'+' if longer >= 0 else '−'}{percent(abs(longer))}"


def plot_devices(choice: ShardingChoice) -> Figure:
    """Seconds of lookups on each device (left); how much of its memory for tables is full (right)."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    ranks = spread_evenly(choice.ranks)
    names = [f"rank {rank.rank}" for rank in ranks]
    figure: go.Figure = make_subplots(cols=2, shared_yaxes=True, horizontal_spacing=0.06)
    for label, colour, key in (
        ("lookups forward", YELLOW, "forward_seconds"),
        ("lookups backward", _BACKWARD, "backward_seconds"),
    ):
        seconds = [float(getattr(rank, key)) for rank in ranks]
        figure.add_bar(
            row=1, col=1, y=names, x=seconds, name=label, orientation="h", marker_color=colour,
            customdata=[format_seconds(s) for s in seconds],
            hovertemplate="%{y}<br>%{customdata}<extra>" + label + "</extra>",
        )  # fmt: skip
    limit = choice.memory_limit_bytes
    figure.add_bar(
        row=1, col=2, y=names, x=[rank.memory_bytes / limit for rank in ranks], name="memory",
        orientation="h", marker_color=BLUE,
        customdata=[f"{format_bytes(r.memory_bytes)} · {percent(r.memory_bytes / limit)}" for r in ranks],
        hovertemplate="%{y}<br>%{customdata}<extra>memory</extra>",
    )  # fmt: skip
    finish(figure, height=140 + 26 * len(ranks), legend=True)
    figure.update_layout(
        barmode="stack", bargap=0.25, barcornerradius=0, legend={"traceorder": "normal"}, margin={"t": 60}
    )
    figure.update_xaxes(nticks=5, rangemode="tozero")
    figure.update_xaxes(row=1, col=1, tickformat="~s", ticksuffix="s", title="of a step")
    figure.update_xaxes(row=1, col=2, tickformat=".0%", title="memory, of what tables may fill")
    return figure.update_yaxes(autorange="reversed", showgrid=False)
