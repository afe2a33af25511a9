"""Many loads or deployments beside each other: what a device yields against what a user sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.report import palette
from perfcast.report.document import Cell, Column, Document, Items, Note, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.serving.describe import (
    BOUNDS,
    describe_deployment,
    describe_lengths,
    describe_load,
)
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import Value
from perfcast.searches.ranking.pareto import pareto_front
from perfcast.units import format_count, format_seconds

#: Lines of the figure; further deployments stand in the table alone.
_MOST_LINES = 8
_MARK = "●"
#: Axes along which the points of a line lie.
_LOADS = ("concurrency", "request-rate")
#: Axes that the words for a deployment say themselves.
_SAID = ("plan", "replicas")


def document_of(found: ServingSweep) -> Document:
    """The field's usual plot with its front, a table, and why some points have no forecast."""
    points = [(point, point.forecast) for point in found.points if point.forecast is not None]
    forecasts = [forecast for _, forecast in points]
    first = forecasts[0]
    skipped = tuple((_values(point), point.skipped) for point in found.points if point.skipped)
    return Document(
        title=f"{first.model} in {first.dtype} served by {_devices(forecasts)}",
        verdict=first_said(found.fits),
        lead=f"over {', '.join(found.axes)} · {_setting(forecasts)}",
        facts=program_facts(first.program, first.defaults),
        blocks=(
            Section(
                title="Throughput of a device against the speed that a user sees",
                blocks=(trade_figure(points),),
                only="page",
            ),
            _table(found, points, skipped),
        ),
        assumptions=_shared_assumptions(forecasts),
    )


_FRONT_NOTE = "The Pareto front: no other gives a user more tokens a second, and a device too."


def _shared_assumptions(forecasts: Sequence[ServingForecast]) -> tuple[str, ...]:
    """Those of all; what is said of one point is in its own answer."""
    return tuple(
        line for line in forecasts[0].assumptions if all(line in one.assumptions for one in forecasts)
    )


def _devices(forecasts: Sequence[ServingForecast]) -> str:
    """The devices of all, each kind once."""
    kinds = dict.fromkeys(f"{one.num_devices:,} × {one.device} ({one.cluster})" for one in forecasts)
    return ", ".join(kinds)


def front_of(forecasts: Sequence[ServingForecast]) -> list[ServingForecast]:
    """Those that no other beats in both, the fastest for a user first."""
    costs = np.array([(-_user(one), -_device(one)) for one in forecasts])
    return [forecasts[place] for place in pareto_front(costs)]


def _user(forecast: ServingForecast) -> float:
    return forecast.rates.output_tokens_per_second_per_user.value


def _device(forecast: ServingForecast) -> float:
    return forecast.rates.output_tokens_per_second_per_device.value


def _values(point: SweptPoint) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.values.items())


def _setting(forecasts: Sequence[ServingForecast]) -> str:
    """Deployment and lengths, where all have the same."""
    deployments = {describe_deployment(one.deployment) for one in forecasts}
    lengths = {describe_lengths(one) for one in forecasts}
    return " · ".join(next(iter(said)) for said in (deployments, lengths) if len(said) == 1)


def _line_of(point: SweptPoint, forecast: ServingForecast) -> str:
    """What the points of one line share: everything but the load."""
    others = [f"{name} {value}" for name, value in point.values.items() if name not in (*_LOADS, *_SAID)]
    where = f"{forecast.num_devices} × {forecast.device}"
    return ", ".join([f"{describe_deployment(forecast.deployment)} on {where}", *others])


def trade_figure(points: Sequence[tuple[SweptPoint, ServingForecast]]) -> Figure:
    """Tokens per second and device over tokens per second and user, a line for each deployment."""
    lines: dict[str, list[ServingForecast]] = {}
    for point, forecast in points:
        lines.setdefault(_line_of(point, forecast), []).append(forecast)
    shown = list(lines.items())[:_MOST_LINES]
    series = [
        Curve(
            name=name,
            mode="lines+markers",
            colour=colour,
            x=tuple(_user(one) for one in members),
            y=tuple(_device(one) for one in members),
            hovers=tuple(_hover(one) for one in members),
        )
        for (name, members), colour in zip(shown, palette.in_turns(len(shown)), strict=True)
    ]
    forecasts = [forecast for _, forecast in points]
    front = front_of(forecasts)
    series.append(
        Curve(
            name="Pareto front",
            mode="lines+markers",
            colour=palette.INK,
            dash="dash",
            width=1.5,
            symbols="circle-open",
            sizes=13,
            x=tuple(_user(one) for one in front),
            y=tuple(_device(one) for one in front),
            hovers=tuple(_hover(one) for one in front),
        )
    )
    return Figure(
        name="front",
        series=tuple(series),
        height=460,
        legend="below",
        x=Axis(title="tokens/s of a user", unit="count", from_zero=True),
        y=Axis(title="tokens/s of a device", unit="count", from_zero=True),
    )


def _hover(forecast: ServingForecast) -> str:
    return (
        f"{describe_deployment(forecast.deployment)}, {describe_load(forecast.load)}\n"
        f"{format_count(_device(forecast))} tokens/s of a device, {format_count(_user(forecast))} of a user\n"
        f"first token {format_seconds(forecast.time_to_first_token.mean.value)}, "
        f"99 % within {format_seconds(forecast.time_to_first_token.p99.value)}"
    )


def _table(
    found: ServingSweep,
    points: Sequence[tuple[SweptPoint, ServingForecast]],
    skipped: tuple[tuple[str, str], ...],
) -> Section:
    forecasts = [forecast for _, forecast in points]
    front = {id(one) for one in front_of(forecasts)}
    has_cost = any(one.rates.dollars_per_million_output_tokens is not None for one in forecasts)
    columns = (
        Column("", least_width=1),
        *(Column(name, folds=False) for name in found.axes),
        Column("First token", "s", short="First"),
        Column("99 % within", "s", only="page"),
        Column("Each token", "s", short="Token"),
        Column("Tokens/s a device", "count", short="/s/dev"),
        Column("Tokens/s a user", "count", short="/s/user"),
        *((Column("$ of a million tokens", "g", short="$/Mtok"),) if has_cost else ()),
        Column("Limited by", folds=False, only="page"),
    )
    rows = tuple(
        (_MARK if id(one) in front else "", *point.values.values(), *_row(one, has_cost))
        for point, one in points
    )
    table = Table(columns=columns, rows=rows, things="points")
    said = Note(f"{_MARK} {_FRONT_NOTE}")
    return Section(title="Points", blocks=(table, said, Items(skipped)))


def _row(forecast: ServingForecast, has_cost: bool) -> tuple[Value | Cell, ...]:
    dollars = forecast.rates.dollars_per_million_output_tokens
    bound = max(forecast.bound_by, key=lambda name: forecast.bound_by[name])
    return (
        forecast.time_to_first_token.mean.value,
        forecast.time_to_first_token.p99.value,
        forecast.time_per_output_token.mean.value,
        _device(forecast),
        _user(forecast),
        *((None if dollars is None else dollars.value,) if has_cost else ()),
        BOUNDS[bound][0],
    )
