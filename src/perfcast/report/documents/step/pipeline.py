"""The picture of a pipeline: what every differing rank does when, its compute above its collectives.

A few thousand pieces are drawn as lines that say what they are. More of them would be neither seen nor told
apart: then time is cut into bins, each in the colour of what takes most of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.forecast.plan import CAUSES, PlanForecast, Span
from perfcast.report import palette
from perfcast.report.figure import Axis, Curve, Figure, Heatmap

BACKWARD = "backward"
INPUT_GRADIENT, WEIGHT_GRADIENT = "gradient of inputs", "gradient of weights"
MAX_PIECES = 6000
NUM_BINS = 1600
#: Ranks of a figure; of more, these are spread evenly over them.
MAX_RANKS = 24
_COLOURS = palette.CAUSES | {BACKWARD: "#7fb2dd", WEIGHT_GRADIENT: "#9bc995"}
_LOOKS = (CAUSES[0], BACKWARD, WEIGHT_GRADIENT, *CAUSES[1:])
_LANE_PIXELS = 15
_PALE = 0.72

Item = TypeVar("Item")
#: Rank, and whether it is its compute.
Lane = tuple[int, bool]


class Piece(NamedTuple):
    """Neighbouring spans of one lane and micro-batch that look alike, drawn as one line."""

    lane: int
    look: str
    start_seconds: float
    end_seconds: float
    label: str
    micro_batch: int

    @property
    def is_odd(self) -> bool:
        """Whether its micro-batch is every other one."""
        return self.micro_batch >= 0 and self.micro_batch % 2 == 1


def pipeline_figure(forecast: PlanForecast, cause_words: Mapping[str, str]) -> Figure:
    """A lane for the compute and one for the collectives and copies of every differing rank."""
    words = {**cause_words, BACKWARD: BACKWARD, WEIGHT_GRADIENT: WEIGHT_GRADIENT}
    stages = {rank.rank: rank.stage for rank in forecast.time.ranks}
    shown = spread_evenly(sorted(stages, key=lambda rank: (stages[rank], rank)))
    lanes = {lane: at for at, lane in enumerate((rank, own) for rank in shown for own in (True, False))}
    ranks = set(shown)
    spans = outermost([s for s in forecast.time.spans if s.rank in ranks and s.stream != "host"])
    pieces = merge_spans(spans, lanes, forecast.step_seconds)
    if len(pieces) <= MAX_PIECES:
        series: tuple[Curve | Heatmap, ...] = tuple(_lines(pieces, words))
    else:
        series = tuple(_bins(spans, lanes, forecast.step_seconds, words))
    ticks = tuple((2 * at + 0.5, f"stage {stages[rank]} · rank {rank}") for at, rank in enumerate(shown))
    return Figure(
        name="timeline",
        zooms=True,
        series=series,
        height=110 + _LANE_PIXELS * len(lanes),
        legend="above",
        x=Axis(title="from the step's start", unit="s", low=0, high=forecast.step_seconds),
        y=Axis(ticks=ticks, low=-0.6, high=len(lanes) - 0.4, is_reversed=True, has_grid=False),
    )


def spread_evenly(items: Sequence[Item]) -> list[Item]:
    """All of a few; of more than ``MAX_RANKS`` that many, the first and the last among them."""
    if len(items) <= MAX_RANKS:
        return list(items)
    last = len(items) - 1
    return [items[round(at * last / (MAX_RANKS - 1))] for at in range(MAX_RANKS)]


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

    Collectives of several axes share a lane, each with pieces of its own.
    """
    gap = step_seconds / (2 * NUM_BINS)
    opened: dict[tuple[int, str], Piece] = {}
    done: list[Piece] = []
    for span in sorted(spans, key=lambda s: s.start_seconds):
        lane, look = lanes[span.rank, span.stream == "compute"], look_of(span)
        before = opened.get((lane, look))
        goes_on = before is not None and before.micro_batch == span.micro_batch
        if before is not None and goes_on and span.start_seconds - before.end_seconds <= gap:
            end = max(before.end_seconds, span.end_seconds)
            opened[lane, look] = before._replace(end_seconds=end)
            continue
        if before is not None:
            done.append(before)
        opened[lane, look] = Piece(
            lane, look, span.start_seconds, span.end_seconds, span.label, span.micro_batch
        )
    return done + list(opened.values())


def _lines(pieces: Sequence[Piece], words: Mapping[str, str]) -> Iterator[Curve]:
    """A curve for each look; every other micro-batch is paler, so that neighbours can be told apart."""
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
            texts += [_describe(piece, words)] * 3
        yield Curve(
            x=tuple(x),
            y=tuple(y),
            name=words[look],
            group=look,
            colour=_COLOURS[look],
            in_legend=not (is_odd and (look, False) in groups),
            opacity=_PALE if is_odd else 1.0,
            width=_LANE_PIXELS - 3,
            hovers=tuple(texts),
        )


def _describe(piece: Piece, words: Mapping[str, str]) -> str:
    """A micro-batch by its number, anything else by its label."""
    return piece.label if piece.micro_batch < 0 else f"{words[piece.look]} of micro-batch {piece.micro_batch}"


def _bins(
    spans: Sequence[Span], lanes: Mapping[Lane, int], step_seconds: float, words: Mapping[str, str]
) -> Iterator[Heatmap | Curve]:
    """A picture of lanes by bins, and a legend of what it shows."""
    most = longest_looks(spans, lanes, step_seconds)
    used = [look for index, look in enumerate(_LOOKS) if (most == index).any()]
    count = len(_LOOKS)
    scale = [((index + end) / count, _COLOURS[look]) for index, look in enumerate(_LOOKS) for end in (0, 1)]
    yield Heatmap(
        values=tuple(tuple(None if index < 0 else index for index in row) for row in most.tolist()),
        width=step_seconds / NUM_BINS,
        low=-0.5,
        high=count - 0.5,
        colours=tuple(scale),
        gap=3,
    )
    for look in used:
        yield Curve(
            x=(None,),
            y=(None,),
            mode="markers",
            name=words[look],
            colour=_COLOURS[look],
            symbols="square",
            sizes=10,
        )


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
