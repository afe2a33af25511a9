"""The picture of a pipeline: what every differing rank does when, its compute above its exchanges.

A few thousand pieces are drawn as lines that say what they are. More of them would be neither seen nor told
apart: then time is cut into bins, each in the colour of what takes most of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.forecast.plan import CAUSES, PlanForecast, Span
from perfcast.report.figures import finish
from perfcast.report.plan_step_figures import CAUSE_COLOURS, spread_evenly
from perfcast.report.plan_step_text import CAUSE_WORDS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BACKWARD = "backward"
INPUT_GRADIENT, WEIGHT_GRADIENT = "gradient of inputs", "gradient of weights"
MAX_PIECES = 6000
NUM_BINS = 1600
_COLOURS = CAUSE_COLOURS | {BACKWARD: "#7fb2dd", WEIGHT_GRADIENT: "#9bc995"}
_WORDS = CAUSE_WORDS | {BACKWARD: BACKWARD, WEIGHT_GRADIENT: WEIGHT_GRADIENT}
_LOOKS = (CAUSES[0], BACKWARD, WEIGHT_GRADIENT, *CAUSES[1:])
_LANE_PIXELS = 15
_PALE = 0.72

#: Rank, and whether it is its compute.
Lane = tuple[int, bool]


class Piece(NamedTuple):
    """Neighbouring spans of one lane and micro-batch that look alike, drawn as one line."""

    lane: int
    look: str
    is_odd: bool
    start_seconds: float
    end_seconds: float
    text: str


def plot_timeline(forecast: PlanForecast) -> Figure:
    """A lane for the compute and one for the exchanges and copies of every differing rank."""
    import plotly.graph_objects as go

    stages = {rank.rank: rank.stage for rank in forecast.time.ranks}
    shown = spread_evenly(sorted(stages, key=lambda rank: (stages[rank], rank)))
    lanes = {lane: at for at, lane in enumerate((rank, own) for rank in shown for own in (True, False))}
    ranks = set(shown)
    spans = outermost([s for s in forecast.time.spans if s.rank in ranks and s.stream != "host"])
    pieces = merge_spans(spans, lanes, forecast.step_seconds)
    figure = go.Figure()
    if len(pieces) <= MAX_PIECES:
        figure.add_traces(list(_lines(pieces)))
    else:
        figure.add_traces(list(_bins(spans, lanes, forecast.step_seconds)))
    finish(figure, height=110 + _LANE_PIXELS * len(lanes), legend=True)
    figure.update_xaxes(
        tickformat="~s", ticksuffix="s", range=[0, forecast.step_seconds], title="from the step's start"
    )
    return figure.update_yaxes(
        tickvals=[2 * at + 0.5 for at in range(len(shown))],
        ticktext=[f"stage {stages[rank]} · rank {rank}" for rank in shown],
        range=[len(lanes) - 0.4, -0.6], showgrid=False, zeroline=False,
    )  # fmt: skip


def look_of(span: Span) -> str:
    """Its cause; backwards look different from forwards, and put-off gradients of weights from both."""
    if span.cause != "compute":
        return span.cause
    if WEIGHT_GRADIENT in span.label:
        return WEIGHT_GRADIENT
    return BACKWARD if BACKWARD in span.label or INPUT_GRADIENT in span.label else span.cause


def outermost(spans: Sequence[Span]) -> list[Span]:
    """Those that lie in no other of their rank and stream: passes, without the kernels shown inside some."""
    found: list[Span] = []
    ends: dict[tuple[int, str], float] = {}
    for span in sorted(spans, key=lambda s: (s.start_seconds, -s.end_seconds)):
        key = (span.rank, span.stream)
        if span.end_seconds > ends.get(key, 0.0):
            ends[key] = span.end_seconds
            found.append(span)
    return found


def merge_spans(spans: Sequence[Span], lanes: Mapping[Lane, int], step_seconds: float) -> list[Piece]:
    """Neighbours of one micro-batch that look alike are one where no gap between them could be seen.

    Exchanges of several axes share a lane, each with pieces of its own.
    """
    gap = step_seconds / (2 * NUM_BINS)
    opened: dict[tuple[int, str], tuple[Piece, int]] = {}
    done: list[Piece] = []
    for span in sorted(spans, key=lambda s: s.start_seconds):
        lane, look = lanes[span.rank, span.stream == "compute"], look_of(span)
        before, of = opened.get((lane, look), (None, -1))
        if before is not None and of == span.micro_batch and span.start_seconds - before.end_seconds <= gap:
            end = max(before.end_seconds, span.end_seconds)
            opened[lane, look] = (before._replace(end_seconds=end), of)
            continue
        if before is not None:
            done.append(before)
        is_odd = span.micro_batch >= 0 and span.micro_batch % 2 == 1
        piece = Piece(lane, look, is_odd, span.start_seconds, span.end_seconds, _describe(span, look))
        opened[lane, look] = (piece, span.micro_batch)
    return done + [piece for piece, _ in opened.values()]


def _describe(span: Span, look: str) -> str:
    """A micro-batch by its number, anything else by its label."""
    if span.micro_batch < 0:
        return escape(span.label)
    return f"{_WORDS[look]} of micro-batch {span.micro_batch}"


def _lines(pieces: Sequence[Piece]) -> Iterator[object]:
    """A trace for each look; every other micro-batch is paler, so that neighbours can be told apart."""
    import plotly.graph_objects as go

    groups: dict[tuple[str, bool], list[Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.look, piece.is_odd), []).append(piece)
    for look, is_odd in sorted(groups, key=lambda key: (_LOOKS.index(key[0]), key[1])):
        x: list[float | None] = []
        y: list[int | None] = []
        texts: list[str] = []
        for piece in groups[look, is_odd]:
            x += [piece.start_seconds, piece.end_seconds, None]
            y += [piece.lane, piece.lane, None]
            texts += [piece.text] * 3
        yield go.Scatter(
            x=x, y=y, mode="lines", name=_WORDS[look], legendgroup=look,
            showlegend=not (is_odd and (look, False) in groups), opacity=_PALE if is_odd else 1.0,
            line={"color": _COLOURS[look], "width": _LANE_PIXELS - 3},
            customdata=texts, hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip


def _bins(spans: Sequence[Span], lanes: Mapping[Lane, int], step_seconds: float) -> Iterator[object]:
    """A picture of lanes by bins, and a legend of what it shows."""
    import plotly.graph_objects as go

    most = longest_looks(spans, lanes, step_seconds)
    used = [look for index, look in enumerate(_LOOKS) if (most == index).any()]
    width = step_seconds / NUM_BINS
    count = len(_LOOKS)
    scale = [[(index + end) / count, _COLOURS[look]] for index, look in enumerate(_LOOKS) for end in (0, 1)]
    yield go.Heatmap(
        z=[[None if index < 0 else index for index in row] for row in most.tolist()],
        x0=width / 2, dx=width, y0=0, dy=1, zmin=-0.5, zmax=count - 0.5, colorscale=scale,
        showscale=False, hoverinfo="skip", ygap=3,
    )  # fmt: skip
    for look in used:
        marker = {"color": _COLOURS[look], "symbol": "square", "size": 10}
        yield go.Scatter(x=[None], y=[None], mode="markers", name=_WORDS[look], marker=marker)


def longest_looks(spans: Sequence[Span], lanes: Mapping[Lane, int], step_seconds: float) -> Integers:
    """What takes most of each bin, as an index into all looks, -1 for nothing; shape [lanes, bins]."""
    width = step_seconds / NUM_BINS
    seconds = np.zeros((len(lanes), len(_LOOKS), NUM_BINS))
    for span in spans:
        row = seconds[lanes[span.rank, span.stream == "compute"], _LOOKS.index(look_of(span))]
        start, end = span.start_seconds / width, min(span.end_seconds / width, float(NUM_BINS))
        first, last = int(start), min(int(end), NUM_BINS - 1)
        if first >= last:
            row[last] += end - start
            continue
        row[first] += first + 1 - start
        row[first + 1 : last] += 1.0
        row[last] += end - last
    idle = 1.0 - seconds.sum(axis=1)
    most = seconds.argmax(axis=1)
    return np.where(seconds.max(axis=1) > idle, most, -1)
