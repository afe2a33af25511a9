"""Memory under a plan as one HTML file: all stages, the worst term by term, and what would make it fit."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.tensor import Category
from perfcast.report.figures import BLUE, GREEN, GREY, INK, LINE, ORANGE, PINK, PURPLE, RED, YELLOW
from perfcast.report.html import Card, Cell, Section, cards, figure_html, page, table, words
from perfcast.report.plan_memory_text import (
    describe_allocated,
    describe_change,
    describe_need,
    describe_run,
    sorted_terms,
)
from perfcast.units import GIB, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = {
    Category.PARAMETER: BLUE,
    Category.GRADIENT: ORANGE,
    Category.OPTIMIZER_STATE: GREEN,
    Category.ACTIVATION: PINK,
    Category.TEMPORARY: RED,
    Category.BUFFER: GREY,
    Category.INPUT: YELLOW,
    Category.KV_CACHE: PURPLE,
}
_BAR_PIXELS, _FRAME_PIXELS = 26, 150


def render_plan_memory_html(result: PlanMemory) -> str:
    """The whole report as one page."""
    footprint = result.footprint
    title = f"Memory of {result.model} on {result.plan.world_size} × {result.device_title}"
    stage = footprint.peak_stage
    verdict = f'<p class="lead"><strong>{escape(describe_need(result))}</strong></p>'
    lead = f'<p class="lead">{escape(describe_run(result))}</p>{verdict}{cards(_headline(result))}'
    notes = "".join(f"<li>{escape(note)}</li>" for note in footprint.assumptions)
    sections = [
        Section("", lead),
        Section("Stages at their peaks, by category", figure_html(plot_stages(result), "stages")),
        Section(f"Stage {stage.stage} at its peak: {stage.peak.name}", _terms(result)),
    ]
    if footprint.layer_terms:
        sections.append(Section("What one layer keeps for its backward", _layer(result)))
    if result.step_seconds is not None:
        sections.append(Section("What would make it fit", _remedies(result)))
    sections.append(Section("Assumptions", f"<ul>{notes}</ul>"))
    return page(title, sections)


def plot_stages(result: PlanMemory) -> Figure:
    """A bar for each stage, stacked by category, with the device's memory as a line."""
    import plotly.graph_objects as go

    stages = result.footprint.stages
    names = [f"stage {stage.stage}" for stage in stages]
    figure = go.Figure()
    for category in Category.ALL:
        gibibytes = [
            sum(term.num_bytes for term in stage.peak.terms if term.category == category) / GIB
            for stage in stages
        ]
        if any(gibibytes):
            figure.add_bar(
                y=names, x=gibibytes, name=words(category), orientation="h", marker_color=_COLOURS[category],
                hovertemplate="%{x:.2f} GiB<extra>" + words(category) + "</extra>",
            )  # fmt: skip
    capacity = (result.capacity_bytes - result.footprint.context_bytes) / GIB
    figure.add_vline(
        x=capacity,
        line_dash="dash",
        line_color=RED,
        annotation_text="device without context",
        annotation_position="bottom right",
    )
    figure.update_layout(
        barmode="stack", height=_FRAME_PIXELS + _BAR_PIXELS * len(stages), bargap=0.25,
        margin={"l": 10, "r": 20, "t": 70, "b": 50}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"color": INK},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "traceorder": "normal"},
        xaxis={"title": "GiB allocated", "gridcolor": LINE, "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
    )  # fmt: skip
    return figure


def _headline(result: PlanMemory) -> list[Card]:
    footprint = result.footprint
    return [
        Card(
            "Needed", format_bytes(footprint.device_bytes), f"of {format_bytes(result.capacity_bytes)}",
            alarm=not result.fits,
        ),
        Card("Allocated", format_bytes(footprint.peak_bytes), describe_allocated(result)),
        Card("Reserved", format_bytes(footprint.reserved_bytes), "by the caching allocator"),
        Card("Context", format_bytes(footprint.context_bytes), "driver and communicators"),
        Card("Parameters", format_count(result.parameter_count), f"on {result.plan.world_size} devices"),
    ]  # fmt: skip


def _terms(result: PlanMemory) -> str:
    stage = result.footprint.peak_stage
    rows = [
        (
            Cell(term.name),
            Cell(format_bytes(term.num_bytes), term.num_bytes),
            Cell(f"{100 * term.num_bytes / stage.peak.num_bytes:.1f} %", term.num_bytes),
            Cell(words(term.category)),
            Cell(term.formula),
            Cell(term.source),
        )
        for term in sorted_terms(stage)
    ]
    return table(("Term", "Bytes", "Share", "Category", "Formula", "Source"), rows)


def _layer(result: PlanMemory) -> str:
    terms = sorted(result.footprint.layer_terms, key=lambda term: -term.num_bytes)
    whole = sum(term.num_bytes for term in terms)
    rows = [
        (
            Cell(term.name),
            Cell(format_bytes(term.num_bytes), term.num_bytes),
            Cell(f"{100 * term.num_bytes / whole:.1f} %", term.num_bytes),
        )
        for term in terms
    ]
    return table(("Tensor", "Bytes", "Share"), rows)


def _remedies(result: PlanMemory) -> str:
    step = result.step_seconds or 0.0
    rows = [
        (
            Cell(describe_change(remedy)),
            Cell(format_bytes(remedy.device_bytes), remedy.device_bytes),
            Cell("fits" if remedy.fits else "does not fit"),
            Cell(f"{100 * remedy.extra_seconds / step:+.1f} %", remedy.extra_seconds),
            Cell("; ".join(remedy.reasons)),
        )
        for remedy in result.remedies
    ]
    note = (
        f'<p class="note">Cost as a share of a step of roughly {escape(format_seconds(step))}: products at '
        "half the peak, links at 0.8 of theirs, nothing overlapped.</p>"
    )
    return table(("Change", "Needs", "", "Costs", "By"), rows) + note
