"""A search for inference as one HTML file: throughput against a token's time, and the best plans."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from perfcast.prediction.sweep.serving import Phase
from perfcast.report.figures import BLUE, GREEN, GREY, ORANGE, PINK, PURPLE, RED, YELLOW, finish
from perfcast.report.html import Card, Cell, Section, cards, figure_html, page, table
from perfcast.report.search_figures import set_log_seconds
from perfcast.report.search_serving_text import (
    describe_limits,
    describe_serving_search,
    plan_degrees,
    serving_cells,
    serving_headings,
    serving_words,
)
from perfcast.search.serving import ServingChoice, ServingReport, ServingResult
from perfcast.units import MEGA, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = (BLUE, ORANGE, PURPLE, PINK, YELLOW, RED, GREY)
#: Plans that are drawn as lines; others would hide them.
_MAX_LINES = 7


def render_serving_search_html(found: ServingReport) -> str:
    """The whole report as one page."""
    best = found.results[0]
    lead = f'<p class="lead">{escape(describe_limits(best))}</p>{cards(_headline(best))}'
    failed = "".join(f'<p class="note">{escape(name)}: {escape(reason)}</p>' for name, reason in found.failed)
    sections = [Section("", lead + failed)]
    for at, result in enumerate(found.results):
        name = f"{result.cluster}:{result.num_devices}"
        sections.append(Section(f"Batches on {name}", figure_html(plot_batches(result), f"batches-{at}")))
        sections.append(Section(f"Best plans on {name}, each with its best batch", _ranked(result)))
    notes = "".join(f"<li>{escape(note)}</li>" for note in best.assumptions)
    sections.append(Section("Assumptions", f"<ul>{notes}</ul>"))
    return page(f"Search: {describe_serving_search(best)}", sections)


def _headline(result: ServingResult) -> list[Card]:
    best = result.ranked[0]
    each = format_count(best.tokens_per_second / result.num_devices)
    found = [
        Card("Best plan", serving_words(best)),
        Card("Tokens per second", format_count(best.tokens_per_second), f"{each} of one device"),
    ]
    for name, phase in (("First token", best.point.prefill), ("Each token", best.point.decode)):
        if phase is not None:
            found.append(Card(name, format_seconds(phase.seconds), _interval(phase)))
    held, capacity = format_bytes(best.point.memory_bytes), format_bytes(result.capacity_bytes)
    found.append(Card("Memory of a device", held, f"of {capacity}"))
    dollars = result.dollars_per_token(best)
    if dollars is not None:
        found.append(Card("Cost of a million tokens", f"${MEGA * dollars:.3g}"))
    return found


def _interval(phase: Phase) -> str:
    return f"{format_seconds(phase.seconds_low)} to {format_seconds(phase.seconds_high)} with 90 %"


def plot_batches(result: ServingResult) -> Figure:
    """Throughput against a token's time: a line for each of the best plans, over its batches."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for choice, colour in zip(result.ranked[:_MAX_LINES], _COLOURS, strict=False):
        points = [point for point in result.points if point.plan == choice.plan]
        points.sort(key=lambda point: point.point.batch_size)
        figure.add_scatter(
            x=[_seconds(point, result) for point in points],
            y=[point.tokens_per_second / result.num_devices for point in points],
            mode="lines+markers", name=escape(plan_degrees(choice)), line={"color": colour},
            text=[f"{serving_words(p)}<br>{format_bytes(p.point.memory_bytes)}" for p in points],
            hovertemplate="%{text}<br>%{x:.3~s}s, %{y:.3~s} tokens/s<extra></extra>",
        )  # fmt: skip
    best = result.ranked[0]
    figure.add_scatter(
        x=[_seconds(best, result)], y=[best.tokens_per_second / result.num_devices], mode="markers",
        name="best within the limits", marker={"symbol": "star", "size": 15, "color": GREEN},
        hoverinfo="skip",
    )  # fmt: skip
    request = result.request
    limit = request.max_token_seconds if request.mode == "decode" else request.max_first_seconds
    drawn = [seconds for trace in figure.data for seconds in trace.x]
    if limit is not None:
        figure.add_vline(x=limit, line_dash="dash", line_color=RED)
        drawn.append(limit)
    set_log_seconds(figure, drawn, "each token" if request.mode == "decode" else "first token")
    figure.update_yaxes(title="tokens/s of a device", tickformat="~s", rangemode="tozero")
    return finish(figure, height=400, legend=True).update_layout(margin={"t": 60})


def _seconds(choice: ServingChoice, result: ServingResult) -> float:
    phase = choice.point.decode if result.request.mode == "decode" else choice.point.prefill
    assert phase is not None  # a choice has its mode's phase
    return phase.seconds


def _ranked(result: ServingResult) -> str:
    rows = []
    for choice in result.ranked:
        point = choice.point
        values: list[float] = [
            point.batch_size,
            0.0 if point.prefill is None else point.prefill.seconds,
            0.0 if point.decode is None else point.decode.seconds,
            choice.tokens_per_second,
            point.memory_bytes,
        ]
        dollars = result.dollars_per_token(choice)
        values += [] if dollars is None else [dollars]
        cells = [Cell(*pair) for pair in zip(serving_cells(choice, result), values, strict=True)]
        rows.append((*cells, Cell(plan_degrees(choice))))
    headings = [heading.replace("\n", " ") for heading in serving_headings(result)]
    return table((*headings, "Plan"), rows)
