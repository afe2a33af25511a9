"""Training steps of many plans by formula: ``simulate.closed_form.step`` on arrays.

The plans of a group have the same stages, schedule and kinds of exchanges and differ in numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.plan import CAUSES
from perfcast.simulate.closed_form.makespans import StageColumns, before, behind, makespans
from perfcast.simulate.closed_form.part_costs import (
    BACKWARD,
    FIRST_CAUSE,
    FORWARD,
    HOST,
    INPUT_GRADIENT,
    OWN,
    SECONDS,
    WEIGHT_GRADIENT,
)
from perfcast.simulate.closed_form.pass_columns import PassColumns, Passes, Wants
from perfcast.workload.plan_columns.cuts import Content, Cut

_ROW = {cause: place for place, cause in enumerate(CAUSES)}


@dataclass(frozen=True)
class Group:
    """What the plans of a group have in common.

    Attributes:
        has_gathers, has_exchanges: Whether any layer collects weights, reduces gradients.
        gathers_each, exchanges_each: Whether every micro-batch does.
        updates_together: Whether ranks of all stages wait for one another in the optimizer.
    """

    cut: Cut
    schedule: str
    num_stages: int
    virtual: int
    has_gathers: bool
    has_exchanges: bool
    gathers_each: bool
    exchanges_each: bool
    updates_together: bool

    @property
    def splits(self) -> bool:
        """Whether gradients of weights are put off."""
        return self.schedule in ("zero_bubble", "dualpipe")


@dataclass(frozen=True, eq=False)
class StageKind:
    """Passes of a different stage, as ``closed_form.stages.StageTime``; seconds have shape [u].

    Attributes:
        figures: Of one micro-batch's passes, those that are joined left out, [figure, u].
        exchange: Their seconds of exchanges.
        first: By what its first forwards are longer, for gathers that happen once.
        last: By what its very last gradients are longer, for exchanges beside them.
        earlier: By what the last gradients of its other chunks are longer.
        left: Of exchanges after its last backward.
    """

    forwards: tuple[PassColumns, ...]
    backwards: tuple[PassColumns, ...]
    weights: tuple[PassColumns, ...]
    joined: PassColumns | None
    figures: Floats
    exchange: Floats
    first: Floats
    last: Floats
    earlier: Floats
    left: Floats


@dataclass(frozen=True, eq=False)
class Batches:
    """What n plans differ in beside their passes.

    Attributes:
        index: Which of the passes' columns each plan takes, [n].
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


def time_steps(
    group: Group, kinds: Sequence[StageKind], batches: Batches, slowdown: tuple[float, float]
) -> StepColumns:
    """Steps of plans of one schedule."""
    pipeline = _Pipeline(group, kinds, batches, slowdown)
    seconds, leads = (
        np.stack(rows)[pipeline.place]
        for rows in ([one[SECONDS] for one in batches.optimizers], batches.leads)
    )
    step = (np.maximum(pipeline.done(), pipeline.hosts + leads) + seconds).max(axis=0)
    return StepColumns(step, pipeline.mean_causes(step))


def stage_passes(group: Group, passes: Passes, chunks: Sequence[Content]) -> StageKind:
    """Steady passes of a stage, and what the first and last ones add."""
    backward = INPUT_GRADIENT if group.splits else BACKWARD
    last = WEIGHT_GRADIENT if group.splits else BACKWARD
    steady = Wants(group.has_gathers and group.gathers_each, group.has_exchanges and group.exchanges_each)
    left = passes.of(chunks[0], last, steady).left
    still = left if left.any() else None
    forwards = tuple(passes.of(chunk, FORWARD, steady, still) for chunk in chunks)
    backwards = tuple(passes.of(chunk, backward, steady) for chunk in chunks)
    weights = tuple(passes.of(chunk, last, steady) for chunk in chunks) if group.splits else ()
    is_dual = group.schedule == "dualpipe"
    joined = passes.joined(chunks[0], chunks[1], steady) if is_dual else None
    longer_first = _first_forwards(group, passes, chunks, steady) - forwards[0].seconds
    longer_last = _last_gradients(group, passes, chunks, weights or backwards, last, steady)
    every = (*forwards, *backwards, *weights)
    return StageKind(
        forwards, backwards, weights, joined, np.sum([one.figures for one in every], axis=0),
        np.sum([one.exchange for one in every], axis=0), longer_first, *longer_last,
    )  # fmt: skip


def _first_forwards(group: Group, passes: Passes, chunks: Sequence[Content], steady: Wants) -> Floats:
    """Seconds of the first forward, and by what those of further chunks are longer."""
    wants = Wants(group.has_gathers, steady.exchanges)
    if group.gathers_each or group.virtual == 1:
        return passes.of(chunks[0], FORWARD, wants).seconds
    return passes.first_forwards(chunks, group.num_stages - 1, wants)


def _last_gradients(
    group: Group, passes: Passes, chunks: Sequence[Content], usual: Sequence[PassColumns], part: int,
    steady: Wants,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """By what the very last pass is longer, those of other chunks are, and what exchanges it leaves."""
    structure = passes.structure
    puts_off = not (structure.overlaps_exchange or structure.exchanges_each)
    slowed = usual[0].seconds + (structure.slowdown[0] - 1.0) * usual[0].figures[OWN]
    between = (group.num_stages - 1) * slowed / structure.slowdown[1]
    left = longer = earlier = np.zeros_like(between)
    final = Wants(steady.gathers, group.has_exchanges)
    for at in reversed(range(len(chunks))):
        beside = np.zeros_like(left) if puts_off else np.maximum(left - between, 0.0)
        ending = passes.of(chunks[at], part, final, beside)
        left = ending.left + left if puts_off else ending.left
        earlier, longer = earlier + longer, ending.seconds - usual[at].seconds
    return longer, earlier if group.schedule == "interleaved" else np.zeros_like(left), left


class _Pipeline:
    """Ends of the stages of steps, as ``closed_form.step`` finds them; arrays of stages are [stages, n].

    Attributes:
        place: Which of the different stages each one is.
        hosts: For how long the host of each stage issues passes.
        waited: What the pipeline takes longer for its messages, [n].
    """

    def __init__(
        self, group: Group, kinds: Sequence[StageKind], batches: Batches, slowdown: tuple[float, float]
    ) -> None:
        self.group, self.kinds, self.place = group, kinds, np.array(group.cut.stage_kinds)
        self._index, self._count = batches.index, batches.num_micro_batches
        self._optimizers, self._slowdown = batches.optimizers, slowdown
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
        self._exchanged = self._exchanges() if group.exchanges_each else None

    def spread(self, value: Callable[[StageKind], Floats]) -> Floats:
        """Of every stage."""
        found = np.stack([value(kind) for kind in self.kinds])[:, self._index]
        of_stages: Floats = found[self.place]
        return of_stages

    def _total(self, kind: StageKind) -> Floats:
        """Figures of all passes, [figure, n]; of 'dualpipe' half the micro-batches pass each chunk."""
        found: Floats = self._num_apart * kind.figures[:, self._index]
        return (
            found if kind.joined is None else found + self._num_joined * kind.joined.figures[:, self._index]
        )

    def done(self) -> Floats:
        """Of each stage, until its exchanges are over; with a barrier, those of all."""
        done = self._end + self.spread(lambda kind: kind.left)
        if self._exchanged is not None:
            done = np.maximum(done, self._exchanged)
        if self.group.updates_together and self.group.num_stages > 1:
            return np.broadcast_to(done.max(axis=0), done.shape)
        return done

    def mean_causes(self, step: Floats) -> Floats:
        """Mean over stages, [cause, n]: what each does, what it waits for as far as the step has room."""
        own = [
            total[FIRST_CAUSE:] + optimizer[FIRST_CAUSE:]
            for total, optimizer in zip(self._totals, self._optimizers, strict=True)
        ]
        shares = np.bincount(self.place, minlength=len(own)) / len(self.place)
        found = np.array(sum(share * causes for share, causes in zip(shares, own, strict=True)))
        filled = np.stack([causes.sum(axis=0) for causes in own])[self.place]
        late = self.hosts + np.stack([one[HOST] for one in self._optimizers])[self.place] - filled
        beside = (("data", self._exposed()), ("host", late), ("pipeline", self.waited), ("bubble", step))
        for cause, seconds in beside:
            added = np.maximum(np.minimum(seconds, step - filled), 0.0)
            found[_ROW[cause]] += added.mean(axis=0)
            filled = filled + added
        return found

    def _exposed(self) -> Floats:
        """Seconds of each stage's gathers and exchanges beside the steady passes."""
        exposed = self.spread(lambda kind: kind.last + kind.earlier + kind.left)
        exposed[0] += np.maximum(self._first_delay, 0.0)
        if self._exchanged is not None:
            return np.maximum(exposed, self._exchanged - self._end)
        return exposed

    def _ends(self) -> Floats:
        """Until each stage's last pass is over."""
        drain, last = self._drain(), self.spread(lambda kind: kind.last)
        latest = (self.hosts + drain).max(axis=0)
        end = np.maximum(self._seconds + self._first_delay, latest) - drain
        longer = last if self.group.splits else behind(last) + last
        if self.group.virtual > 1:
            longer = longer + self.spread(lambda kind: kind.earlier).sum(axis=0)
        found: Floats = np.maximum(end, self._busy + self._first_delay) + longer
        return found

    def _delay(self) -> Floats:
        """By what gathers that happen once hold up the first micro-batch, [n]."""
        fill = before(self.spread(lambda kind: kind.forwards[0].seconds) + self._message)
        found: Floats = (self.spread(lambda kind: kind.first) - fill).max(axis=0)
        return found

    def _drain(self) -> Floats:
        """How long before the pipeline's end each stage has run its last pass."""
        seconds = self.spread(lambda kind: kind.backwards[0].seconds) + self._message
        return np.zeros_like(seconds) if self.group.splits else before(seconds)

    def _exchanges(self) -> Floats:
        """Until all exchanges of each stage are over, where every micro-batch has its own."""
        count, several = self._count, self.group.num_stages > 1
        forwards = sum(
            (self.spread(lambda kind, c=c: _without_entry(kind.forwards[c])).sum(axis=0)  # type: ignore[misc]
             for c in range(len(self.kinds[0].forwards))), np.zeros_like(self._message)
        )  # fmt: skip
        after = behind(self.spread(lambda kind: _without_entry(kind.backwards[-1])))
        num_before = (
            len(self.kinds[0].forwards) * self.group.num_stages + np.arange(self.group.num_stages)[::-1]
        )
        begun = (forwards + after + self._message * (num_before[:, None] - 1)) * several
        if self.group.schedule == "gpipe":
            begun = begun + (count - 1) * self.spread(lambda kind: kind.forwards[0].seconds).max(axis=0)
        slowed = self._slowdown[0] * (1 - 1 / self._slowdown[1]) * self._busy * (count - 1) / count
        own = self._num_apart * self.spread(lambda kind: kind.exchange)
        if self.group.schedule == "dualpipe":
            own = own + self._num_joined * self.spread(_joined_exchange)
        total: Floats = begun + own + slowed
        return total

    def _makespans(self) -> tuple[Floats, Floats]:
        """Of all passes, and what of it is waiting for messages.

        Of the wait for a stage's first gather only the slowest stage's is on the way.
        """
        group, chunks = self.group, range(self.group.virtual)
        stages = StageColumns(
            np.concatenate([self.spread(lambda kind, c=c: kind.forwards[c].seconds) for c in chunks]),  # type: ignore[misc]
            np.concatenate([self.spread(lambda kind, c=c: kind.backwards[c].seconds) for c in chunks]),  # type: ignore[misc]
            self.spread(lambda kind: kind.weights[0].seconds) if group.splits else None,
            self.spread(_joined_seconds) if group.schedule == "dualpipe" else None,
        )
        entries = self.spread(lambda kind: kind.forwards[0].entry + kind.backwards[0].entry)
        whole = makespans(group.schedule, stages, self._count, self._message, group.virtual)
        waited = np.zeros_like(whole)
        if self._message.any():
            nothing = np.zeros_like(whole)
            waited = whole - makespans(group.schedule, stages, self._count, nothing, group.virtual)
        return whole - entries.sum(axis=0) + entries.max(axis=0), waited


def _joined_seconds(kind: StageKind) -> Floats:
    return np.zeros(0) if kind.joined is None else kind.joined.seconds


def _joined_exchange(kind: StageKind) -> Floats:
    return np.zeros(0) if kind.joined is None else kind.joined.exchange


def _without_entry(one: PassColumns) -> Floats:
    return one.seconds - one.entry
