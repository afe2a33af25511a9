"""Scaling curves as one HTML file: throughput, efficiency and MFU over devices, and where each step goes."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from perfcast.prediction.sweep.scale import COMMUNICATION, ScaleCurve, ScaleForecast, ScalePoint
from perfcast.report.figures import BLUE, GREEN, GREY, ORANGE, PINK, PURPLE, RED, YELLOW, finish
from perfcast.report.html import Cell, Section, figure_html, page, table
from perfcast.report.scale_text import describe_degrees, describe_scaling, fits, point_cells
from perfcast.units import format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = (BLUE, ORANGE, GREEN, PINK, PURPLE, RED, YELLOW, GREY)
#: What a step goes to, by name: its causes and a colour.
_PARTS = (
    ("compute", ("compute", "optimizer"), BLUE),
    ("computed again", ("recompute",), PURPLE),
    ("exposed communication", COMMUNICATION, ORANGE),
    ("bubble", ("bubble",), GREY),
    ("host and other", ("host", "offload", "straggler", "other"), RED),
)
_HEADINGS = (
    "Cluster", "Devices", "Batch", "Step", "Tokens/s", "Efficiency", "MFU", "Communication", "Bubble", "Plan",
)  # fmt: skip


def render_scaling_html(found: ScaleForecast) -> str:
    """The whole report as one page."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.assumptions)
    sections = [
        Section("", f'<p class="lead">{escape(describe_scaling(found))}</p>'),
        Section("Tokens per second", figure_html(plot_throughput(found), "throughput")),
        Section("Tokens per second of a device", figure_html(plot_share(found, "efficiency"), "efficiency")),
        Section("Model flops utilization", figure_html(plot_share(found, "mfu"), "mfu")),
        *(
            Section(f"Where a step goes: {curve.title}", figure_html(plot_parts(curve), f"parts-{index}"))
            for index, curve in enumerate(found.curves)
            if any(point.forecast for point in curve.points)
        ),
        Section("Points", _table(found)),
        Section("Assumptions", f"<ul>{notes}</ul>"),
    ]
    return page(f"Scaling of {found.model}", sections)


def plot_throughput(found: ScaleForecast) -> Figure:
    """Tokens per second over devices, with the line of the first point's efficiency."""
    figure = _lines(found, lambda point: point.forecast.tokens_per_second if point.forecast else None)
    for curve, colour in zip(found.curves, _cycle(len(found.curves)), strict=True):
        known = _known(curve)
        if len(known) > 1 and known[0].forecast:
            each = known[0].forecast.tokens_per_second_per_device
            ends = [known[0].num_devices, known[-1].num_devices]
            figure.add_scatter(
                x=ends, y=[each * count for count in ends], mode="lines", showlegend=False, hoverinfo="skip",
                line={"color": colour, "width": 1, "dash": "dot"},
            )  # fmt: skip
    figure.update_yaxes(title="tokens per second", type="log", tickformat="~s", dtick="D2")
    return figure


def plot_share(found: ScaleForecast, name: str) -> Figure:
    """Efficiency or MFU over devices, in percent."""

    def share(point: ScalePoint) -> float | None:
        if point.forecast is None or point.efficiency is None:
            return None
        return 100 * (point.efficiency if name == "efficiency" else point.forecast.mfu)

    figure = _lines(found, share)
    title = "% of the first point's" if name == "efficiency" else "MFU, %"
    figure.update_yaxes(title=title, rangemode="tozero")
    return figure


def plot_parts(curve: ScaleCurve) -> Figure:
    """The step at each number of devices as shares of its time."""
    from plotly import graph_objects as go

    known = _known(curve)
    figure = go.Figure()
    for name, causes, colour in _PARTS:
        seconds = [
            [p.forecast.time.seconds_by_cause.get(c, 0.0) for c in causes] for p in known if p.forecast
        ]
        steps = [p.forecast.step_seconds for p in known if p.forecast]
        shares = [100 * sum(each) / step for each, step in zip(seconds, steps, strict=True)]
        if any(shares):
            figure.add_bar(
                x=[f"{p.num_devices:,}" for p in known], y=shares, name=name, marker_color=colour,
                text=[format_seconds(sum(each)) for each in seconds], textposition="none",
                hovertemplate="%{text}, %{y:.1f} %<extra>" + name + "</extra>",
            )  # fmt: skip
    figure.update_xaxes(title="devices", type="category")
    figure.update_yaxes(title="% of the step", range=[0, 100])
    return finish(figure, height=320, legend=True).update_layout(
        barmode="stack", legend={"traceorder": "normal"}, margin={"t": 40}
    )


def _lines(found: ScaleForecast, value: Callable[[ScalePoint], float | None]) -> Figure:
    from plotly import graph_objects as go

    figure = go.Figure()
    counts: set[int] = set()
    for curve, colour in zip(found.curves, _cycle(len(found.curves)), strict=True):
        known = _known(curve)
        counts.update(point.num_devices for point in known)
        figure.add_scatter(
            x=[point.num_devices for point in known], y=[value(point) for point in known],
            name=escape(curve.title), mode="lines+markers", line={"color": colour},
            marker={"symbol": ["circle" if fits(point) else "circle-open" for point in known], "size": 8},
            text=[_hover(point) for point in known], hovertemplate="%{text}",
        )  # fmt: skip
    ticks = sorted(counts)
    figure.update_xaxes(title="devices", type="log", tickvals=ticks, ticktext=[f"{n:,}" for n in ticks])
    return finish(figure, height=360, legend=True).update_layout(margin={"t": 40})


def _hover(point: ScalePoint) -> str:
    forecast = point.forecast
    if forecast is None:
        return ""
    memory = "" if fits(point) else "<br>does not fit the memory"
    return (
        f"{point.num_devices:,} devices, {format_seconds(forecast.step_seconds)}<br>"
        f"{format_count(forecast.tokens_per_second)} tokens/s, MFU {100 * forecast.mfu:.1f} %<br>"
        f"{escape(describe_degrees(forecast.plan))}{memory}<extra></extra>"
    )


def _known(curve: ScaleCurve) -> list[ScalePoint]:
    return [point for point in curve.points if point.forecast is not None]


def _cycle(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]


def _table(found: ScaleForecast) -> str:
    rows = []
    for curve in found.curves:
        for point in curve.points:
            forecast = point.forecast
            values: list[float | None] = [point.num_devices, point.batch_size]
            if forecast is None:
                values += [None] * 6
            else:
                values += [forecast.step_seconds, forecast.tokens_per_second, point.efficiency, forecast.mfu]
                values += [point.exposed_share, point.bubble_share]
            texts = point_cells(point)
            cells = [Cell(text, value) for text, value in zip(texts[:-1], values, strict=True)]
            rows.append((Cell(curve.cluster), *cells, Cell(texts[-1])))
    note = '<p class="note">A ring stands for a plan that the memory does not hold.</p>'
    return table(_HEADINGS, rows) + note
