"""What a stage runs in one go: a chunk's pass, or a layer's where gathers or reductions run beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcast.core.work import LayerRun, StepWork
from perfcast.errors import PlanError
from perfcast.simulate.combine import beside_host, in_a_row, joined, slower, with_compute
from perfcast.simulate.layer import NO_TIME, CallsTime
from perfcast.simulate.part_times import NO_SIDE, LayerTime, PartTimes, SideTime
from perfcast.simulate.schedule import Action, Pass


@dataclass(frozen=True, slots=True)
class Content:
    """Equal layers in a row that a unit runs.

    Attributes:
        layer: Index into the step's layers.
        action: Which of the unit's actions they belong to.
    """

    layer: int
    kind: Pass
    count: int
    action: int = 0


@dataclass(frozen=True, slots=True)
class Unit:
    """One task of a compute stream, with what runs beside it before and after.

    Attributes:
        time: Copies for the gather and the gradient reduction included.
        before_seconds: Of copies that stand before the layers.
    """

    contents: tuple[Content, ...]
    time: CallsTime
    before_seconds: float = 0.0
    gather: SideTime = NO_SIDE
    gradient_reduction: SideTime = NO_SIDE


@dataclass(frozen=True, slots=True)
class SideWork:
    """Which side work the layers of an action do."""

    gathers: bool = False
    reductions: bool = False


def pass_time(layer: LayerTime, kind: Pass) -> CallsTime:
    """One layer's time of a pass."""
    match kind:
        case Pass.FORWARD:
            return layer.forward
        case Pass.BACKWARD:
            return layer.backward
        case Pass.INPUT_GRADIENT:
            return layer.input_gradient
    return layer.weight_gradient


def chunk_of(work: StepWork, stage: int, chunk: int) -> tuple[LayerRun, ...]:
    """Layers of a stage's chunk; the mirrored one of 'dualpipe' may be left to its partner.

    Raises:
        PlanError: A stage without such a chunk.
    """
    chunks = work.stages[stage].chunks
    if chunk < len(chunks):
        return chunks[chunk]
    if work.plan.schedule == "dualpipe" and chunk == 1:
        return work.stages[len(work.stages) - 1 - stage].chunks[0]
    raise PlanError(
        f"stage {stage} holds {len(chunks)} chunks of layers, the schedule asks for chunk {chunk}"
    )


def units_of(
    work: StepWork,
    times: PartTimes,
    stage: int,
    actions: Sequence[Action],
    beside: Sequence[SideWork],
    rank_slowdown: float = 1.0,
) -> tuple[Unit, ...]:
    """Units of one action, or of two that are joined.

    Layers with side work of their own are units each; all others of an action are one. Joined actions are one
    unit in any case: its side work is that of all its layers.
    """
    rows = [
        list(_layer_units(times, chunk_of(work, stage, action.chunk), action.kind, side_work, number))
        for number, (action, side_work) in enumerate(zip(actions, beside, strict=True))
    ]
    if len(rows) == 1:
        units = rows[0] or [Unit((), NO_TIME)]
    else:
        first, second = (_merged(row) for row in rows)
        units = [
            Unit(
                first.contents + second.contents,
                joined(first.time, second.time, times.slowdown),
                first.before_seconds + second.before_seconds,
                _sum((first.gather, second.gather)),
                _sum((first.gradient_reduction, second.gradient_reduction)),
            )
        ]
    if rank_slowdown != 1.0:
        units = [replace(unit, time=slower(unit.time, rank_slowdown)) for unit in units]
    if work.host_waits and times.launch_seconds:
        held_up = beside_host(unit.time for unit in units)
        units = [replace(unit, time=time) for unit, time in zip(units, held_up, strict=True)]
    return tuple(units)


def _layer_units(
    times: PartTimes, runs: Sequence[LayerRun], kind: Pass, beside: SideWork, number: int
) -> Iterator[Unit]:
    """One action's units in the order in which they run."""
    plain: list[Content] = []
    for run in runs if kind is Pass.FORWARD else reversed(runs):
        layer = times.layers[run.layer]
        gather, gradient_reduction = _sides(layer, kind, beside)
        if gather is NO_SIDE and gradient_reduction is NO_SIDE:
            plain.append(Content(run.layer, kind, run.count, number))
            continue
        if plain:
            yield _plain(times, plain)
            plain = []
        time = pass_time(layer, kind)
        time = with_compute(time, gather.compute_seconds, gather.host_seconds)
        time = with_compute(time, gradient_reduction.compute_seconds, gradient_reduction.host_seconds)
        content = (Content(run.layer, kind, 1, number),)
        yield from [Unit(content, time, gather.compute_seconds, gather, gradient_reduction)] * run.count
    if plain:
        yield _plain(times, plain)


def _plain(times: PartTimes, contents: Sequence[Content]) -> Unit:
    return Unit(
        tuple(contents), in_a_row((pass_time(times.layers[c.layer], c.kind), c.count) for c in contents)
    )


def _sides(layer: LayerTime, kind: Pass, beside: SideWork) -> tuple[SideTime, SideTime]:
    """What is gathered before, and exchanged after, a layer's pass."""
    gather = gradient_reduction = NO_SIDE
    if beside.gathers and kind is not Pass.WEIGHT_GRADIENT:
        gather = layer.gather if kind is Pass.FORWARD else layer.gather_again
    if beside.reductions and kind in (Pass.BACKWARD, Pass.WEIGHT_GRADIENT):
        gradient_reduction = layer.gradient_reduction
    return gather, gradient_reduction


def _merged(units: Sequence[Unit]) -> Unit:
    return Unit(
        tuple(content for unit in units for content in unit.contents),
        in_a_row((unit.time, 1) for unit in units),
        sum(unit.before_seconds for unit in units),
        _sum([unit.gather for unit in units]),
        _sum([unit.gradient_reduction for unit in units]),
    )


def _sum(sides: Sequence[SideTime]) -> SideTime:
    if not any(side is not NO_SIDE for side in sides):
        return NO_SIDE
    return SideTime(
        sum(side.seconds for side in sides),
        sum(side.compute_seconds for side in sides),
        sum(side.host_seconds for side in sides),
    )
