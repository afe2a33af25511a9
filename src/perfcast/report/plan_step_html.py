"""A step under a plan as one HTML file: where the time goes, the timeline, what would help, memory."""

from __future__ import annotations

from html import escape

from perfcast.core.forecast.plan import PlanForecast
from perfcast.prediction.run.predict import RunForecast
from perfcast.report.html import Card, Cell, Section, cards, figure_html, page, share, table
from perfcast.report.plan_memory_html import plot_stages
from perfcast.report.plan_memory_text import describe_need
from perfcast.report.plan_step_figures import plot_ranks, plot_reliefs
from perfcast.report.plan_step_text import (
    CAUSE_WORDS,
    describe_interval,
    describe_method,
    describe_step,
    describe_stragglers,
    describe_title,
    token_word,
    visible_causes,
)
from perfcast.report.plan_step_timeline import plot_timeline
from perfcast.report.run_html import run_section
from perfcast.report.tables import percent
from perfcast.units import format_bytes, format_count, format_seconds


def render_plan_forecast_html(forecast: PlanForecast, run: RunForecast | None = None) -> str:
    """The whole report as one page.

    Args:
        run: The whole run, shown before the assumptions.
    """
    lead = f'<p class="lead">{escape(describe_step(forecast))}</p>{cards(_headline(forecast))}'
    if forecast.stragglers is not None:
        lead += f'<p class="note">With stragglers: {escape(describe_stragglers(forecast.stragglers))}</p>'
    sections = [
        Section("", lead),
        Section("Where the step goes", _causes(forecast)),
        Section("By rank", figure_html(plot_ranks(forecast), "ranks") + _ranks(forecast)),
    ]
    if forecast.time.spans:
        sections.append(Section("Timeline", _timeline(forecast)))
    if forecast.reliefs:
        sections.append(Section("What would help", _reliefs(forecast)))
    if forecast.time.critical_path:
        sections.append(Section("Critical path", _path(forecast)))
    if forecast.memory is not None:
        sections.append(Section("Memory of the stages at their peaks", _memory(forecast)))
    if run is not None:
        sections.append(run_section(run))
    notes = "".join(f"<li>{escape(note)}</li>" for note in forecast.assumptions)
    sections.append(Section("Assumptions", f"<ul>{notes}</ul>"))
    return page(describe_title(forecast), sections)


def _headline(forecast: PlanForecast) -> list[Card]:
    each = format_count(forecast.tokens_per_second_per_device)
    found = [
        Card("Step", format_seconds(forecast.step_seconds), describe_interval(forecast)),
        Card(
            f"{token_word(forecast).title()} per second",
            format_count(forecast.tokens_per_second),
            f"{each} of one device",
        ),
        Card("MFU", percent(forecast.mfu), f"HFU {percent(forecast.hfu)}"),
    ]
    memory = forecast.memory
    if memory is not None:
        verdict = "fits" if memory.fits else "does not fit"
        detail = f"of {format_bytes(memory.capacity_bytes)}: {verdict}"
        needed = format_bytes(memory.footprint.device_bytes)
        found.append(Card("Memory of a device", needed, detail, alarm=not memory.fits))
    parameters = format_count(forecast.parameter_count)
    return [*found, Card("Parameters", parameters, describe_method(forecast))]


def _causes(forecast: PlanForecast) -> str:
    causes = forecast.time.seconds_by_cause
    rows = [
        (
            Cell(CAUSE_WORDS[cause]),
            Cell(format_seconds(causes[cause]), causes[cause]),
            share(causes[cause], forecast.step_seconds),
        )
        for cause in sorted(visible_causes(forecast), key=lambda cause: -causes[cause])
    ]
    return table(("Cause", "Mean over all ranks", "Share"), rows)


def _ranks(forecast: PlanForecast) -> str:
    ranks = sorted(forecast.time.ranks, key=lambda rank: (rank.stage, rank.rank))
    causes = visible_causes(forecast)
    rows = [
        (
            Cell(str(rank.stage), rank.stage),
            Cell(str(rank.rank), rank.rank),
            Cell(str(rank.num_equal), rank.num_equal),
            *(_time(rank.seconds_by_cause.get(cause, 0.0)) for cause in causes),
        )
        for rank in ranks
    ]
    return table(("Stage", "Rank", "Equal ranks", *(CAUSE_WORDS[cause] for cause in causes)), rows)


def _time(seconds: float) -> Cell:
    return Cell(format_seconds(seconds) if seconds > 0 else "–", seconds)


def _timeline(forecast: PlanForecast) -> str:
    note = (
        "Of each rank, compute above and exchanges below; gaps are waiting. Exchanges inside layers are "
        "drawn for one micro-batch alone. Drag to look closer; '--timeline FILE' writes every event for "
        "Perfetto."
    )
    return figure_html(plot_timeline(forecast), "timeline") + f'<p class="note">{note}</p>'


def _reliefs(forecast: PlanForecast) -> str:
    note = "Each bound relaxed alone, everything else unchanged, and the step timed again."
    return figure_html(plot_reliefs(forecast), "reliefs") + f'<p class="note">{note}</p>'


def _path(forecast: PlanForecast) -> str:
    rows = [
        (Cell(label), Cell(format_seconds(seconds), seconds), share(seconds, forecast.step_seconds))
        for label, seconds in forecast.time.critical_path
    ]
    return table(("What", "Time", "Share"), rows)


def _memory(forecast: PlanForecast) -> str:
    memory = forecast.memory
    assert memory is not None
    verdict = f'<p class="note">{escape(describe_need(memory))}</p>'
    return figure_html(plot_stages(memory), "stages") + verdict
