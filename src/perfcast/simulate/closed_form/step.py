"""A training step by formula: what ``simulate.training`` plays, without events.

Passes are added up beside their gathers and exchanges, the schedule's makespan is a formula of the passes of
each stage, and what of the last exchanges no backward hides stands behind it, with the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from perfcast.core.operation import Operation
from perfcast.core.step_forecast import StepTime
from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.makespan import StageSeconds, forward_makespan, makespan
from perfcast.simulate.closed_form.passes import Passes, PassTime
from perfcast.simulate.combine import slower
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.pipeline.units import Wants
from perfcast.simulate.schedule import Pass
from perfcast.simulate.training import is_forward_only, rank_times


@dataclass(frozen=True, slots=True)
class StageTime:
    """What a stage does in a step.

    Attributes:
        forwards, backwards, weights: Steady passes of each chunk.
        joined: A forward and a backward side by side, where the schedule joins them.
        extra_first_seconds, extra_last_seconds: By what its first forward and its last gradients are longer.
        left_seconds: Of exchanges after its last backward.
    """

    forwards: tuple[PassTime, ...]
    backwards: tuple[PassTime, ...]
    weights: tuple[PassTime, ...]
    joined: PassTime | None
    extra_first_seconds: float
    extra_last_seconds: float
    left_seconds: float

    def passes(self) -> tuple[PassTime, ...]:
        """Those of one micro-batch that are not joined."""
        return self.forwards + self.backwards + self.weights


def closed_form_step(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    rank_slowdowns: Sequence[float] | None = None,
) -> StepTime:
    """Time of a training step by formula; arguments as of ``simulate_step``.

    Raises:
        PlanError: An operation without a price, or numbers for which the schedule does not exist.
    """
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    factors = [1.0] * len(work.stages) if rank_slowdowns is None else list(rank_slowdowns)
    stages = stage_times(work, times, factors)
    pipeline, waited = _makespan(work, times, stages)
    hosts = [_of_all(work, stage, lambda one: one.host_seconds) for stage in stages]
    ends, done = _ends(work, times, stages, pipeline, hosts)
    if len(stages) > 1 and any(c.is_collective for s in work.stages for c in s.optimizer):
        done = [max(done)] * len(stages)
    optimizers = [slower(t, f) for t, f in zip(times.optimizers, factors, strict=True)]
    tail = [max(o.seconds, o.host_seconds) for o in optimizers]
    step = max(d + t for d, t in zip(done, tail, strict=True))
    causes = []
    for s, stage in enumerate(stages):
        found = _own_causes(work, stage)
        for cause, value in optimizers[s].seconds_by_cause.items():
            found[cause] = found.get(cause, 0.0) + value
        own = sum(found.values())
        late = max(hosts[s] + optimizers[s].host_seconds - own, 0.0)
        for cause, seconds_ in (
            ("data", max(ends[s] - own, 0.0) if len(stages) == 1 else exposed[s]),
            ("host", late),
            ("pipeline", waited),
        ):
            _add(found, cause, seconds_, step)
        _add(found, "bubble", step, step)
        causes.append(found)
    return StepTime(step, rank_times(work, causes))


def stage_times(work: StepWork, times: PartTimes, slowdowns: Sequence[float]) -> list[StageTime]:
    """Passes of all stages; ``slowdowns`` say by what the compute of each takes longer."""
    passes = Passes(work, times, slowdowns)
    return [_stage(passes, times, stage) for stage in range(len(work.stages))]


def _add(found: dict[str, float], cause: str, seconds: float, whole: float) -> None:
    """Add seconds to a cause, as far as the whole has room for them."""
    room = min(seconds, whole - sum(found.values()))
    if room > 0:
        found[cause] = found.get(cause, 0.0) + room


def _chunks(work: StepWork) -> range:
    return range(2 if work.plan.schedule == "dualpipe" else work.plan.virtual_stages_per_rank)


def _stage(passes: Passes, times: PartTimes, stage: int) -> StageTime:
    """Steady passes of a stage, and what the first and last ones add."""
    work = passes.work
    splits = work.plan.schedule in ("zero_bubble", "dualpipe")
    backward = Pass.INPUT_GRADIENT if splits else Pass.BACKWARD
    last = Pass.WEIGHT_GRADIENT if splits else Pass.BACKWARD
    steady = Wants(
        times.has_gathers and work.gathers_each_micro_batch,
        times.has_exchanges and work.exchanges_each_micro_batch,
    )
    first, final = Wants(times.has_gathers, steady.exchanges), Wants(steady.gathers, times.has_exchanges)
    chunks = _chunks(work)
    left = passes.of(stage, 0, (last,), steady).left_seconds
    forwards = tuple(passes.of(stage, c, (Pass.FORWARD,), steady, left) for c in chunks)
    backwards = tuple(passes.of(stage, c, (backward,), steady) for c in chunks)
    weights = tuple(passes.of(stage, c, (last,), steady) for c in chunks) if splits else ()
    joined = None
    if work.plan.schedule == "dualpipe":
        joined = passes.of(stage, 0, (Pass.FORWARD, Pass.BACKWARD), steady)
    extra = passes.of(stage, 0, (Pass.FORWARD,), first).seconds - forwards[0].seconds
    queue, between = (
        0.0,
        (work.plan.pipeline_parallel - 1) * sum(p.seconds for p in (forwards[0], backwards[0])),
    )
    for chunk in reversed(chunks):
        ending = passes.of(stage, chunk, (last,), final, max(queue - between, 0.0))
        queue = ending.left_seconds
        usual = weights[chunk] if splits else backwards[chunk]
        extra_last = ending.seconds - usual.seconds
    return StageTime(forwards, backwards, weights, joined, extra, extra_last, queue)


def _makespan(work: StepWork, times: PartTimes, stages: Sequence[StageTime]) -> tuple[float, float]:
    """Of the pipeline, and how much of it is waiting for messages."""
    plan, num_stages = work.plan, len(stages)
    message = times.boundary_seconds if num_stages > 1 else 0.0
    chunks = range(plan.virtual_stages_per_rank)
    blocked = 0.0 if work.overlaps_boundary else message
    last = num_stages * plan.virtual_stages_per_rank - 1

    def column(rows: Sequence[tuple[PassTime, ...]]) -> list[float]:
        return [rows[s][c].seconds for c in chunks for s in range(num_stages)]

    forward, backward = column([s.forwards for s in stages]), column([s.backwards for s in stages])
    weight = column([s.weights for s in stages]) if stages[0].weights else []
    joined = [s.joined.seconds for s in stages if s.joined is not None]

    def total(wait: float, block: float) -> float:
        sent = [f + block * (part < last) for part, f in enumerate(forward)]
        back = [b + block * (part > 0) for part, b in enumerate(backward)]
        pairs = [x + 2 * block for x in joined]
        parts = StageSeconds(sent, back, weight, pairs, wait)
        if is_forward_only(work):
            return forward_makespan(parts, plan.num_micro_batches, plan.virtual_stages_per_rank)
        return makespan(plan.schedule, parts, plan.num_micro_batches, plan.virtual_stages_per_rank)

    entries = [s.forwards[0].entry_seconds + s.backwards[0].entry_seconds for s in stages]
    whole = total(message - blocked, blocked)
    waited = whole - total(0.0, 0.0) if message else 0.0
    return whole - sum(entries) + max(entries), waited


def _drain(work: StepWork, times: PartTimes, stages: Sequence[StageTime], stage: int) -> float:
    """How long before the pipeline's end a stage has run its last pass.

    Where gradients of weights are put off, stages fill that time with them.
    """
    if is_forward_only(work):
        return sum(s.forwards[-1].seconds + times.boundary_seconds for s in stages[stage + 1 :])
    if stages[0].weights:
        return 0.0
    return sum(s.backwards[0].seconds + times.boundary_seconds for s in stages[:stage])


def _extra(stages: Sequence[StageTime], stage: int) -> float:
    """By what longer first and last passes put off a stage's end, those of the stages behind it too."""
    behind = stages[stage:] if not stages[stage].weights else stages[stage : stage + 1]
    return stages[stage].extra_first_seconds + sum(s.extra_last_seconds for s in behind)


def _num_joined(work: StepWork, stage: StageTime) -> int:
    """Forwards that a stage in the middle joins to backwards (``makespan``)."""
    plan = work.plan
    return 0 if stage.joined is None else max(plan.num_micro_batches - plan.pipeline_parallel - 1, 0)


def _of_all(work: StepWork, stage: StageTime, value: Callable[[PassTime], float]) -> float:
    """A value of all passes of a stage; of 'dualpipe' half the micro-batches pass each chunk."""
    joined = _num_joined(work, stage)
    each = (work.plan.num_micro_batches - joined) * (1.0 if stage.joined is None else 0.5)
    total = each * sum(value(one) for one in stage.passes())
    return total if stage.joined is None else total + joined * value(stage.joined)


def _own_causes(work: StepWork, stage: StageTime) -> dict[str, float]:
    """What a stage's passes take, all micro-batches together."""
    names = {
        cause for one in (*stage.passes(), stage.joined) if one is not None for cause in one.seconds_by_cause
    }
    return {name: _of_all(work, stage, partial(_of_cause, name)) for name in sorted(names)}


def _of_cause(name: str, one: PassTime) -> float:
    return one.seconds_by_cause.get(name, 0.0)
