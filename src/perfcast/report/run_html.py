"""A whole run as a section of a page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from perfcast.prediction.run.predict import RunForecast
from perfcast.report.figures import BLUE, GREY, ORANGE, RED, finish
from perfcast.report.html import Card, Section, cards, figure_html
from perfcast.report.run_text import describe_checkpoints, describe_interruptions, describe_run, run_parts
from perfcast.report.tables import percent
from perfcast.units import DAY, HOUR, format_count, format_duration

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_COLOURS = (BLUE, GREY, ORANGE, RED)


def run_section(run: RunForecast) -> Section:
    """Headline figures, where the time goes, assumptions."""
    lead = f'<p class="lead">{escape(describe_run(run))}</p>{cards(_headline(run))}'
    facts = f'<p class="note">Checkpoints: {escape(describe_checkpoints(run))}.</p>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.assumptions)
    figure = figure_html(plot_run(run), "run")
    return Section("The whole run", f'{lead}{figure}{facts}<ul class="note">{notes}</ul>')


def plot_run(run: RunForecast) -> Figure:
    """The days of the run as one bar, cut into what they go to."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for (name, seconds), colour in zip(run_parts(run), _COLOURS, strict=True):
        figure.add_bar(
            x=[seconds / DAY], y=[""], orientation="h", name=name, marker_color=colour,
            hovertemplate=f"{escape(name)}<br>{format_duration(seconds)}, "
            f"{percent(seconds / run.seconds)}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title="days", rangemode="tozero")
    return finish(figure, height=170, legend=True).update_layout(
        barmode="stack", legend={"traceorder": "normal"}, margin={"t": 40}
    )


def _headline(run: RunForecast) -> list[Card]:
    low, high = format_duration(run.seconds_low), format_duration(run.seconds_high)
    items = [
        Card("Time", format_duration(run.seconds), f"{low} to {high}"),
        Card("Device-hours", format_count(run.device_seconds / HOUR), f"{run.num_devices:,} devices"),
        Card("Goodput", percent(run.goodput), f"interruptions: {describe_interruptions(run)}"),
    ]
    if run.energy_joules is not None:
        items.append(Card("Energy", format_count(run.energy_joules / HOUR, "Wh"), "of the site"))
    if run.dollars is not None:
        items.append(Card("Cost", f"${format_count(run.dollars)}"))
    return items
