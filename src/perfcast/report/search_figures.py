"""Plots of a search: plans by time and memory, their dimensions side by side, where their steps go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.plan_text import format_plan
from perfcast.report.documents.plan_step import CAUSE_WORDS
from perfcast.report.figures import BLUE, GREEN, GREY, INK, ORANGE, RED, finish
from perfcast.report.palette import CATEGORIES as CATEGORY_COLOURS
from perfcast.report.palette import CAUSES as CAUSE_COLOURS
from perfcast.report.search_text import describe_value
from perfcast.report.tables import words
from perfcast.search.report.clusters import ClusterComparison
from perfcast.search.report.explain import RESERVE, Explanation
from perfcast.search.report.sensitivity import Sensitivity
from perfcast.search.result import RankedPlan, SearchResult
from perfcast.units import GIB, format_bytes, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    Index = Integers

#: Plans of a cloud of points; of more, the fastest half of these and others spread evenly over the rest.
MAX_POINTS = 1500
_RESERVE_COLOUR = "#5f6b7a"
#: Bars of a comparison.
MAX_BARS = 12


def sample_plans(step_seconds: Floats, limit: int = MAX_POINTS) -> Index:
    """Places of the plans that are drawn, fastest first."""
    order = np.argsort(step_seconds, kind="stable")
    if len(order) <= limit:
        return order
    first, rest = order[: limit // 2], order[limit // 2 :]
    spread = np.linspace(0, len(rest) - 1, limit - len(first)).round().astype(np.int64)
    return np.concatenate([first, rest[spread]])


def plot_pareto(result: SearchResult) -> Figure:
    """Step time against the memory of a device: all valid plans, the front, the best and the winner."""
    from plotly import graph_objects as go

    evaluation = result.evaluation
    shown = sample_plans(evaluation.step_seconds)
    options = [format_plan(evaluation.plans.plan(int(at))) for at in shown]
    figure = go.Figure(
        go.Scatter(
            x=evaluation.step_seconds[shown].tolist(), y=(evaluation.device_bytes[shown] / GIB).tolist(),
            mode="markers", name="valid plans", marker={"color": GREY, "size": 4, "opacity": 0.45},
            text=options, hovertemplate="%{text}<br>%{x:.4~s}s, %{y:.1f} GiB<extra></extra>",
        )
    )  # fmt: skip
    _add_plans(figure, result.front, "Pareto front", ORANGE, mode="markers", size=7)
    _add_plans(figure, _lower_edge(result.front), "front in time and memory", ORANGE, mode="lines", size=7)
    _add_plans(figure, result.ranked[1:], "best plans", BLUE, mode="markers", size=8)
    _add_plans(figure, result.ranked[:1], "winner", GREEN, mode="markers", size=15, symbol="star")
    figure.add_hline(
        y=result.winner.capacity_bytes / GIB, line_dash="dash", line_color=RED,
        annotation_text="device", annotation_position="bottom right",
    )  # fmt: skip
    set_log_seconds(figure, evaluation.step_seconds[shown].tolist(), "step")
    figure.update_yaxes(title="GiB of a device", rangemode="tozero")
    return finish(figure, height=430, legend=True).update_layout(margin={"t": 40})


def _lower_edge(front: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Of plans, the fastest first, those that need less memory than all faster ones."""
    edge: list[RankedPlan] = []
    for plan in sorted(front, key=lambda plan: (plan.step_seconds, plan.device_bytes)):
        if not edge or plan.device_bytes < edge[-1].device_bytes:
            edge.append(plan)
    return edge


def set_log_seconds(figure: Figure, seconds: Sequence[float], title: str) -> None:
    """A logarithmic axis that holds some times, marked at 1, 2 and 5 of every power of ten."""
    low, high = math.log10(min(seconds)), math.log10(max(seconds))
    powers = range(math.floor(low), math.ceil(high) + 1)
    marks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    edge = 0.05 * (high - low) + 0.02
    figure.update_xaxes(
        title=title, type="log", range=[low - edge, high + edge], tickvals=marks,
        ticktext=[format_seconds(mark).replace(".00", "") for mark in marks],
    )  # fmt: skip


def _add_plans(
    figure: Figure, plans: Sequence[RankedPlan], name: str, colour: str, *, mode: str, size: int,
    symbol: str = "circle",
) -> None:  # fmt: skip
    if not plans:
        return
    figure.add_scatter(
        x=[plan.step_seconds for plan in plans], y=[plan.device_bytes / GIB for plan in plans], name=name,
        mode=mode, marker={"color": colour, "size": size, "symbol": symbol},
        line={"color": colour, "width": 1.5, "shape": "hv"}, text=[format_plan(p.plan) for p in plans],
        hovertemplate="%{text}<br>%{x:.4~s}s, %{y:.1f} GiB<extra>" + name + "</extra>",
    )  # fmt: skip


def plot_causes(plans: Sequence[RankedPlan], names: Sequence[str]) -> Figure:
    """A bar for each plan, stacked by cause, with the interval of the step."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for cause in CAUSES:
        seconds = [float(plan.seconds_by_cause.get(cause, 0.0)) for plan in plans]
        if any(seconds):
            figure.add_bar(
                y=list(names), x=seconds, name=CAUSE_WORDS[cause], orientation="h",
                marker_color=CAUSE_COLOURS[cause], customdata=[format_seconds(s) for s in seconds],
                hovertemplate="%{y}<br>%{customdata}<extra>" + CAUSE_WORDS[cause] + "</extra>",
            )  # fmt: skip
    figure.add_scatter(
        y=list(names), x=[plan.step_seconds for plan in plans], mode="markers", name="90 % interval",
        marker={"color": INK, "size": 3},
        error_x={
            "type": "data", "symmetric": False, "color": INK, "thickness": 1.2, "width": 4,
            "array": [plan.step_seconds_high - plan.step_seconds for plan in plans],
            "arrayminus": [plan.step_seconds - plan.step_seconds_low for plan in plans],
        },
        hoverinfo="skip",
    )  # fmt: skip
    return _stacked(figure, len(plans)).update_xaxes(tickformat="~s", ticksuffix="s", rangemode="tozero")


def plot_categories(explanations: Sequence[Explanation]) -> Figure:
    """A bar for each explained plan, stacked by category, with the device's memory as a line."""
    from plotly import graph_objects as go

    figure = go.Figure()
    names = [escape(explanation.label) for explanation in explanations]
    for category in dict.fromkeys(name for e in explanations for name in e.bytes_by_category):
        held = [e.bytes_by_category.get(category, 0) for e in explanations]
        if any(held):
            figure.add_bar(
                y=names, x=[num_bytes / GIB for num_bytes in held], name=words(category), orientation="h",
                marker_color=_RESERVE_COLOUR if category == RESERVE else CATEGORY_COLOURS[category],
                customdata=[format_bytes(num_bytes) for num_bytes in held],
                hovertemplate="%{y}<br>%{customdata}<extra>" + words(category) + "</extra>",
            )  # fmt: skip
    memory = explanations[0].forecast.memory
    if memory is not None:
        figure.add_vline(x=memory.capacity_bytes / GIB, line_dash="dash", line_color=RED)
    return _stacked(figure, len(names)).update_xaxes(title="GiB of a device", rangemode="tozero")


def _stacked(figure: Figure, count: int) -> Figure:
    finish(figure, height=150 + 26 * count, legend=True)
    figure.update_layout(
        barmode="stack", bargap=0.25, barcornerradius=0, legend={"traceorder": "normal"}, margin={"t": 60}
    )
    return figure.update_yaxes(autorange="reversed", showgrid=False, type="category")


def plot_clusters(comparison: ClusterComparison) -> Figure:
    """The objective's figure of each cluster's winner, best on top."""
    from plotly import graph_objects as go

    results = comparison.results
    names = [escape(f"{result.cluster}:{result.num_devices}") for result in results]
    values = [result.winner.value for result in results]
    figure = go.Figure(
        go.Bar(
            y=names, x=values, orientation="h", marker_color=[GREEN, *[BLUE] * (len(results) - 1)],
            text=[describe_value(result.winner, comparison.objective) for result in results],
            textposition="outside", cliponaxis=False, textfont={"color": INK},
            customdata=[format_plan(result.winner.plan) for result in results],
            hovertemplate="%{y}<br>%{text}<br>%{customdata}<extra></extra>",
        )
    )  # fmt: skip
    finish(figure, height=90 + 30 * len(results))
    figure.update_xaxes(range=[0, 1.4 * max(values)], tickformat="~s")
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def plot_sensitivity(found: Sensitivity, name: str) -> Figure:
    """The best step under each factor of one condition, and the step with the winner as it is."""
    from plotly import graph_objects as go

    base = (1.0, found.base.step_seconds, found.base.step_seconds, found.base.plan)
    rows = [
        (p.condition.factor, p.winner.step_seconds, p.kept_seconds, p.winner.plan)
        for p in found.points
        if p.condition.name == name and p.winner is not None
    ]
    rows = sorted([*rows, base], key=lambda row: row[0])
    factors = [row[0] for row in rows]
    figure = go.Figure()
    figure.add_scatter(
        x=factors, y=[row[2] for row in rows], name="the winner as it is", mode="lines+markers",
        line={"color": GREY, "dash": "dot"},
    )  # fmt: skip
    figure.add_scatter(
        x=factors, y=[row[1] for row in rows], name="the best plan", mode="lines+markers",
        line={"color": GREEN}, text=[format_plan(row[3]) for row in rows], hovertemplate="%{text}",
    )  # fmt: skip
    figure.update_xaxes(
        title=f"{name}, times", type="log", tickvals=factors, ticktext=[f"{factor:g}" for factor in factors]
    )
    figure.update_yaxes(title="step", tickformat="~s", ticksuffix="s", rangemode="tozero")
    return finish(figure, height=300, legend=True).update_layout(margin={"t": 40})
