"""A step by formula: what ``simulate.training`` plays, without events.

Passes are added up beside their gathers and exchanges, the schedule's makespan is a formula of the passes of
each stage, and what of the last exchanges no backward hides stands behind it, with the optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import add

from perfcast.core.forecast.plan import StepTime
from perfcast.core.operation import Operation
from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.makespan import StageSeconds, forward_makespan, makespan
from perfcast.simulate.closed_form.passes import PassTime
from perfcast.simulate.closed_form.stages import StageTime, stage_times
from perfcast.simulate.combine import slower
from perfcast.simulate.part_times import PartTimes, time_parts
from perfcast.simulate.training import is_forward_only, rank_times


def closed_form_step(
    work: StepWork,
    seconds: Mapping[Operation, float],
    *,
    launch_seconds: float = 0.0,
    slowdown: tuple[float, float] = (1.0, 1.0),
    rank_slowdowns: Sequence[float] | None = None,
) -> StepTime:
    """Time of a step by formula; arguments as of ``simulate_step``.

    Raises:
        PlanError: An operation without a price, or numbers for which the schedule does not exist.
    """
    times = time_parts(work, seconds, launch_seconds=launch_seconds, slowdown=slowdown)
    factors = [1.0] * len(work.stages) if rank_slowdowns is None else list(rank_slowdowns)
    pipeline = _Pipeline(work, times, stage_times(work, times, factors))
    done = pipeline.done_seconds()
    optimizers = [slower(time, factor) for time, factor in zip(times.optimizers, factors, strict=True)]
    step = max(
        max(end, host + time.lead_seconds) + time.seconds
        for end, host, time in zip(done, pipeline.hosts, optimizers, strict=True)
    )
    causes = []
    for stage, optimizer in enumerate(optimizers):
        found = pipeline.stages[stage].seconds_by_cause()
        for cause, value in optimizer.seconds_by_cause.items():
            found[cause] = found.get(cause, 0.0) + value
        late = pipeline.hosts[stage] + optimizer.host_seconds - sum(found.values())
        _add(found, "data", pipeline.exposed_seconds(stage), step)
        _add(found, "host", late, step)
        _add(found, "pipeline", pipeline.waited_seconds, step)
        _add(found, "bubble", step, step)
        causes.append(found)
    return StepTime(step, rank_times(work, causes))


def _add(found: dict[str, float], cause: str, seconds: float, whole: float) -> None:
    """Add seconds to a cause, as far as the whole has room for them."""
    room = min(seconds, whole - sum(found.values()))
    if room > 0:
        found[cause] = found.get(cause, 0.0) + room


class _Pipeline:
    """Ends of the stages of a step.

    Attributes:
        hosts: Of each stage, for how long its host issues passes.
        waited_seconds: What the pipeline takes longer for its messages.
    """

    def __init__(self, work: StepWork, times: PartTimes, stages: Sequence[StageTime]) -> None:
        self.stages = stages
        self._work, self._times = work, times
        self._message = times.boundary_seconds if len(stages) > 1 else 0.0
        blocked = 0.0 if work.overlaps_boundary else self._message
        self._seconds = self._makespan(self._message - blocked, blocked)
        self.waited_seconds = self._seconds - self._makespan(0.0, 0.0) if self._message else 0.0
        self.hosts = [stage.total(lambda one: one.host_seconds) for stage in stages]
        self._drains = self._drain_seconds()
        self._first_delay = self._delay_seconds()

    def done_seconds(self) -> list[float]:
        """Of each stage, until its exchanges are over; with a barrier, those of all."""
        done = [self._end(stage) + self.stages[stage].left_seconds for stage in range(len(self.stages))]
        if self._work.exchanges_each_micro_batch:
            done = [max(end, self._exchanged(stage)) for stage, end in enumerate(done)]
        if len(done) > 1 and any(call.is_collective for s in self._work.stages for call in s.optimizer):
            return [max(done)] * len(done)
        return done

    def exposed_seconds(self, stage: int) -> float:
        """Of a stage's gathers and exchanges beside the steady passes."""
        own = self.stages[stage]
        longer = own.last_seconds + own.earlier_seconds
        exposed = longer + own.left_seconds + (max(self._first_delay, 0.0) if stage == 0 else 0.0)
        if self._work.exchanges_each_micro_batch:
            return max(exposed, self._exchanged(stage) - self._end(stage))
        return exposed

    def _end(self, stage: int) -> float:
        """Until a stage's last pass is over.

        The pipeline's end less the way from this stage's last pass to it; later by longer first and last
        passes on the way. A host that cannot keep up ends no earlier, wherever it stands; it does not wait
        for gathers.
        """
        behind = self.stages[stage:] if not self.stages[stage].weights else self.stages[stage : stage + 1]
        latest: float = max(map(add, self.hosts, self._drains))
        end = max(self._seconds + self._first_delay, latest) - self._drains[stage]
        busy = self.stages[stage].total(lambda one: one.seconds) + self._first_delay
        longer = sum(one.last_seconds for one in behind) + sum(one.earlier_seconds for one in self.stages)
        return max(end, busy) + longer

    def _delay_seconds(self) -> float:
        """By what gathers that happen once hold up the first micro-batch.

        They run from the start of the step, and so while a stage waits for it.
        """
        fill, delays = 0.0, []
        for stage in self.stages:
            delays.append(stage.first_seconds - fill)
            fill += stage.forwards[0].seconds + self._message
        return max(delays)

    def _drain_seconds(self) -> list[float]:
        """How long before the pipeline's end each stage has run its last pass.

        Where gradients of weights are put off, stages fill that time with them.
        """
        if is_forward_only(self._work):
            behind = [stage.forwards[-1].seconds + self._message for stage in self.stages[:0:-1]]
            return list(accumulate(behind, initial=0.0))[::-1]
        if self.stages[0].weights:
            return [0.0] * len(self.stages)
        before = [stage.backwards[0].seconds + self._message for stage in self.stages[:-1]]
        return list(accumulate(before, initial=0.0))

    def _exchanged(self, stage: int) -> float:
        """Until all exchanges of a stage are over, where every micro-batch has its own and they never pause.

        The first follows the first backward; compute beside them (a, b: slowdowns) takes a times as long and
        keeps 1 - 1 / b of that from them.
        """
        own, factors, count = self.stages[stage], self._times.slowdown, self._work.plan.num_micro_batches
        before = [one.forwards[c] for c in range(len(own.forwards)) for one in self.stages]
        before += [one.backwards[-1] for one in self.stages[stage + 1 :]]
        begun = 0.0
        if len(self.stages) > 1:
            begun = sum(one.seconds - one.entry_seconds for one in before) + self._message * (len(before) - 1)
        if self._work.plan.schedule == "gpipe":
            begun += (count - 1) * max(one.forwards[0].seconds for one in self.stages)
        beside = own.total(lambda one: one.seconds) * (count - 1) / count
        slowed = factors[0] * (1 - 1 / factors[1]) * beside
        return begun + own.total(lambda one: one.exchange_seconds) + slowed

    def _makespan(self, wait: float, block: float) -> float:
        """Of all passes, with messages that are waited for and messages that block the sender.

        Of the wait for a stage's first gather, only the slowest stage's is on the way: the others have it
        behind them when a micro-batch arrives.
        """
        plan, stages = self._work.plan, self.stages
        chunks = range(plan.virtual_stages_per_rank)
        last = len(stages) * len(chunks) - 1

        def column(rows: Sequence[tuple[PassTime, ...]]) -> list[float]:
            return [row[chunk].seconds for chunk in chunks for row in rows]

        parts = StageSeconds(
            [f + block * (n < last) for n, f in enumerate(column([s.forwards for s in stages]))],
            [b + block * (n > 0) for n, b in enumerate(column([s.backwards for s in stages]))],
            column([s.weights for s in stages]) if stages[0].weights else (),
            [s.joined.seconds + 2 * block for s in stages if s.joined is not None],
            wait,
        )
        if is_forward_only(self._work):
            return forward_makespan(parts, plan.num_micro_batches, len(chunks))
        entries = [s.forwards[0].entry_seconds + s.backwards[0].entry_seconds for s in stages]
        whole = makespan(plan.schedule, parts, plan.num_micro_batches, len(chunks))
        return whole - sum(entries) + max(entries)
