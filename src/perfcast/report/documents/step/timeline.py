"""The picture of a step on one device: its phases, its modules and its operations along the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from typing import NamedTuple

from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Node
from perfcast.report import palette
from perfcast.report.document import Note, Section
from perfcast.report.figure import Axis, Curve, Figure, Label
from perfcast.units import format_seconds

#: Operations shorter than this part of the step are drawn together with their neighbours.
NUM_BINS = 700
_LANES = ("phase", "module", "operation")
_LANE_PIXELS = 34
_NO_MODULE = "(no module)"


class Piece(NamedTuple):
    """What one line of the picture stands for.

    Attributes:
        lane: Index into the lanes.
        look: Name of its colour.
    """

    lane: int
    look: str
    start_seconds: float
    end_seconds: float
    label: str


def timeline_section(forecast: Forecast) -> Section:
    """The picture and what it leaves out."""
    note = (
        "One operation after another; those too short to be seen are drawn together, in the colour of what "
        "takes most of them. Drag to look closer, double-click to see all; '--timeline FILE' writes every "
        "one for Perfetto."
    )
    return Section(title="Timeline", blocks=(timeline_figure(forecast), Note(note)), only="page")


def timeline_figure(forecast: Forecast) -> Figure:
    """A lane each for phases, modules (equal layers one by one) and operations."""
    timed = _timed(forecast)
    phases = list(_phases(timed))
    pieces = [*phases, *_modules(timed), *_operations(forecast, timed)]
    return Figure(
        name="timeline",
        zooms=True,
        series=tuple(_curves(pieces)),
        height=130 + _LANE_PIXELS * len(_LANES),
        legend="below",
        x=Axis(unit="s", low=0, high=forecast.step_seconds),
        y=Axis(
            ticks=tuple(enumerate(_LANES)),
            low=-0.6,
            high=len(_LANES) - 0.4,
            is_reversed=True,
            has_grid=False,
        ),
        labels=tuple(Label(x=piece.start_seconds, text=piece.look) for piece in _first_of_each(phases)),
    )


def _first_of_each(pieces: Sequence[Piece]) -> list[Piece]:
    """The first piece of each look."""
    found: dict[str, Piece] = {}
    for piece in pieces:
        found.setdefault(piece.look, piece)
    return list(found.values())


class _Timed(NamedTuple):
    node: Node
    start_seconds: float
    end_seconds: float


def _timed(forecast: Forecast) -> list[_Timed]:
    """Nodes that take time, in order."""
    if not forecast.node_seconds:
        return []
    ends = list(accumulate(forecast.node_seconds))
    starts = [0.0, *ends[:-1]]
    spans = zip(forecast.graph.nodes, starts, ends, strict=True)
    return [_Timed(node, start, end) for node, start, end in spans if end > start]


def _phases(every: Sequence[_Timed]) -> Iterator[Piece]:
    for phase, group in groupby(every, lambda timed: timed.node.phase.value):
        nodes = list(group)
        yield Piece(0, phase, nodes[0].start_seconds, nodes[-1].end_seconds, phase)


def _modules(every: Sequence[_Timed]) -> Iterator[Piece]:
    """Neighbours of one layer together; every other stretch in another shade."""
    groups = groupby(every, lambda timed: _layer_of(timed.node.module))
    for place, (module, group) in enumerate(groups):
        nodes = list(group)
        look = "layers" if place % 2 else "layers, every other"
        yield Piece(1, look, nodes[0].start_seconds, nodes[-1].end_seconds, module or _NO_MODULE)


@lru_cache(maxsize=4096)
def _layer_of(path: str) -> str:
    """``'transformer.h.7.mlp.act'`` is of ``'transformer.h.7'``; without a number it is the first part."""
    parts = path.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else parts[0]


def _operations(forecast: Forecast, every: Sequence[_Timed]) -> Iterator[Piece]:
    """Each by itself where it can be seen, else with its neighbours."""
    least = forecast.step_seconds / NUM_BINS
    run: list[_Timed] = []
    for timed in every:
        is_long = timed.end_seconds - timed.start_seconds >= least
        if run and (is_long or timed.end_seconds - run[0].start_seconds > least):
            yield _joined(forecast, run)
            run = []
        if is_long:
            yield _joined(forecast, [timed])
        else:
            run.append(timed)
    if run:
        yield _joined(forecast, run)


def _joined(forecast: Forecast, run: Sequence[_Timed]) -> Piece:
    operations = forecast.graph.operations
    seconds: dict[str, float] = {}
    for timed in run:
        kind = operations[timed.node.operation].kind.value
        family = palette.FAMILIES.get(kind, palette.OTHER_FAMILY)[0]
        seconds[family] = seconds.get(family, 0.0) + timed.end_seconds - timed.start_seconds
    most = max(seconds, key=lambda family: seconds[family])
    whole = format_seconds(run[-1].end_seconds - run[0].start_seconds)
    first = operations[run[0].node.operation].name
    label = f"{first}, {whole}" if len(run) == 1 else f"{len(run)} operations, mostly {most}, {whole}"
    if run[0].node.module:
        label += f"\n{run[0].node.module}"
    return Piece(2, most, run[0].start_seconds, run[-1].end_seconds, label)


_COLOURS = (
    palette.PHASES,
    {"layers": palette.LAYERS[2], "layers, every other": palette.LAYERS[4]},
    dict((*palette.FAMILIES.values(), palette.OTHER_FAMILY)),
)


def _curves(pieces: Sequence[Piece]) -> Iterator[Curve]:
    """A curve for each lane and look; phases are labelled, modules need no legend."""
    for key, group in groupby(sorted(pieces, key=lambda piece: piece[:2]), lambda piece: piece[:2]):
        lane, look = key
        x: list[float | None] = []
        hovers: list[str] = []
        for piece in group:
            x += [piece.start_seconds, piece.end_seconds, None]
            hovers += [piece.label] * 3
        yield Curve(
            x=tuple(x),
            y=tuple(None if at is None else lane for at in x),
            name=look,
            colour=_COLOURS[lane][look],
            in_legend=lane == 2,
            width=_LANE_PIXELS - 12,
            hovers=tuple(hovers),
        )
