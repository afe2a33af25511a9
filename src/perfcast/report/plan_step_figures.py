"""Plots of a step under a plan: where each rank's time goes, the timeline, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from perfcast.core.step_forecast import CAUSES, PlanForecast, Span
from perfcast.report.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    YELLOW,
    finish,
)
from perfcast.report.plan_step_text import CAUSE_WORDS
from perfcast.units import format_seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Item = TypeVar("Item")

CAUSE_COLOURS = {
    "compute": BLUE,
    "recompute": "#1f4e7d",
    "optimizer": GREEN,
    "tensor": ORANGE,
    "context": YELLOW,
    "expert": PURPLE,
    "data": PINK,
    "pipeline": "#7a5230",
    "offload": "#4fb3bf",
    "bubble": "rgba(138,148,163,0.45)",
    "host": RED,
    "straggler": "#b3261e",
    "other": GREY,
}
BACKWARD = "backward"
_BACKWARD_COLOUR = "#7fb2dd"
#: Ranks of a bar plot or timeline; of more, these are spread evenly over them.
MAX_RANKS = 24
MAX_PIECES = 6000
_LANE_PIXELS = 15
_PALE = 0.72


class Piece(NamedTuple):
    """Neighbouring spans of one lane and micro-batch that look alike, drawn as one line."""

    lane: int
    look: str
    is_odd: bool
    start_seconds: float
    end_seconds: float
    text: str


def plot_ranks(forecast: PlanForecast) -> Figure:
    """A bar for each differing rank, stacked by cause; they are equally long."""
    import plotly.graph_objects as go

    ranks = spread_evenly(sorted(forecast.time.ranks, key=lambda rank: (rank.stage, rank.rank)))
    names = [f"stage {rank.stage} · rank {rank.rank}" for rank in ranks]
    figure = go.Figure()
    for cause in CAUSES:
        seconds = [rank.seconds_by_cause.get(cause, 0.0) for rank in ranks]
        if not any(seconds):
            continue
        word = CAUSE_WORDS[cause]
        figure.add_bar(
            y=names, x=seconds, name=word, orientation="h", marker_color=CAUSE_COLOURS[cause],
            customdata=[f"{format_seconds(s)} · {100 * s / forecast.step_seconds:.1f} %" for s in seconds],
            hovertemplate="%{y}<br>%{customdata}<extra>" + word + "</extra>",
        )  # fmt: skip
    finish(figure, height=120 + 26 * len(ranks), legend=True)
    figure.update_layout(barmode="stack", bargap=0.25, barcornerradius=0)
    figure.update_xaxes(tickformat="~s", ticksuffix="s", rangemode="tozero")
    return figure.update_yaxes(autorange="reversed")


def plot_timeline(forecast: PlanForecast) -> Figure:
    """What every differing rank does when: its compute above, its exchanges and copies below."""
    import plotly.graph_objects as go

    stages = {rank.rank: rank.stage for rank in forecast.time.ranks}
    shown = spread_evenly(sorted(stages, key=lambda rank: (stages[rank], rank)))
    lanes = [(rank, is_compute) for rank in shown for is_compute in (True, False)]
    spans = [span for span in forecast.time.spans if span.rank in set(shown) and span.stream != "host"]
    figure = go.Figure()
    by_look: dict[tuple[str, bool], list[Piece]] = {}
    for piece in merge_spans(spans, {lane: at for at, lane in enumerate(lanes)}, forecast.step_seconds):
        by_look.setdefault((piece.look, piece.is_odd), []).append(piece)
    for look, is_odd in sorted(by_look, key=lambda key: (_order(key[0]), key[1])):
        is_named = not (is_odd and (look, False) in by_look)
        figure.add_trace(_lines(look, is_odd, is_named, by_look[look, is_odd]))
    finish(figure, height=110 + _LANE_PIXELS * len(lanes), legend=True)
    figure.update_xaxes(
        tickformat="~s", ticksuffix="s", range=[0, forecast.step_seconds], title="from the step's start"
    )
    return figure.update_yaxes(
        tickvals=[2 * at + 0.5 for at in range(len(shown))],
        ticktext=[f"stage {stages[rank]} · rank {rank}" for rank in shown],
        range=[len(lanes) - 0.4, -0.6], showgrid=False, zeroline=False,
    )  # fmt: skip


def _lines(look: str, is_odd: bool, is_named: bool, pieces: Sequence[Piece]) -> object:
    """Every other micro-batch is paler, so that neighbours can be told apart."""
    import plotly.graph_objects as go

    x: list[float | None] = []
    y: list[int | None] = []
    texts: list[str] = []
    for piece in pieces:
        x += [piece.start_seconds, piece.end_seconds, None]
        y += [piece.lane, piece.lane, None]
        texts += [piece.text] * 3
    colour = _BACKWARD_COLOUR if look == BACKWARD else CAUSE_COLOURS[look]
    word = look if look == BACKWARD else CAUSE_WORDS[look]
    return go.Scatter(
        x=x, y=y, mode="lines", name=word, line={"color": colour, "width": _LANE_PIXELS - 3},
        opacity=_PALE if is_odd else 1.0, legendgroup=look, showlegend=is_named,
        customdata=texts, hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def merge_spans(
    spans: Sequence[Span], lanes: dict[tuple[int, bool], int], step_seconds: float
) -> list[Piece]:
    """At most ``MAX_PIECES``: neighbours that look alike are one where no gap between them could be seen.

    Micro-batches stay apart unless there are too many pieces. Exchanges of several axes share a lane, each
    with pieces of its own.
    """
    gap = step_seconds / 4000
    pieces = _merged(spans, lanes, gap, divides=True)
    while len(pieces) > MAX_PIECES:
        pieces = _merged(spans, lanes, gap, divides=False)
        gap *= 2
    return pieces


def _merged(
    spans: Sequence[Span], lanes: dict[tuple[int, bool], int], gap: float, *, divides: bool
) -> list[Piece]:
    opened: dict[tuple[int, str], tuple[Piece, int]] = {}
    done: list[Piece] = []
    for span in sorted(spans, key=lambda s: s.start_seconds):
        lane = lanes[span.rank, span.stream == "compute"]
        look = BACKWARD if span.cause == "compute" and BACKWARD in span.label else span.cause
        number = span.micro_batch if divides else -1
        before, of = opened.get((lane, look), (None, -1))
        if before is not None and span.start_seconds - before.end_seconds <= gap and of == number:
            end = max(before.end_seconds, span.end_seconds)
            opened[lane, look] = (before._replace(end_seconds=end), of)
            continue
        if before is not None:
            done.append(before)
        piece = Piece(
            lane, look, number >= 0 and number % 2 == 1, span.start_seconds, span.end_seconds, _describe(span)
        )
        opened[lane, look] = (piece, number)
    return done + [piece for piece, _ in opened.values()]


def _describe(span: Span) -> str:
    """A micro-batch by its number, anything else by its label."""
    if span.micro_batch < 0:
        return escape(span.label)
    way = BACKWARD if BACKWARD in span.label else CAUSE_WORDS[span.cause]
    return f"{way} of micro-batch {span.micro_batch}"


def _order(look: str) -> float:
    return 0.5 if look == BACKWARD else CAUSES.index(look)


def plot_reliefs(forecast: PlanForecast) -> Figure:
    """Seconds that each relaxed bound would save."""
    import plotly.graph_objects as go

    reliefs = forecast.reliefs
    saved = [relief.saved_seconds for relief in reliefs]
    figure = go.Figure(
        go.Bar(
            y=[escape(relief.name) for relief in reliefs], x=saved, orientation="h", marker_color=GREEN,
            text=[f"{format_seconds(s)} · {100 * s / forecast.step_seconds:.1f} %" for s in saved],
            textposition="outside", cliponaxis=False, textfont={"color": INK}, hoverinfo="skip",
        )
    )  # fmt: skip
    finish(figure, height=90 + 28 * len(reliefs))
    figure.update_xaxes(
        range=[0, 1.35 * max(saved, default=1.0)], tickformat="~s", ticksuffix="s", title="saved of the step"
    )
    return figure.update_yaxes(autorange="reversed", showgrid=False)


def spread_evenly(items: Sequence[Item]) -> list[Item]:
    """All of a few; of more than ``MAX_RANKS`` that many, the first and the last among them."""
    if len(items) <= MAX_RANKS:
        return list(items)
    last = len(items) - 1
    return [items[round(at * last / (MAX_RANKS - 1))] for at in range(MAX_RANKS)]
