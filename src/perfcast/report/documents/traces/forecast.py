"""A forecast from a recording, beside what was recorded."""

from __future__ import annotations

from pathlib import Path

from perfcast.report import palette
from perfcast.report.blocks import amount_bars, share_table
from perfcast.report.document import Card, Column, Document, Fact, Section, Table
from perfcast.report.figure import Curve, Figure
from perfcast.traces.forecast.from_traces import TraceForecast
from perfcast.units import format_seconds

#: Steps that are shown one by one; JSON has all.
_MOST_STEPS = 12


def document_of(forecast: TraceForecast) -> Document:
    """Step, speed-up, host and device, and what the forecast rests on."""
    where = f" on {forecast.device}" if forecast.device else ""
    recorded = f", recorded on {forecast.recorded_device}" if forecast.recorded_device else ""
    ranks = f", {forecast.num_ranks:,} ranks" if forecast.num_ranks > 1 else ""
    known = sorted(forecast.seconds_by_provenance.items(), key=lambda item: -item[1])
    return Document(
        title=f"{Path(forecast.source).name}{ranks}{where}{recorded}",
        cards=(
            Card(
                label="Step",
                value=forecast.step_seconds,
                unit="s",
                low=forecast.step_seconds_low,
                high=forecast.step_seconds_high,
                detail="in the long run",
            ),
            Card(
                label="Speed-up",
                value=forecast.speedup,
                unit="×",
                detail="of the recorded program in the long run",
            ),
        ),
        facts=_facts(forecast),
        blocks=(
            Section(title="A step", blocks=(steps_figure(forecast),), only="page"),
            *_steps(forecast),
            Section(title="What the forecast rests on", blocks=(share_table("", "Recorded work", known),)),
        ),
        assumptions=forecast.assumptions,
    )


def _steps(forecast: TraceForecast) -> tuple[Section, ...]:
    """A line for each step, where there are several."""
    if len(forecast.steps) < 2:
        return ()
    rows = [
        (
            step.number,
            step.kind + 1,
            step.num_operators,
            step.recorded_seconds,
            step.once_seconds,
            step.seconds,
        )
        for step in forecast.steps[:_MOST_STEPS]
    ]
    columns = (
        Column("Step", "number"),
        Column("Kind", "number"),
        Column("Operators", "number"),
        Column("Recorded", "s"),
        Column("Begun as recorded", "s"),
        Column("In the long run", "s"),
    )
    return (Section(title="Steps", blocks=(Table(columns=columns, rows=tuple(rows)),)),)


def steps_figure(forecast: TraceForecast) -> Figure:
    """A step as recorded, as the recorded program runs again, in the long run, and as forecast."""
    rows = {
        "recorded": (forecast.measured_seconds, palette.GREY),
        "run again": (forecast.replayed_seconds, palette.GREY),
        "in the long run": (forecast.steady_seconds, palette.GREY),
        "forecast": (forecast.step_seconds, palette.BLUE),
    }
    figure = amount_bars(
        "steps",
        {name: seconds for name, (seconds, _) in rows.items()},
        colours=[colour for _, colour in rows.values()],
    )
    interval = Curve(
        name="90 % interval",
        mode="markers",
        colour=palette.INK,
        sizes=3,
        x=(forecast.step_seconds,),
        y=(float(len(rows) - 1),),
        errors=((forecast.step_seconds_low, forecast.step_seconds_high),),
    )
    texts = max(forecast.step_seconds_high, *(seconds for seconds, _ in rows.values()))
    return figure.with_series(interval).with_end(1.3 * texts)


def _facts(forecast: TraceForecast) -> tuple[Fact, ...]:
    replayed, measured = forecast.replayed_seconds, forecast.measured_seconds
    off = replayed / measured - 1 if measured else 0.0
    found = [
        Fact(
            "Recorded",
            f"{format_seconds(measured)}; run again {format_seconds(replayed)}, {off:+.1%}; "
            f"in the long run {format_seconds(forecast.steady_seconds)}",
        ),
        Fact("Begun as recorded", _begun(forecast)),
        Fact(
            "Host",
            _change(
                forecast.host_seconds_before,
                forecast.host_seconds_after,
                (forecast.host_seconds_low, forecast.host_seconds_high),
            ),
        ),
    ]
    if forecast.device_seconds_before:
        device = _change(
            forecast.device_seconds_before,
            forecast.device_seconds_after,
            (forecast.device_seconds_low, forecast.device_seconds_high),
        )
        found.append(Fact("Device", device))
    return tuple(found)


def _begun(forecast: TraceForecast) -> str:
    """The forecast step from where the recorded ranks began, which a recorded step is compared with."""
    low, high = format_seconds(forecast.once_seconds_low), format_seconds(forecast.once_seconds_high)
    return f"{format_seconds(forecast.once_seconds)} ({low} – {high}), run once"


def _change(before: float, after: float, ends: tuple[float, float]) -> str:
    low, high = (format_seconds(end) for end in ends)
    width = f" ({low} – {high})" if ends[0] < ends[1] else ""
    return f"{format_seconds(before)} → {format_seconds(after)}{width} a step"
