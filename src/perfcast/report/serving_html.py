"""Inference over batch sizes and contexts as one HTML file."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from perfcast.prediction.sweep.serving import ServingForecast, ServingPoint
from perfcast.report.figures import BLUE, GREEN, GREY, ORANGE, PINK, PURPLE, RED, YELLOW, finish
from perfcast.report.html import Cell, Section, figure_html, page, table
from perfcast.report.serving_text import (
    HEADINGS,
    describe_fit,
    describe_largest,
    describe_serving,
    point_cells,
)
from perfcast.units import format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    Value = Callable[[ServingPoint], float | None]

_COLOURS = (BLUE, ORANGE, GREEN, PINK, PURPLE, RED, YELLOW, GREY)


def render_serving_html(found: ServingForecast) -> str:
    """The whole report as one page."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.assumptions)
    held = "".join(f"<li>{escape(describe_largest(*pair))}</li>" for pair in found.largest_batches)
    sections = [Section("", f'<p class="lead">{escape(describe_serving(found))}</p>')]
    if any(point.decode for point in found.points):
        sections += [
            Section("Throughput against time per output token", figure_html(plot_trade(found), "trade")),
            Section("Time per output token", figure_html(plot_seconds(found, "decode"), "decode")),
        ]
    if any(point.prefill for point in found.points):
        title = "Time to first token, all prompts at once"
        sections.append(Section(title, figure_html(plot_seconds(found, "prefill"), "prefill")))
    sections += [
        Section("Points", _table(found)),
        Section("What the memory holds", f"<ul>{held}</ul>"),
        Section("Assumptions", f"<ul>{notes}</ul>"),
    ]
    return page(f"Inference of {found.model}", sections)


def plot_seconds(found: ServingForecast, mode: str) -> Figure:
    """Time to first token, or per output token, over sequences, a line for each context."""

    def seconds(point: ServingPoint) -> float | None:
        phase = point.prefill if mode == "prefill" else point.decode
        return None if phase is None else phase.seconds

    figure = _lines(found, lambda point: point.batch_size, seconds)
    figure.update_xaxes(title="sequences at once", type="log", **_ticks(found))
    figure.update_yaxes(title="seconds", type="log", tickformat="~s", ticksuffix="s", dtick="D2")
    return figure


def plot_trade(found: ServingForecast) -> Figure:
    """Tokens per second and device against what a reader waits for a token."""

    def seconds(point: ServingPoint) -> float | None:
        return None if point.decode is None else point.decode.seconds

    def rate(point: ServingPoint) -> float | None:
        return None if point.decode is None else point.decode.tokens_per_second / found.num_devices

    figure = _lines(found, seconds, rate)
    figure.update_xaxes(title="time per output token", tickformat="~s", ticksuffix="s", rangemode="tozero")
    figure.update_yaxes(title="tokens per second and device", type="log", tickformat="~s", dtick="D2")
    return figure


def _lines(found: ServingForecast, across: Value, up: Value) -> Figure:
    from plotly import graph_objects as go

    figure = go.Figure()
    contexts = sorted({point.context_length for point in found.points})
    for index, context in enumerate(contexts):
        mine = [p for p in found.points if p.context_length == context and not p.skipped]
        figure.add_scatter(
            x=[across(p) for p in mine], y=[up(p) for p in mine], mode="lines+markers",
            name=f"{context:,} tokens", line={"color": _COLOURS[index % len(_COLOURS)]},
            marker={"symbol": ["circle" if p.fits else "circle-open" for p in mine], "size": 8},
            text=[_hover(p, found.num_devices) for p in mine], hovertemplate="%{text}",
        )  # fmt: skip
    return finish(figure, height=360, legend=True).update_layout(margin={"t": 40}, showlegend=True)


def _ticks(found: ServingForecast) -> dict[str, list[int] | list[str]]:
    batches = sorted({point.batch_size for point in found.points})
    return {"tickvals": batches, "ticktext": [f"{batch:,}" for batch in batches]}


def _hover(point: ServingPoint, num_devices: int) -> str:
    lines = [f"{point.batch_size:,} × {point.context_length:,} tokens"]
    if point.prefill is not None:
        lines.append(f"first token {format_seconds(point.prefill.seconds)}")
    if point.decode is not None:
        rate = format_count(point.decode.tokens_per_second / num_devices)
        lines.append(f"{format_seconds(point.decode.seconds)} a token, {rate} tokens/s a device")
    if not point.fits:
        lines.append("does not fit the memory")
    return "<br>".join(lines) + "<extra></extra>"


def _table(found: ServingForecast) -> str:
    rows = []
    for point in found.points:
        values: list[float | None] = [
            point.context_length,
            point.batch_size,
            point.prefill.seconds if point.prefill else None,
            point.decode.seconds if point.decode else None,
            point.decode.tokens_per_second if point.decode else None,
            point.prefill.tokens_per_second if point.prefill else None,
            point.memory_bytes,
        ]
        texts = point_cells(point, found.num_devices)
        cells = [Cell(text, value) for text, value in zip(texts, values, strict=True)]
        rows.append((*cells, Cell(describe_fit(point))))
    note = '<p class="note">Rates: of one device. A ring: the memory does not hold it.</p>'
    headings = (heading.replace("\n", " ") for heading in HEADINGS)
    return table((*headings, "Note"), rows) + note
