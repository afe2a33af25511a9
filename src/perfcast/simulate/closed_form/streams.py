"""A compute stream beside its data stream's queue, both slower while both run, of n plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.simulate.closed_form.figures import OWN, SECONDS
from perfcast.simulate.closed_form.group import Group

#: Keeps quotients of units that take no time finite.
_LEAST_SECONDS = 1e-30


@dataclass(frozen=True, eq=False)
class UnitColumns:
    """``count`` equal tasks of a compute stream, with what runs beside each.

    Attributes:
        time: Figures of one (rows of ``figures``), [figure, n].
        gather, gradient_reduction: Seconds on the data stream, [n]; None where there is none.
    """

    time: Floats
    count: int = 1
    gather: Floats | None = None
    gradient_reduction: Floats | None = None

    def slowed(self, slowdown: tuple[float, float]) -> Floats:
        """Seconds of one while communication runs beside it, as far as it computes."""
        found: Floats = self.time[SECONDS] + (slowdown[0] - 1.0) * self.time[OWN]
        return found


class Streams:
    """A compute stream and its data stream's queue, of n plans.

    Attributes:
        backlog: Seconds of the queue that are still to run.
        clock: Since the pass began.
        entry: Waiting for the first gather.
        put_off: Gradient reductions that do not run beside the compute.
    """

    def __init__(self, group: Group, left: Floats) -> None:
        self.group = group
        self.backlog = left
        self.clock, self.entry, self.put_off = np.zeros((3, *left.shape))

    def run_row(self, unit: UnitColumns) -> None:
        """Equal units without gathers, by formula.

        With compute d (slowed: a d, which shortens the queue by q = a d / b) and a gradient reduction e
        behind each: a unit is hidden as long as the backlog is q or more. If e >= q that is never or from the
        second one on; else the backlog shrinks by q - e a unit, and once it is below q it is e before every
        further one.
        """
        time, count = unit.time[SECONDS], unit.count
        slowed = unit.slowed(self.group.slowdown)
        shortened = slowed / self.group.slowdown[1]
        behind = (
            unit.gradient_reduction
            if unit.gradient_reduction is not None and self.group.overlaps_gradient_reduction
            else None
        )
        if unit.gradient_reduction is not None and behind is None:
            self.put_off = self.put_off + count * unit.gradient_reduction
        if behind is None and not self.backlog.any():
            self.clock = self.clock + count * time
            return
        after = np.zeros_like(time) if behind is None else behind
        shrinks = shortened > after
        spare = np.where(shrinks, (self.backlog - shortened) / np.where(shrinks, shortened - after, 1.0), 0.0)
        hidden = np.where(self.backlog >= shortened, np.where(shrinks, np.floor(spare) + 1, count), 0.0)
        hidden = np.minimum(hidden, count)
        self.clock = self.clock + hidden * slowed
        self.backlog = self.backlog + hidden * (after - shortened)
        rest = count - hidden
        late = rest > 0
        self._uncovered(late, time, slowed)
        self.backlog = np.where(late, after, self.backlog)
        rest = np.where(late, rest - 1, 0.0)
        covered = ~shrinks
        self.clock = self.clock + np.where(
            covered, rest * slowed, rest * self._uncovered_seconds(after, time, slowed)
        )
        self.backlog = self.backlog + np.where(covered, rest * (after - shortened), 0.0)

    def gather_and_run(self, units: Sequence[UnitColumns]) -> None:
        """Units one by one: weights must be there before a unit starts."""
        row = [unit for unit in units for _ in range(unit.count)]
        figures = {id(unit): self._slowed(unit) for unit in units}
        queued, done = self.backlog, np.zeros_like(self.backlog)
        ahead = self.group.num_prefetched if self.group.gathers_each else len(row)
        gathered: list[Floats] = []
        for at, unit in enumerate(row):
            for other in range(len(gathered), min(at + ahead + 1, len(row))):
                gather = row[other].gather
                queued = queued if gather is None else queued + gather
                gathered.append(queued)
            if unit.gather is not None:
                needed = gathered[at] if self.group.overlaps_gather else gathered[-1]
                waits = np.maximum(needed - done, 0.0)
                self.clock += waits
                done = done + waits
                self.entry = self.clock.copy() if at == 0 else self.entry
            slowed, shortened, saved = figures[id(unit)]
            beside = np.minimum(queued - done, shortened)
            self.clock += np.where(beside < shortened, unit.time[SECONDS] + saved * beside, slowed)
            done = done + beside
            if unit.gradient_reduction is not None:
                if self.group.overlaps_gradient_reduction:
                    queued = queued + unit.gradient_reduction
                else:
                    self.put_off = self.put_off + unit.gradient_reduction
        self.backlog = queued - done

    def _slowed(self, unit: UnitColumns) -> tuple[Floats, Floats, Floats]:
        """Seconds beside collectives, by what they shorten the queue, and what a second of it costs."""
        factor, time = self.group.slowdown[1], unit.time[SECONDS]
        slowed = unit.slowed(self.group.slowdown)
        return slowed, slowed / factor, factor * (1.0 - time / np.maximum(slowed, _LEAST_SECONDS))

    def _uncovered_seconds(self, backlog: Floats, time: Floats, slowed: Floats) -> Floats:
        """Of a unit behind whose first part the queue runs empty."""
        beside = self.group.slowdown[1] * backlog
        found: Floats = beside + time - beside * (time / np.maximum(slowed, _LEAST_SECONDS))
        return found

    def _uncovered(self, where: Flags, time: Floats, slowed: Floats) -> None:
        self.clock = self.clock + np.where(where, self._uncovered_seconds(self.backlog, time, slowed), 0.0)
