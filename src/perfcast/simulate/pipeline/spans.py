"""Timelines of a played step, and what its critical path is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from perfcast.core.forecast.plan import Span
from perfcast.core.plans.placement import group_of
from perfcast.core.work import StepWork
from perfcast.simulate.engine import Played
from perfcast.simulate.layer import CAUSE_OF_STREAM, CallsTime
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.build import Built, Piece
from perfcast.simulate.pipeline.units import Content, pass_time
from perfcast.simulate.schedule import Pass

_PASSES = {
    Pass.FORWARD: "forward",
    Pass.BACKWARD: "backward",
    Pass.INPUT_GRADIENT: "gradient of inputs",
    Pass.WEIGHT_GRADIENT: "gradient of weights",
}
#: Of tasks beside the compute: stream, label, cause.
_SIDES = {
    "gather": ("data", "gather of weights", "data"),
    "gradient_reduction": ("data", "gradient reduction", "data"),
    "send": ("pipeline", "message", "pipeline"),
    "host": ("host", "launches", "host"),
}


def step_spans(
    work: StepWork, times: PartTimes, built: Built, played: Played, critical: Collection[int]
) -> tuple[Span, ...]:
    """Timeline of every stage's rank: layers, and the calls inside them for one micro-batch.

    Args:
        critical: Tasks of the critical path.
    """
    ranks = group_of(work.plan, "pipeline")
    starts, ends = played.starts.tolist(), played.ends.tolist()
    shown = work.plan.num_micro_batches // 2
    on_path = frozenset(critical)
    spans: list[Span] = []
    for stage, pieces in enumerate(built.pieces):
        rank = ranks[stage]
        for piece in pieces:
            task = piece.task
            if ends[task] > starts[task]:
                row = _Row(rank, times, piece, starts[task], ends[task], task in on_path)
                spans += row.spans(stage, is_shown=row.micro_batch in (shown, -1))
        for side in built.sides[stage]:
            start, end = starts[side.task], ends[side.task]
            if end > start:
                stream, label, cause = _SIDES[side.kind]
                critical_side = side.task in on_path
                spans.append(Span(rank, stream, label, start, end, cause, side.micro_batch, critical_side))
    return tuple(sorted(spans, key=lambda span: (span.rank, span.start_seconds, -span.end_seconds)))


def path_seconds(
    times: PartTimes, built: Built, played: Played, path: Sequence[int]
) -> tuple[tuple[str, float], ...]:
    """Seconds along the critical path by what they were spent on, longest first."""
    pieces = {piece.task: (stage, piece) for stage, row in enumerate(built.pieces) for piece in row}
    sides = {side.task: (stage, side) for stage, row in enumerate(built.sides) for side in row}
    is_alone = len(built.pieces) == 1
    found: dict[str, float] = {}
    for task in path:
        seconds = float(played.ends[task] - played.starts[task])
        if task in pieces:
            stage, piece = pieces[task]
            parts = list(_labels(times, piece))
        else:
            stage, side = sides[task]
            parts = [(_SIDES[side.kind][1], 1.0)]
        for label, share in parts:
            name = label if is_alone else f"stage {stage}: {label}"
            found[name] = found.get(name, 0.0) + share * seconds
    return tuple(sorted(((k, v) for k, v in found.items() if v > 0), key=lambda item: (-item[1], item[0])))


def _name(times: PartTimes, content: Content) -> str:
    return f"{times.layers[content.layer].name} {_PASSES[content.kind]}"


def _labels(times: PartTimes, piece: Piece) -> Iterator[tuple[str, float]]:
    """What a compute task is made of, with shares of its time."""
    if piece.unit is None:
        yield "optimizer", 1.0
        return
    contents = piece.unit.contents
    seconds = [pass_time(times.layers[c.layer], c.kind).seconds * c.count for c in contents]
    total = sum(seconds)
    for content, part in zip(contents, seconds, strict=True):
        if total:
            yield _name(times, content), part / total


class _Row:
    """Spans of one compute task."""

    def __init__(
        self, rank: int, times: PartTimes, piece: Piece, start: float, end: float, is_critical: bool
    ) -> None:
        self.micro_batch = piece.actions[0].micro_batch if piece.actions else -1
        self._rank, self._times, self._piece = rank, times, piece
        self._start, self._end, self._is_critical = start, end, is_critical

    def spans(self, stage: int, is_shown: bool) -> Iterator[Span]:
        """Layers; where the micro-batch is shown, calls too."""
        unit = self._piece.unit
        if unit is None:
            yield self._span("compute", "optimizer", self._start, self._end, "optimizer")
            if is_shown:
                yield from self._calls(self._times.optimizers[stage], self._start, self._end, "optimizer")
            return
        if len(self._piece.actions) > 1:
            names = (f"{_PASSES[a.kind]} {a.micro_batch}" for a in self._piece.actions)
            yield self._span("compute", " + ".join(names), self._start, self._end, "compute")
            return
        scale = (self._end - self._start) / unit.time.seconds
        clock = self._start + scale * unit.before_seconds
        stretch = self._stretch(scale)
        for content in unit.contents:
            one = pass_time(self._times.layers[content.layer], content.kind)
            for _ in range(content.count if one.seconds else 0):
                until = min(clock + stretch * one.seconds, self._end)
                yield self._span("compute", _name(self._times, content), clock, until, "compute")
                if is_shown:
                    yield from self._calls(one, clock, until, "compute")
                clock = until

    def _stretch(self, scale: float) -> float:
        """Seconds of the timeline for a second of a layer, which a slower rank makes more of."""
        unit = self._piece.unit
        if unit is None:
            return scale
        plain = sum(pass_time(self._times.layers[c.layer], c.kind).seconds * c.count for c in unit.contents)
        slow = unit.time.seconds_by_cause.get("straggler", 0.0)
        return scale * (1.0 + slow / plain) if plain else scale

    def _calls(self, time: CallsTime, start: float, end: float, own: str) -> Iterator[Span]:
        """Calls of a layer or optimizer that runs from start to end."""
        scale = (end - start) / time.seconds if time.seconds else 0.0
        for call, begun, done in zip(time.calls, time.starts, time.ends, strict=True):
            cause = CAUSE_OF_STREAM[call.stream]
            if cause == "compute":
                cause = "recompute" if call.is_recomputed else own
            if done > begun:
                yield self._span(
                    call.stream.value,
                    call.module or call.operation.name,
                    start + scale * begun,
                    min(start + scale * done, end),
                    cause,
                )

    def _span(self, stream: str, label: str, start: float, end: float, cause: str) -> Span:
        return Span(self._rank, stream, label, start, end, cause, self.micro_batch, self._is_critical)
