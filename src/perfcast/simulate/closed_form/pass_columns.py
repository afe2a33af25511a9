"""A stage's passes of one micro-batch for many plans at once: ``simulate.closed_form.passes`` on arrays.

The plans of a call differ in numbers only: what has gathers or exchanges, and in which order, is the same
for all (``Structure``). Rows of equal layers are added up by formula where nothing is gathered beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.simulate.closed_form.part_costs import (
    BACKWARD,
    COMPUTE,
    DATA,
    EXCHANGE,
    FORWARD,
    GATHER,
    GATHER_AGAIN,
    HOST,
    NUM_FIGURES,
    OWN,
    RECOMPUTE,
    SECONDS,
    SIDE_COMPUTE,
    SIDE_HOST,
    SIDE_SECONDS,
    WEIGHT_GRADIENT,
)
from perfcast.workload.plan_columns.cuts import Content

#: Keeps quotients of units that take no time finite.
_LEAST_SECONDS = 1e-30


@dataclass(frozen=True, slots=True)
class Wants:
    """Which side work the layers of a pass do."""

    gathers: bool = False
    exchanges: bool = False


@dataclass(frozen=True)
class Structure:
    """What the plans of a group have in common beside their stages.

    Attributes:
        has_sides: Whether a kind of layer has calls beside it, [part][kind].
        num_ahead: Layers whose weights are gathered before they are needed; None: all.
        overlaps_gather: Whether weights are gathered beside the compute.
        overlaps_exchange: Whether gradients are reduced beside the backward.
        exchanges_each: Whether every micro-batch reduces them.
        slowdown: Factors of compute and of exchanges while both run.
    """

    has_sides: tuple[tuple[bool, ...], ...]
    num_ahead: int | None
    overlaps_gather: bool
    overlaps_exchange: bool
    exchanges_each: bool
    slowdown: tuple[float, float]


@dataclass(frozen=True, eq=False)
class UnitColumns:
    """``count`` equal tasks of a compute stream, with what runs beside each.

    Attributes:
        time: Figures of one (rows of ``part_costs``), [figure, n].
        gather, exchange: Seconds on the data stream, [n]; None where there is none.
    """

    time: Floats
    count: int = 1
    gather: Floats | None = None
    exchange: Floats | None = None

    def slowed(self, slowdown: tuple[float, float]) -> Floats:
        """Seconds of one while exchanges run beside it, as far as it computes."""
        found: Floats = self.time[SECONDS] + (slowdown[0] - 1.0) * self.time[OWN]
        return found


@dataclass(frozen=True, eq=False)
class PassColumns:
    """One pass of one micro-batch through a chunk, for n plans.

    Attributes:
        figures: Seconds, the host's seconds and all causes, [figure, n].
        left: Seconds of exchanges that are still to run on the data stream, [n].
        entry: Of waiting for the first gather, [n].
        exchange: Seconds of all exchanges of gradients, hidden or not, [n].
    """

    figures: Floats
    left: Floats
    entry: Floats
    exchange: Floats

    @property
    def seconds(self) -> Floats:
        """Of the pass, [n]."""
        found: Floats = self.figures[SECONDS]
        return found


@dataclass(eq=False)
class Passes:
    """Passes of the chunks of a group of plans; equal chunks are added up once.

    Attributes:
        layers: Of each kind of layer, [part, figure, n].
        sides: [part, figure, kind, n].
    """

    structure: Structure
    layers: Sequence[Floats]
    sides: Floats
    _found: dict[object, PassColumns] = field(default_factory=dict)
    _rows: dict[object, _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._nothing = np.zeros(self.sides.shape[-1])

    def of(self, content: Content, part: int, wants: Wants, left: Floats | None = None) -> PassColumns:
        """Of one pass.

        Args:
            part: A row of a layer's figures: FORWARD, BACKWARD, INPUT_GRADIENT or WEIGHT_GRADIENT.
            left: Seconds of exchanges that still run when it starts.
        """
        row = self._row(content, part, wants)
        if left is not None:
            return self._play(row, left)
        key = (content, part, wants)
        if key not in self._found:
            nothing = self._nothing
            has_sides = any(unit.gather is not None or unit.exchange is not None for unit in row.units)
            self._found[key] = (
                self._play(row, nothing) if has_sides else PassColumns(row.figures, nothing, nothing, nothing)
            )
        return self._found[key]

    def _row(self, content: Content, part: int, wants: Wants) -> _Row:
        """A pass's units, built once."""
        key = (content, part, wants)
        if key not in self._rows:
            self._rows[key] = _Row.of(self._units(content, part, wants), self._nothing)
        return self._rows[key]

    def joined(self, first: Content, second: Content, wants: Wants) -> PassColumns:
        """A forward of one chunk joined to a backward of another."""
        rows = [self._units(first, FORWARD, wants), self._units(second, BACKWARD, wants)]
        one, two = (_merged(row, self.sides.shape[-1]) for row in rows)
        time = _joined(one.time, two.time, self.structure.slowdown)
        unit = UnitColumns(time, 1, _sum(one.gather, two.gather), _sum(one.exchange, two.exchange))
        return self._play(_Row.of([unit], self._nothing), self._nothing)

    def first_forwards(self, contents: Sequence[Content], between: int, wants: Wants) -> Floats:
        """Seconds of the first forward of a stage of several chunks whose weights are gathered once, and by
        what the first ones of further chunks are longer, which follow ``between`` passes later; [n]."""
        units: list[UnitColumns] = []
        for at, content in enumerate(contents):
            units += self._units(content, FORWARD, wants)
            if between and at < len(contents) - 1:
                plain = self._row(content, FORWARD, Wants()).figures
                units.append(UnitColumns(between * plain))
        usual = [self.of(content, FORWARD, Wants()).seconds for content in contents]
        others = sum(usual[1:], self._nothing) + between * sum(usual[:-1], self._nothing)
        return self._play(_Row.of(units, self._nothing), self._nothing).seconds - others

    # ---- units -------------------------------------------------------------------------------------------

    def _units(self, content: Content, part: int, wants: Wants) -> list[UnitColumns]:
        """A pass's units in the order in which they run."""
        units: list[UnitColumns] = []
        plain: Floats | None = None
        for kind, count in content if part == FORWARD else reversed(content):
            gather, exchange = self._sides(kind, part, wants)
            time = self.layers[kind][part]
            if gather is None and exchange is None:
                plain = count * time if plain is None else plain + count * time
                continue
            if plain is not None:
                units.append(UnitColumns(plain))
                plain = None
            for side in (gather, exchange):
                time = time if side is None else _with_compute(time, side)
            units.append(UnitColumns(time, count, _seconds(gather), _seconds(exchange)))
        if plain is not None:
            units.append(UnitColumns(plain))
        return units or [UnitColumns(np.zeros((NUM_FIGURES, self.sides.shape[-1])))]

    def _sides(self, kind: int, part: int, wants: Wants) -> tuple[Floats | None, Floats | None]:
        """What is gathered before, and exchanged after, a layer's pass; [figure, n]."""
        gather = exchange = None
        if wants.gathers and part != WEIGHT_GRADIENT:
            row = GATHER if part == FORWARD else GATHER_AGAIN
            gather = self.sides[row, :, kind] if self.structure.has_sides[row][kind] else None
        if wants.exchanges and part in (BACKWARD, WEIGHT_GRADIENT):
            exchange = self.sides[EXCHANGE, :, kind] if self.structure.has_sides[EXCHANGE][kind] else None
        return gather, exchange

    # ---- play --------------------------------------------------------------------------------------------

    def _play(self, row: _Row, left: Floats) -> PassColumns:
        """Compute unit by unit beside the data stream's queue, both slower while both run."""
        state = _State(self.structure, left)
        if any(unit.gather is not None for unit in row.units):
            state.gather_and_run(row.units)
        else:
            for unit in row.units:
                state.run_row(unit)
        if self.structure.exchanges_each:
            state.clock, state.put_off = state.clock + state.put_off, 0 * state.put_off
        figures = row.figures.copy()
        figures[DATA] += np.maximum(state.clock - figures[SECONDS], 0.0)
        figures[SECONDS] = state.clock
        return PassColumns(figures, state.backlog + state.put_off, state.entry, row.exchange)


@dataclass(frozen=True, eq=False)
class _Row:
    """The units of a pass in the order in which they run, and their sums.

    Attributes:
        figures: Of all, [figure, n].
        exchange: Seconds of all exchanges, [n].
    """

    units: Sequence[UnitColumns]
    figures: Floats
    exchange: Floats

    @classmethod
    def of(cls, units: Sequence[UnitColumns], nothing: Floats) -> _Row:
        """Some units; ``nothing`` is a row of zeros."""
        figures, exchange = units[0].count * units[0].time, nothing
        for unit in units[1:]:
            figures = figures + unit.count * unit.time
        for unit in units:
            exchange = exchange if unit.exchange is None else exchange + unit.count * unit.exchange
        return cls(units, figures, exchange)


class _State:
    """A compute stream and its data stream's queue, of n plans.

    Attributes:
        backlog: Seconds of the queue that are still to run.
        clock: Since the pass began.
        entry: Waiting for the first gather.
        put_off: Exchanges that do not run beside the compute.
    """

    def __init__(self, structure: Structure, left: Floats) -> None:
        self.structure = structure
        self.backlog = left
        self.clock, self.entry, self.put_off = (np.zeros_like(left) for _ in range(3))

    def run_row(self, unit: UnitColumns) -> None:
        """Equal units without gathers, by formula.

        With compute d (slowed: a d, which shortens the queue by q = a d / b) and an exchange e behind each: a
        unit is hidden as long as the backlog is q or more. If e >= q that is never or from the second one on;
        else the backlog shrinks by q - e a unit, and once it is below q it is e before every further one.
        """
        time, count = unit.time[SECONDS], unit.count
        slowed = unit.slowed(self.structure.slowdown)
        shortened = slowed / self.structure.slowdown[1]
        behind = unit.exchange if unit.exchange is not None and self.structure.overlaps_exchange else None
        if unit.exchange is not None and behind is None:
            self.put_off = self.put_off + count * unit.exchange
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
        ahead = len(row) if self.structure.num_ahead is None else self.structure.num_ahead
        gathered: list[Floats] = []
        for at, unit in enumerate(row):
            for other in range(len(gathered), min(at + ahead + 1, len(row))):
                gather = row[other].gather
                queued = queued if gather is None else queued + gather
                gathered.append(queued)
            if unit.gather is not None:
                needed = gathered[at] if self.structure.overlaps_gather else gathered[-1]
                waits = np.maximum(needed - done, 0.0)
                self.clock += waits
                done = done + waits
                self.entry = self.clock.copy() if at == 0 else self.entry
            slowed, shortened, saved = figures[id(unit)]
            beside = np.minimum(queued - done, shortened)
            self.clock += np.where(beside < shortened, unit.time[SECONDS] + saved * beside, slowed)
            done = done + beside
            if unit.exchange is not None:
                if self.structure.overlaps_exchange:
                    queued = queued + unit.exchange
                else:
                    self.put_off = self.put_off + unit.exchange
        self.backlog = queued - done

    def _slowed(self, unit: UnitColumns) -> tuple[Floats, Floats, Floats]:
        """Seconds beside exchanges, by what they shorten the queue, and what a second of it costs."""
        factor, time = self.structure.slowdown[1], unit.time[SECONDS]
        slowed = unit.slowed(self.structure.slowdown)
        return slowed, slowed / factor, factor * (1.0 - time / np.maximum(slowed, _LEAST_SECONDS))

    def _uncovered_seconds(self, backlog: Floats, time: Floats, slowed: Floats) -> Floats:
        """Of a unit behind whose first part the queue runs empty."""
        beside = self.structure.slowdown[1] * backlog
        found: Floats = beside + time - beside * (time / np.maximum(slowed, _LEAST_SECONDS))
        return found

    def _uncovered(self, where: np.ndarray, time: Floats, slowed: Floats) -> None:
        self.clock = self.clock + np.where(where, self._uncovered_seconds(self.backlog, time, slowed), 0.0)


def _seconds(side: Floats | None) -> Floats | None:
    return None if side is None else side[SIDE_SECONDS]


def _with_compute(time: Floats, side: Floats) -> Floats:
    """With copies that a side needs on the compute stream, and what the host issues for it."""
    found = time.copy()
    for row in (SECONDS, OWN, COMPUTE):
        found[row] += side[SIDE_COMPUTE]
    found[HOST] += side[SIDE_HOST]
    return found


def _sum(first: Floats | None, second: Floats | None) -> Floats | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _merged(units: Sequence[UnitColumns], count: int) -> UnitColumns:
    """All units as one."""
    time = sum((unit.count * unit.time for unit in units), np.zeros((NUM_FIGURES, count)))
    gather = exchange = None
    for unit in units:
        gather = _sum(gather, None if unit.gather is None else unit.count * unit.gather)
        exchange = _sum(exchange, None if unit.exchange is None else unit.count * unit.exchange)
    return UnitColumns(time, 1, gather, exchange)


def _joined(first: Floats, second: Floats, slowdown: tuple[float, float]) -> Floats:
    """``simulate.combine.joined``: two sequences side by side that hide each other's exchanges."""
    both = first + second
    compute, exchange = both[OWN], both[SECONDS] - both[OWN]
    slowed_compute, slowed_exchange = slowdown[0] * compute, slowdown[1] * exchange
    seconds = np.where(
        slowed_compute <= slowed_exchange,
        slowed_compute + exchange - slowed_compute / slowdown[1],
        slowed_exchange + compute - slowed_exchange / slowdown[0],
    )
    share = np.divide(seconds - compute, exchange, out=np.zeros_like(seconds), where=exchange != 0)
    kept = both[[COMPUTE, RECOMPUTE]]
    both[HOST + 1 :] *= share
    both[[COMPUTE, RECOMPUTE]] = kept
    both[SECONDS] = seconds
    return both
