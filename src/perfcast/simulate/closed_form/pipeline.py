"""Steps by formula: the schedule's makespan, what its first and last passes add, and the optimizer behind it.

The plans of a group have the same stages, schedule and kinds of gradient reductions and differ in numbers
only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.simulate.closed_form.figures import CAUSE_ROW, FIRST_CAUSE, HOST, SECONDS
from perfcast.simulate.closed_form.group import Group
from perfcast.simulate.closed_form.makespan import (
    StageSeconds,
    forward_makespans,
    makespans,
    sums_before,
    sums_behind,
)
from perfcast.simulate.closed_form.passes import PassColumns
from perfcast.simulate.closed_form.stages import StageKind

_Value = Callable[[StageKind], Floats]


@dataclass(frozen=True, eq=False)
class Batches:
    """What n plans differ in beside their passes.

    Attributes:
        index: Which of the passes' columns each plan takes, [n].
        num_micro_batches: Shape [n].
        optimizers: Figures of each different stage's, [figure, n] each.
        leads: For how long the host must have been issuing each of them before it starts, [n] each.
        message: Seconds of one to a neighbour, [n].
    """

    index: Integers
    num_micro_batches: Integers
    optimizers: Sequence[Floats]
    leads: Sequence[Floats]
    message: Floats


@dataclass(frozen=True, eq=False)
class StepColumns:
    """Of n plans.

    Attributes:
        step_seconds: Shape [n].
        seconds_by_cause: Mean over all ranks, [cause, n]; they add up to the step.
    """

    step_seconds: Floats
    seconds_by_cause: Floats


def time_steps(group: Group, kinds: Sequence[StageKind], batches: Batches) -> StepColumns:
    """Steps of plans of one schedule.

    Raises:
        PlanError: Numbers for which the schedule does not exist.
    """
    pipeline = _Pipeline(group, kinds, batches)
    step = pipeline.step_seconds()
    return StepColumns(step, pipeline.mean_causes(step))


def time_stages(group: Group, kinds: Sequence[StageKind], batches: Batches) -> tuple[Floats, Floats]:
    """Step seconds, [n], and those of each stage by cause, [stage, cause, n].

    Raises:
        PlanError: Numbers for which the schedule does not exist.
    """
    pipeline = _Pipeline(group, kinds, batches)
    step = pipeline.step_seconds()
    return step, pipeline.stage_causes(step)


class _Pipeline:
    """Ends of the stages of steps; arrays of stages are [stages, n].

    Attributes:
        place: Which of the different stages each one is.
        hosts: For how long the host of each stage issues passes.
        waited: What the pipeline takes longer for its messages, [n].
    """

    def __init__(self, group: Group, kinds: Sequence[StageKind], batches: Batches) -> None:
        self.group, self.kinds, self.place = group, kinds, np.array(group.cut.stage_kinds)
        self._index, self._count = batches.index, batches.num_micro_batches
        self._optimizers, self._leads = batches.optimizers, batches.leads
        self._message = batches.message if group.num_stages > 1 else np.zeros_like(batches.message)
        is_dual = group.schedule == "dualpipe"
        self._num_joined = np.maximum(self._count - group.num_stages - 1, 0) * is_dual
        self._num_apart = (self._count - self._num_joined) * (0.5 if is_dual else 1.0)
        self._totals = [self._total(kind) for kind in kinds]
        self._seconds, self.waited = self._makespans()
        self.hosts, self._busy = (
            np.stack([total[row] for total in self._totals])[self.place] for row in (HOST, SECONDS)
        )
        self._first_delay = self._delay()
        self._end = self._ends()
        self._left = self._left_over()
        self._reduced = self._reductions() if group.reduces_each else None

    def spread(self, value: _Value) -> Floats:
        """A value of every stage."""
        found = np.array([value(kind) for kind in self.kinds])[:, self._index]
        of_stages: Floats = found[self.place]
        return of_stages

    def step_seconds(self) -> Floats:
        """Until every stage's optimizer has run, [n]."""
        seconds = np.stack([one[SECONDS] for one in self._optimizers])[self.place]
        leads = np.stack(self._leads)[self.place]
        ends = np.maximum(self._done(), self.hosts + leads) + seconds
        return np.asarray(ends.max(axis=0), dtype=np.float64)

    def mean_causes(self, step: Floats) -> Floats:
        """Mean over stages, [cause, n]: what each does, what it waits for as far as the step has room."""
        own = self._own_causes()
        shares = np.bincount(self.place, minlength=len(own)) / len(self.place)
        found = np.array(sum(share * causes for share, causes in zip(shares, own, strict=True)))
        for row, added in self._waits(own, step).items():
            found[row] += added.mean(axis=0)
        return found

    def stage_causes(self, step: Floats) -> Floats:
        """The same of every stage, [stage, cause, n]."""
        own = self._own_causes()
        found: Floats = np.stack(own)[self.place]
        for row, added in self._waits(own, step).items():
            found[:, row] += added
        return found

    def _own_causes(self) -> list[Floats]:
        """What each different stage does, [cause, n]."""
        pairs = zip(self._totals, self._optimizers, strict=True)
        return [total[FIRST_CAUSE:] + optimizer[FIRST_CAUSE:] for total, optimizer in pairs]

    def _waits(self, own: Sequence[Floats], step: Floats) -> dict[int, Floats]:
        """What each stage waits for, by row of the causes; one after another, as far as the step has room."""
        filled = np.stack([causes.sum(axis=0) for causes in own])[self.place]
        late = self.hosts + np.stack([one[HOST] for one in self._optimizers])[self.place] - filled
        beside = {"data": self._exposed(), "host": late, "pipeline": self.waited, "bubble": step}
        found = {}
        for cause, seconds in beside.items():
            added = np.maximum(np.minimum(seconds, step - filled), 0.0)
            found[CAUSE_ROW[cause] - FIRST_CAUSE] = added
            filled = filled + added
        return found

    def _total(self, kind: StageKind) -> Floats:
        """Figures of all passes, [figure, n]; of 'dualpipe' half the micro-batches pass each chunk."""
        found: Floats = self._num_apart * kind.figures[:, self._index]
        if kind.joined is None:
            return found
        with_joined: Floats = found + self._num_joined * kind.joined.figures[:, self._index]
        return with_joined

    def _done(self) -> Floats:
        """Until each stage's gradient reductions are over; with a barrier, those of all."""
        done = self._end + self._left
        if self._reduced is not None:
            done = np.maximum(done, self._reduced)
        if self.group.updates_together and self.group.num_stages > 1:
            return np.broadcast_to(done.max(axis=0), done.shape)
        return done

    def _left_over(self) -> Floats:
        """Of gradient reductions after the last pass: what runs while a late host holds it up is over.

        So a device that computes longer beside the same host leaves no fewer of them.
        """
        left = self.spread(lambda kind: kind.left)
        waited = np.minimum(self.spread(lambda kind: kind.hosted), self._late)
        least = np.minimum(left, self.spread(lambda kind: kind.behind_host))
        remaining: Floats = np.maximum(left - waited, least)
        return remaining

    def _exposed(self) -> Floats:
        """Seconds of each stage's gathers and gradient reductions beside the steady passes."""
        exposed = self.spread(lambda kind: kind.last + kind.earlier) + self._left
        exposed[0] += np.maximum(self._first_delay, 0.0)
        if self._reduced is not None:
            return np.maximum(exposed, self._reduced - self._end)
        return exposed

    def _ends(self) -> Floats:
        """Until each stage's last pass is over.

        The pipeline's end less the way from this stage's last pass to it; later by longer first and last
        passes on the way. A host that cannot keep up ends no earlier, wherever it stands; it does not wait
        for gathers.
        """
        drain, last = self._drain(), self.spread(lambda kind: kind.last)
        latest = (self.hosts + drain).max(axis=0)
        on_time = self._seconds + self._first_delay
        end = np.maximum(on_time, latest) - drain
        self._late = np.maximum(latest - on_time, 0.0)
        longer = last if self.group.splits_backward else sums_behind(last) + last
        if self.group.virtual > 1:
            longer = longer + self.spread(lambda kind: kind.earlier).sum(axis=0)
        found: Floats = np.maximum(end, self._busy + self._first_delay) + longer
        return found

    def _delay(self) -> Floats:
        """By what gathers that happen once hold up the first micro-batch, [n].

        They run from the start of the step, and so while a stage waits for it.
        """
        fill = sums_before(self.spread(lambda kind: kind.forwards[0].seconds) + self._message)
        found: Floats = (self.spread(lambda kind: kind.first) - fill).max(axis=0)
        return found

    def _drain(self) -> Floats:
        """How long before the pipeline's end each stage has run its last pass.

        Where gradients of weights are put off, stages fill that time with them.
        """
        if self.group.is_forward_only:
            return sums_behind(self.spread(lambda kind: kind.forwards[-1].seconds) + self._message)
        seconds = self.spread(lambda kind: kind.backwards[0].seconds) + self._message
        return np.zeros_like(seconds) if self.group.splits_backward else sums_before(seconds)

    def _reductions(self) -> Floats:
        """Until all gradient reductions of a stage are over, where every micro-batch has its own and they
        never pause.

        The first follows the first backward; compute beside them (a, b: slowdowns) takes a times as long and
        keeps 1 - 1 / b of that from them.
        """
        group, count, slowdown = self.group, self._count, self.group.slowdown
        num_chunks = len(self.kinds[0].forwards)
        forwards = np.zeros_like(self._message)
        for chunk in range(num_chunks):
            forwards = forwards + self.spread(partial(_forward_once_filled, chunk)).sum(axis=0)
        after = sums_behind(self.spread(lambda kind: _without_entry(kind.backwards[-1])))
        num_before = num_chunks * group.num_stages + np.arange(group.num_stages)[::-1]
        begun = (forwards + after + self._message * (num_before[:, None] - 1)) * (group.num_stages > 1)
        if group.schedule == "gpipe":
            begun = begun + (count - 1) * self.spread(lambda kind: kind.forwards[0].seconds).max(axis=0)
        slowed = slowdown[0] * (1 - 1 / slowdown[1]) * self._busy * (count - 1) / count
        own = self._num_apart * self.spread(lambda kind: kind.gradient_reduction)
        if group.schedule == "dualpipe":
            own = own + self._num_joined * self.spread(lambda kind: _joined(kind).gradient_reduction)
        total: Floats = begun + own + slowed
        return total

    def _makespans(self) -> tuple[Floats, Floats]:
        """Of all passes, and what of it is waiting for messages.

        Of the wait for a stage's first gather only the slowest stage's is on the way: the others have it
        behind them when a micro-batch arrives.
        """
        message, nothing = self._message, np.zeros_like(self._message)
        plain = self._stage_seconds()
        sent = plain if self.group.overlaps_boundary else _with_sends(plain, message)
        beside = message if self.group.overlaps_boundary else nothing
        if message.any():
            both = _joined_stages(sent, plain), np.concatenate([beside, nothing])
            whole, unhindered = np.split(self._makespan(*both, np.tile(self._count, 2)), 2)
            waited = whole - unhindered
        else:
            whole, waited = self._makespan(sent, beside, self._count), nothing
        if self.group.is_forward_only:
            return whole, waited
        entries = self.spread(lambda kind: kind.forwards[0].entry + kind.backwards[0].entry)
        return whole - entries.sum(axis=0) + entries.max(axis=0), waited

    def _stage_seconds(self) -> StageSeconds:
        group, chunks = self.group, range(self.group.virtual)
        return StageSeconds(
            np.concatenate([self.spread(partial(_forward, chunk)) for chunk in chunks]),
            np.concatenate([self.spread(partial(_backward, chunk)) for chunk in chunks]),
            self.spread(lambda kind: kind.weights[0].seconds) if group.splits_backward else None,
            self.spread(lambda kind: _joined(kind).seconds) if group.schedule == "dualpipe" else None,
        )

    def _makespan(self, stages: StageSeconds, message: Floats, count: Integers) -> Floats:
        group = self.group
        if group.is_forward_only:
            return forward_makespans(stages.forward, count, message, group.virtual)
        return makespans(group.schedule, stages, count, message, group.virtual)


def _joined_stages(first: StageSeconds, second: StageSeconds) -> StageSeconds:
    """The plans of both, those of the first first; of one schedule, so that both hold the same parts."""

    def of_both(one: Floats | None, other: Floats | None) -> Floats | None:
        return None if one is None or other is None else np.concatenate([one, other], axis=1)

    return StageSeconds(
        np.concatenate([first.forward, second.forward], axis=1),
        np.concatenate([first.backward, second.backward], axis=1),
        of_both(first.weight, second.weight),
        of_both(first.joined, second.joined),
    )


def _with_sends(stages: StageSeconds, message: Floats) -> StageSeconds:
    """With messages during which the sender waits."""
    forward, backward = stages.forward.copy(), stages.backward.copy()
    forward[:-1] += message
    backward[1:] += message
    joined = None if stages.joined is None else stages.joined + 2 * message
    return StageSeconds(forward, backward, stages.weight, joined)


def _forward(chunk: int, kind: StageKind) -> Floats:
    return kind.forwards[chunk].seconds


def _backward(chunk: int, kind: StageKind) -> Floats:
    return kind.backwards[chunk].seconds


def _forward_once_filled(chunk: int, kind: StageKind) -> Floats:
    return _without_entry(kind.forwards[chunk])


def _joined(kind: StageKind) -> PassColumns:
    assert kind.joined is not None
    return kind.joined


def _without_entry(one: PassColumns) -> Floats:
    return one.seconds - one.entry
