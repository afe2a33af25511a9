"""What each pipeline stage does in a step: its steady passes, and what its first and last ones add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.passes import Passes, PassTime
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.units import Wants
from perfcast.simulate.schedule import Pass


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage of a step.

    Attributes:
        forwards, backwards, weights: Steady passes of each chunk; where ``weights`` is not empty, gradients
            of inputs and of weights apart.
        joined: A forward and a whole backward side by side, where the schedule joins them.
        num_micro_batches: That pass each chunk, those that are joined left out; ``num_joined`` are joined.
        first_seconds: By what its first forwards are longer, for gathers that happen once.
        last_seconds: By what its very last gradients are longer, for exchanges beside them.
        earlier_seconds: By what the last gradients of its other chunks are longer.
        left_seconds: Of exchanges after its last backward.
    """

    forwards: tuple[PassTime, ...]
    backwards: tuple[PassTime, ...]
    weights: tuple[PassTime, ...]
    joined: PassTime | None
    num_micro_batches: float
    num_joined: int
    first_seconds: float
    last_seconds: float
    earlier_seconds: float
    left_seconds: float

    def passes(self) -> tuple[PassTime, ...]:
        """Those of one micro-batch that are not joined."""
        return self.forwards + self.backwards + self.weights

    def total(self, value: Callable[[PassTime], float]) -> float:
        """A value of a pass, summed over all passes of the step."""
        total = self.num_micro_batches * sum(value(one) for one in self.passes())
        return total if self.joined is None else total + self.num_joined * value(self.joined)

    def seconds_by_cause(self) -> dict[str, float]:
        """Of all passes of the step."""
        every = self.passes() if self.joined is None else (*self.passes(), self.joined)
        names = {cause for one in every for cause in one.seconds_by_cause}
        return {name: self.total(partial(_of_cause, name)) for name in sorted(names)}


def stage_times(work: StepWork, times: PartTimes, slowdowns: Sequence[float]) -> list[StageTime]:
    """All stages; ``slowdowns`` say by what the compute of each takes longer."""
    passes = Passes(work, times, slowdowns)
    found: dict[object, StageTime] = {}
    stages = []
    for number, stage in enumerate(work.stages):
        mirrored = work.stages[-1 - number].chunks if work.plan.schedule == "dualpipe" else ()
        key = (stage.chunks, mirrored, slowdowns[number])
        if key not in found:
            found[key] = _stage(passes, times, number)
        stages.append(found[key])
    return stages


def _stage(passes: Passes, times: PartTimes, stage: int) -> StageTime:
    work, plan = passes.work, passes.work.plan
    is_dual = plan.schedule == "dualpipe"
    splits = is_dual or plan.schedule == "zero_bubble"
    backward = Pass.INPUT_GRADIENT if splits else Pass.BACKWARD
    last = Pass.WEIGHT_GRADIENT if splits else Pass.BACKWARD
    chunks = range(2 if is_dual else plan.virtual_stages_per_rank)
    steady = Wants(
        times.has_gathers and work.gathers_each_micro_batch,
        times.has_exchanges and work.exchanges_each_micro_batch,
    )
    left = passes.of(stage, 0, (last,), steady).left_seconds
    forwards = tuple(passes.of(stage, c, (Pass.FORWARD,), steady, left) for c in chunks)
    backwards = tuple(passes.of(stage, c, (backward,), steady) for c in chunks)
    weights = tuple(passes.of(stage, c, (last,), steady) for c in chunks) if splits else ()
    joined = passes.of(stage, 0, (Pass.FORWARD, Pass.BACKWARD), steady) if is_dual else None
    num_joined = max(plan.num_micro_batches - plan.pipeline_parallel - 1, 0) if is_dual else 0
    last_seconds, earlier, left = _last_gradients(passes, times, stage, weights or backwards, last, steady)
    return StageTime(
        forwards,
        backwards,
        weights,
        joined,
        (plan.num_micro_batches - num_joined) * (0.5 if is_dual else 1.0),
        num_joined,
        _first_forwards(passes, times, stage, steady) - forwards[0].seconds,
        last_seconds,
        earlier,
        left,
    )


def _first_forwards(passes: Passes, times: PartTimes, stage: int, steady: Wants) -> float:
    """Seconds of the first forward, and by what those of further chunks are longer.

    Weights that are kept come in from the start on, those of one chunk behind those of another, beside the
    forwards of the other micro-batches of a group that stand between the chunks' first ones.
    """
    work = passes.work
    wants = Wants(times.has_gathers, steady.exchanges)
    if work.gathers_each_micro_batch or work.plan.virtual_stages_per_rank == 1:
        return passes.of(stage, 0, (Pass.FORWARD,), wants).seconds
    return passes.first_forwards(stage, wants)


def _last_gradients(
    passes: Passes, times: PartTimes, stage: int, usual: Sequence[PassTime], last: Pass, steady: Wants
) -> tuple[float, float, float]:
    """By what the very last pass is longer than usual, those of other chunks are, and what is left over.

    A chunk's exchanges run on beside the passes between its last one and that of the chunk before it, unless
    they are put off.
    """
    work = passes.work
    final = Wants(steady.gathers, times.has_exchanges)
    puts_off = not (work.overlaps_exchange or work.exchanges_each_micro_batch)
    between = (work.plan.pipeline_parallel - 1) * passes.drained_seconds(usual[0])
    left = longer = earlier = 0.0
    for chunk in reversed(range(len(usual))):
        beside = 0.0 if puts_off else max(left - between, 0.0)
        ending = passes.of(stage, chunk, (last,), final, beside)
        left = ending.left_seconds + (left if puts_off else 0.0)
        earlier, longer = earlier + longer, ending.seconds - usual[chunk].seconds
    return longer, earlier if work.plan.schedule == "interleaved" else 0.0, left


def _of_cause(name: str, one: PassTime) -> float:
    return one.seconds_by_cause.get(name, 0.0)
