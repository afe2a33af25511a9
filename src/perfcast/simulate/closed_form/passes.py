"""A stage's passes of one micro-batch by formula: its compute beside its gathers and gradient reductions, for
n plans.

The plans of a call differ in numbers only: what has gathers or gradient reductions, and in which order, is
the same for all (``Group``). Rows of equal layers are added up by formula where nothing is gathered beside
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.simulate.closed_form.figures import (
    BACKWARD,
    CAUSE_ROW,
    FIRST_CAUSE,
    FORWARD,
    GATHER,
    GATHER_AGAIN,
    GRADIENT_REDUCTION,
    HOST,
    LATE,
    NUM_FIGURES,
    OWN,
    SECONDS,
    SIDE_COMPUTE,
    SIDE_HOST,
    SIDE_SECONDS,
    WEIGHT_GRADIENT,
    beside_host,
    in_a_row,
    on_slower_rank,
)
from perfcast.simulate.closed_form.group import Group
from perfcast.simulate.closed_form.streams import Streams, UnitColumns
from perfcast.simulate.pipeline.units import SideWork
from perfcast.workload.plan_columns.cuts import Content

_COMPUTE, _RECOMPUTE, _DATA = (CAUSE_ROW[cause] for cause in ("compute", "recompute", "data"))


@dataclass(frozen=True, eq=False)
class PassColumns:
    """One pass of one micro-batch through a chunk, for n plans.

    Attributes:
        figures: Seconds, the host's seconds and all causes, [figure, n].
        left: Seconds of gradient reductions that are still to run on the data stream, [n].
        entry: Of waiting for the first gather, [n].
        gradient_reduction: Seconds of all gradient reductions, hidden or not, [n].
    """

    figures: Floats
    left: Floats
    entry: Floats
    gradient_reduction: Floats

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
        rank_slowdown: By what the rank's compute takes longer.
    """

    group: Group
    layers: Sequence[Floats]
    sides: Floats
    rank_slowdown: float = 1.0
    _found: dict[object, PassColumns] = field(default_factory=dict)
    _rows: dict[object, _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._nothing = np.zeros(self.sides.shape[-1])

    def of(self, content: Content, part: int, beside: SideWork, left: Floats | None = None) -> PassColumns:
        """Of one pass.

        Args:
            part: A row of a layer's figures: FORWARD, BACKWARD, INPUT_GRADIENT or WEIGHT_GRADIENT.
            left: Seconds of gradient reductions that still run when it starts.
        """
        row = self._row(content, part, beside)
        if left is not None:
            return self._play(row, left)
        key = (content, part, beside)
        if key not in self._found:
            nothing = self._nothing
            has_sides = any(
                unit.gather is not None or unit.gradient_reduction is not None for unit in row.units
            )
            self._found[key] = (
                self._play(row, nothing) if has_sides else PassColumns(row.figures, nothing, nothing, nothing)
            )
        return self._found[key]

    def last_reduction(self, content: Content, part: int, beside: SideWork) -> Floats | None:
        """Seconds of the gradient reduction behind the last unit of a pass, [n]; None without one."""
        return self._row(content, part, beside).units[-1].gradient_reduction

    def _row(self, content: Content, part: int, beside: SideWork) -> _Row:
        """A pass's units, built once."""
        key = (content, part, beside)
        if key not in self._rows:
            self._rows[key] = self._row_of(self._units(content, part, beside))
        return self._rows[key]

    def _row_of(self, units: Sequence[UnitColumns]) -> _Row:
        """Units as this rank runs them."""
        if self.rank_slowdown != 1.0:
            units = [replace(unit, time=on_slower_rank(unit.time, self.rank_slowdown)) for unit in units]
        if self.group.host_waits:
            units = list(_beside_host(units))
        return _Row.of(units, self._nothing)

    def joined(self, first: Content, second: Content, beside: SideWork) -> PassColumns:
        """A forward of one chunk joined to a backward of another."""
        rows = [self._units(first, FORWARD, beside), self._units(second, BACKWARD, beside)]
        one, two = (_merged(row, self.sides.shape[-1]) for row in rows)
        time = _joined(one.time, two.time, self.group.slowdown)
        unit = UnitColumns(
            time, 1, _sum(one.gather, two.gather), _sum(one.gradient_reduction, two.gradient_reduction)
        )
        return self._play(self._row_of([unit]), self._nothing)

    def first_forwards(self, contents: Sequence[Content], between: int, beside: SideWork) -> Floats:
        """Seconds of the first forward of a stage of several chunks whose weights are gathered once, and by
        what the first ones of further chunks are longer, which follow ``between`` passes later; [n]."""
        units: list[UnitColumns] = []
        for at, content in enumerate(contents):
            units += self._units(content, FORWARD, beside)
            if between and at < len(contents) - 1:
                [plain] = self._units(content, FORWARD, SideWork())
                units.append(UnitColumns(between * plain.time))
        usual = [self.of(content, FORWARD, SideWork()).seconds for content in contents]
        others = sum(usual[1:], self._nothing) + between * sum(usual[:-1], self._nothing)
        return self._play(self._row_of(units), self._nothing).seconds - others

    # ---- units -------------------------------------------------------------------------------------------

    def _units(self, content: Content, part: int, beside: SideWork) -> list[UnitColumns]:
        """A pass's units in the order in which they run."""
        units: list[UnitColumns] = []
        plain: Floats | None = None
        for kind, count in content if part == FORWARD else reversed(content):
            gather, gradient_reduction = self._sides(kind, part, beside)
            time = self.layers[kind][part]
            if gather is None and gradient_reduction is None:
                plain = in_a_row(plain, time, count)
                continue
            if plain is not None:
                units.append(UnitColumns(plain))
                plain = None
            for side in (gather, gradient_reduction):
                time = time if side is None else _with_compute(time, side)
            units.append(UnitColumns(time, count, _seconds(gather), _seconds(gradient_reduction)))
        if plain is not None:
            units.append(UnitColumns(plain))
        return units or [UnitColumns(np.zeros((NUM_FIGURES, self.sides.shape[-1])))]

    def _sides(self, kind: int, part: int, beside: SideWork) -> tuple[Floats | None, Floats | None]:
        """What is gathered before, and exchanged after, a layer's pass; [figure, n]."""
        gather = gradient_reduction = None
        if beside.gathers and part != WEIGHT_GRADIENT:
            row = GATHER if part == FORWARD else GATHER_AGAIN
            gather = self.sides[row, :, kind] if self.group.has_sides[row][kind] else None
        if beside.reductions and part in (BACKWARD, WEIGHT_GRADIENT):
            gradient_reduction = (
                self.sides[GRADIENT_REDUCTION, :, kind]
                if self.group.has_sides[GRADIENT_REDUCTION][kind]
                else None
            )
        return gather, gradient_reduction

    # ---- play --------------------------------------------------------------------------------------------

    def _play(self, row: _Row, left: Floats) -> PassColumns:
        """Compute unit by unit beside the data stream's queue, both slower while both run."""
        state = Streams(self.group, left)
        if any(unit.gather is not None for unit in row.units):
            state.gather_and_run(row.units)
        else:
            for unit in row.units:
                state.run_row(unit)
        if self.group.reduces_each:
            state.clock, state.put_off = state.clock + state.put_off, 0 * state.put_off
        figures = row.figures.copy()
        figures[_DATA] += np.maximum(state.clock - figures[SECONDS], 0.0)
        figures[SECONDS] = state.clock
        return PassColumns(figures, state.backlog + state.put_off, state.entry, row.gradient_reduction)


@dataclass(frozen=True, eq=False)
class _Row:
    """The units of a pass in the order in which they run, and their sums.

    Attributes:
        figures: Of all, [figure, n].
        gradient_reduction: Seconds of all gradient reductions, [n].
    """

    units: Sequence[UnitColumns]
    figures: Floats
    gradient_reduction: Floats

    @classmethod
    def of(cls, units: Sequence[UnitColumns], nothing: Floats) -> _Row:
        """Some units; ``nothing`` is a row of zeros."""
        figures, gradient_reduction = units[0].count * units[0].time, nothing
        for unit in units[1:]:
            figures = figures + unit.count * unit.time
        for unit in units:
            gradient_reduction = (
                gradient_reduction
                if unit.gradient_reduction is None
                else gradient_reduction + unit.count * unit.gradient_reduction
            )
        return cls(units, figures, gradient_reduction)


def _beside_host(units: Sequence[UnitColumns]) -> Iterator[UnitColumns]:
    """``simulate.combine.beside_host``; of equal units each is held up by as much as the others."""
    before: Floats | None = None
    late: Floats | float = 0.0
    for unit in units:
        before = in_a_row(before, unit.time, unit.count)
        lead = np.maximum(np.maximum(before[LATE], before[HOST]) - before[SECONDS], 0.0)
        time = unit.time.copy()
        time[LATE] = time[SECONDS] + np.maximum(lead - late, 0.0) / unit.count
        late = np.maximum(late, lead)
        yield replace(unit, time=beside_host(time))


def _seconds(side: Floats | None) -> Floats | None:
    return None if side is None else side[SIDE_SECONDS]


def _with_compute(time: Floats, side: Floats) -> Floats:
    """With copies that a side needs on the compute stream, and what the host issues for it."""
    found = time.copy()
    for row in (SECONDS, OWN, LATE, _COMPUTE):
        found[row] += side[SIDE_COMPUTE]
    found[HOST] += side[SIDE_HOST]
    return found


def _sum(first: Floats | None, second: Floats | None) -> Floats | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _merged(units: Sequence[UnitColumns], count: int) -> UnitColumns:
    """All units as one."""
    time = np.zeros((NUM_FIGURES, count))
    for unit in units:
        time = in_a_row(time, unit.time, unit.count)
    gather = gradient_reduction = None
    for unit in units:
        gather = _sum(gather, None if unit.gather is None else unit.count * unit.gather)
        gradient_reduction = _sum(
            gradient_reduction,
            None if unit.gradient_reduction is None else unit.count * unit.gradient_reduction,
        )
    return UnitColumns(time, 1, gather, gradient_reduction)


def _joined(first: Floats, second: Floats, slowdown: tuple[float, float]) -> Floats:
    """``simulate.combine.joined``: two sequences side by side that hide each other's communication."""
    both = in_a_row(first, second, 1)
    compute, communication = both[OWN], both[SECONDS] - both[OWN]
    slowed_compute, slowed_communication = slowdown[0] * compute, slowdown[1] * communication
    seconds = np.where(
        slowed_compute <= slowed_communication,
        slowed_compute + communication - slowed_compute / slowdown[1],
        slowed_communication + compute - slowed_communication / slowdown[0],
    )
    share = np.divide(seconds - compute, communication, out=np.zeros_like(seconds), where=communication != 0)
    kept = both[[_COMPUTE, _RECOMPUTE]]
    both[FIRST_CAUSE:] *= share
    both[[_COMPUTE, _RECOMPUTE]] = kept
    both[SECONDS] = seconds
    both[LATE] = np.maximum(both[LATE], seconds)
    return both
