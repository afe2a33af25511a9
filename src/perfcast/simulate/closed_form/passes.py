"""A stage's pass of one micro-batch by formula: its compute beside its gathers and exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.work import StepWork
from perfcast.simulate.combine import in_a_row
from perfcast.simulate.layer import OWN_WORK
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.build import gathers_ahead
from perfcast.simulate.pipeline.units import Unit, Wants, units_of
from perfcast.simulate.schedule import Action, Pass


@dataclass(frozen=True, slots=True)
class PassTime:
    """One pass of one micro-batch through a chunk.

    Attributes:
        seconds_by_cause: They add up to ``seconds``.
        left_seconds: Of exchanges that are still to run on the data stream.
        entry_seconds: Of waiting for the first gather, which a stage that is idle before has behind it.
        host_seconds: For which the host issues the pass.
        exchange_seconds: Of all its exchanges of gradients, hidden or not.
    """

    seconds: float
    seconds_by_cause: Mapping[str, float]
    left_seconds: float = 0.0
    entry_seconds: float = 0.0
    host_seconds: float = 0.0
    exchange_seconds: float = 0.0


def in_turn(first: PassTime, second: PassTime) -> PassTime:
    """One pass after another."""
    causes = dict(first.seconds_by_cause)
    for cause, value in second.seconds_by_cause.items():
        causes[cause] = causes.get(cause, 0.0) + value
    return PassTime(
        first.seconds + second.seconds,
        causes,
        second.left_seconds,
        first.entry_seconds,
        first.host_seconds + second.host_seconds,
        first.exchange_seconds + second.exchange_seconds,
    )


class Passes:
    """Times of the passes of a step's chunks; equal chunks are added up once."""

    def __init__(self, work: StepWork, times: PartTimes, slowdowns: Sequence[float]) -> None:
        self.work, self._times, self._slowdowns = work, times, slowdowns
        self._found: dict[object, PassTime] = {}

    def of(
        self, stage: int, chunk: int, kinds: Sequence[Pass], wants: Wants, left_seconds: float = 0.0
    ) -> PassTime:
        """Of one pass, or of a forward of this chunk joined to a backward of the other.

        Args:
            left_seconds: Of exchanges that still run when it starts.
        """
        chunks = self.work.stages[stage].chunks
        held = chunks[chunk] if chunk < len(chunks) and len(kinds) == 1 else stage
        key = (held, tuple(kinds), wants, self._slowdowns[stage], left_seconds)
        found = self._found.get(key)
        if found is None:
            actions = [Action(kind, 0, (chunk + n) % 2 if n else chunk) for n, kind in enumerate(kinds)]
            units = units_of(
                self.work, self._times, stage, actions, [wants] * len(actions), self._slowdowns[stage]
            )
            found = self._found[key] = self._play(units, left_seconds)
        return found

    def first_forwards(self, stage: int, wants: Wants) -> float:
        """Seconds of the first forward of a stage of several chunks whose weights are gathered once, and by
        what the first ones of further chunks are longer."""
        between = self.work.plan.pipeline_parallel - 1
        chunks = range(len(self.work.stages[stage].chunks))
        units: list[Unit] = []
        for chunk in chunks:
            action, factor = [Action(Pass.FORWARD, 0, chunk)], self._slowdowns[stage]
            units += units_of(self.work, self._times, stage, action, [wants], factor)
            plain = units_of(self.work, self._times, stage, action, [Wants()], factor)
            if between and chunk != chunks[-1]:
                units.append(Unit((), in_a_row((unit.time, between) for unit in plain)))
        usual = [self.of(stage, chunk, (Pass.FORWARD,), Wants()).seconds for chunk in chunks]
        others = sum(usual[1:]) + between * sum(usual[:-1])
        return self._play(units, 0.0).seconds - others

    def drained_seconds(self, one: PassTime) -> float:
        """Of exchanges that run beside a pass."""
        factor, exchange_factor = self._times.slowdown
        own = sum(one.seconds_by_cause.get(cause, 0.0) for cause in OWN_WORK)
        return (one.seconds + (factor - 1.0) * own) / exchange_factor

    def _play(self, units: Sequence[Unit], left_seconds: float) -> PassTime:
        """Compute unit by unit beside the data stream's queue, both slower while both run.

        With compute d, queue r and slowdowns a, b, a unit takes a d if that is no more than b r (the queue is
        then a d / b shorter), else b r + (d - b r / a), and the queue is empty. Weights must be there first.
        """
        work = self.work
        ahead = gathers_ahead(work, len(units))
        factor, exchange_factor = self._times.slowdown
        queued, done, clock, entry, put_off = left_seconds, 0.0, 0.0, 0.0, 0.0
        causes: dict[str, float] = {}
        gathered: list[float] = []
        for at, unit in enumerate(units):
            for other in range(len(gathered), min(at + ahead + 1, len(units))):
                queued += units[other].gather.seconds
                gathered.append(queued)
            needed = gathered[at] if work.overlaps_gather else gathered[-1]
            if unit.gather.seconds and needed > done:
                clock += needed - done
                done = needed
                entry = clock if at == 0 else entry
            time, own = unit.time.seconds, unit.time.compute_seconds
            slow = 1.0 + (factor - 1.0) * (own / time if time else 0.0)
            if slow * time <= exchange_factor * (queued - done):
                clock += slow * time
                done += slow * time / exchange_factor
            else:
                beside = exchange_factor * (queued - done)
                clock += beside + time - beside / slow
                done = queued
            if work.overlaps_exchange:
                queued += unit.exchange.seconds
            else:
                put_off += unit.exchange.seconds
            for cause, value in unit.time.seconds_by_cause.items():
                causes[cause] = causes.get(cause, 0.0) + value
        if work.exchanges_each_micro_batch and put_off:
            clock, put_off = clock + put_off, 0.0
        exposed = clock - sum(unit.time.seconds for unit in units)
        if exposed > 0:
            causes["data"] = causes.get("data", 0.0) + exposed
        host = sum(unit.time.host_seconds for unit in units)
        exchanges = sum(unit.exchange.seconds for unit in units)
        return PassTime(clock, causes, queued - done + put_off, entry, host, exchanges)
