"""Figures of requests as played: what was held over time, and how long requests waited."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.serving.deployment import Aggregated
from perfcast.core.serving.outcome import Occupancy, Played
from perfcast.report import palette
from perfcast.report.document import Column, Section, Table
from perfcast.report.figure import Axis, Curve, Figure, Rule
from perfcast.report.values import Value
from perfcast.units import format_seconds

#: Points of a curve over time; of more, one of each interval is drawn.
_MOST_POINTS = 500
#: Rows of the table that stands for the curves in a terminal.
_MOST_ROWS = 8
_SHARES = tuple(step / 100 for step in range(101))


def occupancy_section(forecast: ServingForecast, played: Played) -> Section:
    """Batch, queue and memory over time: curves on a page, some moments in a terminal."""
    return Section(
        title="What is held over time",
        blocks=(
            Section(title="Requests", blocks=(requests_figure(played.occupancy),), only="page"),
            Section(
                title="Tokens whose keys and values are held",
                blocks=(memory_figure(forecast, played.occupancy),),
                only="page",
            ),
            _moments(played.occupancy),
        ),
    )


def requests_figure(occupancy: Occupancy) -> Figure:
    """Requests that run, and those that wait for a place."""
    shown = _spread(occupancy.seconds)
    seconds = tuple(occupancy.seconds[shown].tolist())

    def curve(name: str, colour: str, values: Integers) -> Curve:
        y = tuple(values[shown].tolist())
        return Curve(name=name, colour=colour, x=seconds, y=y, is_step=True, width=1.5, hovers_values=True)

    return Figure(
        name="requests",
        series=(
            curve("running", palette.BLUE, occupancy.running),
            curve("waiting", palette.RED, occupancy.waiting),
        ),
        height=300,
        legend="above",
        hovers_by_x=True,
        zooms=True,
        x=Axis(title="time", unit="s", from_zero=True),
        y=Axis(title="requests", unit="count", from_zero=True),
    )


def memory_figure(forecast: ServingForecast, occupancy: Occupancy) -> Figure:
    """Tokens held by all engines, and how many there is room for where all engines are alike."""
    shown = _spread(occupancy.seconds)
    held = Curve(
        name="held",
        colour=palette.PINK,
        x=tuple(occupancy.seconds[shown].tolist()),
        y=tuple(occupancy.kv_tokens[shown].tolist()),
        is_step=True,
        width=1.5,
        fills="to_zero",
        fill_colour="rgba(197,106,158,0.25)",
        hovers_values=True,
    )
    return Figure(
        name="held-tokens",
        series=(held,),
        height=260,
        rules=_room(forecast, int(occupancy.kv_tokens.max())),
        x=Axis(title="time", unit="s", from_zero=True),
        y=Axis(title="tokens", unit="count", from_zero=True),
    )


def _room(forecast: ServingForecast, most: int) -> tuple[Rule, ...]:
    """What all engines hold at most, where they are alike; far above the curve it would only flatten it."""
    if not isinstance(forecast.deployment, Aggregated):
        return ()
    pool = forecast.deployment.pool
    room = forecast.kv_tokens * pool.replicas * pool.engines_per_replica
    return (Rule(y=room, label="room", is_alarm=True),) if room <= 2 * most else ()


def _spread(seconds: Floats) -> Integers:
    """Places of rows that stand for all, evenly over time."""
    if len(seconds) <= _MOST_POINTS:
        return np.arange(len(seconds))
    moments = np.linspace(seconds[0], seconds[-1], _MOST_POINTS)
    places = np.searchsorted(seconds, moments, side="right") - 1
    return np.unique(np.maximum(places, 0))


def _moments(occupancy: Occupancy) -> Table:
    """Rows evenly spread over time."""
    middles = (np.arange(_MOST_ROWS) + 0.5) / _MOST_ROWS
    moments = occupancy.seconds[0] + middles * (occupancy.seconds[-1] - occupancy.seconds[0])
    places = np.maximum(np.searchsorted(occupancy.seconds, moments, side="right") - 1, 0)
    columns = (
        Column("At", "s"),
        Column("Running", "number"),
        Column("Waiting", "number"),
        Column("Tokens held", "count"),
    )
    rows = tuple(
        (float(moment), *_row(occupancy, int(place)))
        for moment, place in zip(moments.tolist(), places.tolist(), strict=True)
    )
    return Table(columns=columns, rows=rows, only="terminal")


def _row(occupancy: Occupancy, place: int) -> tuple[Value, ...]:
    return (
        int(occupancy.running[place]),
        int(occupancy.waiting[place]),
        int(occupancy.kv_tokens[place]),
    )


def distribution_figure(name: str, what: str, seconds: Floats) -> Figure | None:
    """The share of requests that wait at most so long; None where nothing is known of any."""
    known = np.sort(seconds[np.isfinite(seconds)])
    if not len(known):
        return None
    shares = np.array(_SHARES)
    waited = np.quantile(known, shares)
    curve = Curve(
        name=what,
        colour=palette.BLUE,
        mode="lines",
        x=tuple(waited.tolist()),
        y=tuple(shares.tolist()),
        hovers=tuple(
            f"{100 * share:.0f} % within {format_seconds(wait)}"
            for share, wait in zip(shares.tolist(), waited.tolist(), strict=True)
        ),
    )
    return Figure(
        name=name,
        series=(curve,),
        height=260,
        x=Axis(title=what, unit="s", low=0, high=1.05 * float(known[-1])),
        y=Axis(title="requests", unit="share", low=0, high=1.02),
    )
