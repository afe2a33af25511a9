"""Figures of a search: plans by time and memory, where their steps go, clusters, conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.plans.text import format_plan
from perfcast.report import palette
from perfcast.report.blocks import stacked_bars
from perfcast.report.document import words
from perfcast.report.documents.step.plan import CAUSE_WORDS
from perfcast.report.figure import Axis, Bars, Curve, Figure, Rule
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.report.clusters import ClusterComparison
from perfcast.searches.report.explain import RESERVE, Explanation
from perfcast.searches.report.sensitivity import Sensitivity
from perfcast.searches.result import RankedPlan, SearchResult
from perfcast.units import MEGA, format_bytes, format_count, format_duration, format_seconds

#: Plans of a cloud of points; of more, the fastest half of these and others spread evenly over the rest.
MAX_POINTS = 1500
#: Bars of a comparison.
MAX_BARS = 12


def sample_plans(step_seconds: Floats, limit: int = MAX_POINTS) -> Integers:
    """Places of the plans that are drawn, fastest first."""
    order = np.argsort(step_seconds, kind="stable")
    if len(order) <= limit:
        return order
    first, rest = order[: limit // 2], order[limit // 2 :]
    spread = np.linspace(0, len(rest) - 1, limit - len(first)).round().astype(np.int64)
    return np.concatenate([first, rest[spread]])


def pareto_figure(result: SearchResult) -> Figure:
    """Step time against the memory of a device: all valid plans, the front, the best and the winner."""
    evaluation = result.evaluation
    shown = sample_plans(evaluation.step_seconds)
    seconds = evaluation.step_seconds[shown].tolist()
    held = evaluation.device_bytes[shown].tolist()
    cloud = Curve(
        name="valid plans",
        mode="markers",
        colour=palette.GREY,
        sizes=4,
        opacity=0.45,
        x=tuple(seconds),
        y=tuple(held),
        hovers=tuple(
            _plan_hover(format_plan(evaluation.plans.plan(int(at))), *figures)
            for at, *figures in zip(shown, seconds, held, strict=True)
        ),
    )
    series = [
        cloud,
        *_plans(result.front, "Pareto front", palette.ORANGE, size=7),
        *_plans(_lower_edge(result.front), "front in time and memory", palette.ORANGE, is_line=True),
        *_plans(result.ranked[1:], "best plans", palette.BLUE, size=8),
        *_plans(result.ranked[:1], "winner", palette.GREEN, size=15, symbol="star"),
    ]
    return Figure(
        name="pareto",
        series=tuple(series),
        height=430,
        legend="above",
        rules=(Rule(y=result.winner.capacity_bytes, label="device", is_alarm=True),),
        x=log_seconds_axis(seconds, "step"),
        y=Axis(title="of a device", unit="B", from_zero=True),
    )


def _plan_hover(option: str, seconds: float, num_bytes: float) -> str:
    return f"{option}\n{format_seconds(seconds)}, {format_bytes(num_bytes)}"


def _plans(
    plans: Sequence[RankedPlan],
    name: str,
    colour: str,
    *,
    size: int = 7,
    is_line: bool = False,
    symbol: str = "circle",
) -> list[Curve]:
    if not plans:
        return []
    curve = Curve(
        name=name,
        mode="lines" if is_line else "markers",
        colour=colour,
        width=1.5,
        is_step=is_line,
        sizes=size,
        symbols=symbol,
        x=tuple(plan.step_seconds for plan in plans),
        y=tuple(plan.device_bytes for plan in plans),
        hovers=tuple(_plan_hover(format_plan(p.plan), p.step_seconds, p.device_bytes) for p in plans),
    )
    return [curve]


def _lower_edge(front: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Of plans, the fastest first, those that need less memory than all faster ones."""
    edge: list[RankedPlan] = []
    for plan in sorted(front, key=lambda plan: (plan.step_seconds, plan.device_bytes)):
        if not edge or plan.device_bytes < edge[-1].device_bytes:
            edge.append(plan)
    return edge


def log_seconds_axis(seconds: Sequence[float], title: str) -> Axis:
    """A logarithmic axis that holds some times, with an edge."""
    low, high = math.log10(min(seconds)), math.log10(max(seconds))
    edge = 0.05 * (high - low) + 0.02
    return Axis(title=title, scale="log", unit="s", low=10 ** (low - edge), high=10 ** (high + edge))


def causes_figure(plans: Sequence[RankedPlan], names: Sequence[str]) -> Figure:
    """A bar for each plan, stacked by cause, with the interval of the step."""
    parts = [
        (
            CAUSE_WORDS[cause],
            palette.CAUSES[cause],
            [float(p.seconds_by_cause.get(cause, 0.0)) for p in plans],
        )
        for cause in CAUSES
    ]
    figure = stacked_bars("causes", names, [part for part in parts if any(part[2])])
    interval = Curve(
        name="90 % interval",
        mode="markers",
        colour=palette.INK,
        sizes=3,
        x=tuple(plan.step_seconds for plan in plans),
        y=tuple(names),
        errors=tuple((plan.step_seconds_low, plan.step_seconds_high) for plan in plans),
    )
    return figure.with_series(interval)


def categories_figure(explanations: Sequence[Explanation]) -> Figure:
    """A bar for each explained plan, stacked by category, with the device's memory as a line."""
    categories = dict.fromkeys(name for e in explanations for name in e.bytes_by_category)
    parts = [
        (
            words(category),
            palette.RESERVE if category == RESERVE else palette.CATEGORIES[category],
            [e.bytes_by_category.get(category, 0) for e in explanations],
        )
        for category in categories
    ]
    figure = stacked_bars(
        "categories",
        [explanation.label for explanation in explanations],
        [part for part in parts if any(part[2])],
        unit="B",
        title="of a device",
    )
    memory = explanations[0].forecast.memory
    if memory is None:
        return figure
    return figure.with_rules(Rule(x=memory.capacity_bytes, label="device", is_alarm=True))


def format_objective(value: float, objective: str) -> str:
    """A figure of an objective with its unit."""
    if objective == "tokens-per-second":
        return f"{format_count(value)} tokens/s"
    if objective == "dollars-per-token":
        return f"${MEGA * value:.3g} per million tokens"
    if OBJECTIVES[objective].needs_watts:
        return f"{value:.3g} J per token"
    if objective == "time-to-train":
        return format_duration(value)
    if objective == "devices":
        return f"{value:,.0f} devices"
    return format_seconds(value)


def clusters_figure(comparison: ClusterComparison) -> Figure:
    """The objective's figure of each cluster's winner, best on top."""
    results = comparison.results
    names = [f"{result.cluster}:{result.num_devices}" for result in results]
    values = tuple(result.winner.value for result in results)
    texts = tuple(format_objective(value, comparison.objective) for value in values)
    bars = Bars(
        labels=tuple(names),
        values=values,
        colours=(palette.GREEN, *[palette.BLUE] * (len(results) - 1)),
        texts=texts,
        hovers=tuple(
            f"{name}\n{text}\n{format_plan(result.winner.plan)}"
            for name, text, result in zip(names, texts, results, strict=True)
        ),
    )
    return Figure(
        name="clusters",
        series=(bars,),
        is_horizontal=True,
        height=90 + 30 * len(results),
        x=Axis(unit="count", low=0, high=1.4 * max(values)),
        y=Axis(scale="category", is_reversed=True, has_grid=False),
    )


def sensitivity_figure(found: Sensitivity, condition: str, name: str) -> Figure:
    """The best step under each factor of one condition, and the step with the winner as it is."""
    base = (1.0, found.base.step_seconds, found.base.step_seconds, found.base.plan)
    rows = [
        (p.condition.factor, p.winner.step_seconds, p.kept_seconds, p.winner.plan)
        for p in found.points
        if p.condition.name == condition and p.winner is not None
    ]
    rows = sorted([*rows, base], key=lambda row: row[0])
    factors = tuple(row[0] for row in rows)
    kept = Curve(
        name="the winner as it is",
        mode="lines+markers",
        colour=palette.GREY,
        dash="dot",
        x=factors,
        y=tuple(row[2] for row in rows),
        hovers=tuple("not possible" if row[2] is None else format_seconds(row[2]) for row in rows),
    )
    best = Curve(
        name="the best plan",
        mode="lines+markers",
        colour=palette.GREEN,
        x=factors,
        y=tuple(row[1] for row in rows),
        hovers=tuple(f"{format_plan(row[3])}\n{format_seconds(row[1])}" for row in rows),
    )
    return Figure(
        name=name,
        series=(kept, best),
        height=300,
        legend="above",
        x=Axis(
            title=f"{condition}, times",
            scale="log",
            ticks=tuple((factor, f"{factor:g}") for factor in factors),
        ),
        y=Axis(title="step", unit="s", from_zero=True),
    )
