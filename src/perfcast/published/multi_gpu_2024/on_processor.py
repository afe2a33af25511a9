"""Steps that processors run, from one recorded configuration to others of which only the operators are known.

On a processor an operator's own time is its kernel's, so that of the five overheads T1 (between operators)
and T5 (a whole operator) are left, and collectives run on threads of their own. One configuration gives:

    T1                        means by pair of operators, untrimmed             traces/overheads/profile
    an operator's own time    a + g · work, by name; their sum is the recorded one
    a collective              a curve over its bytes, measured apart (``CollectiveCurve``), times what the
                              recorded ones of its kind took over it

The work is in seconds at the rates that half of the recorded time reached (``recorded_rates``).
An operator's sizes within one configuration may hardly differ; so a is drawn to what an operator takes that
does nothing, and g to 1. Another configuration's own times are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.operation import Operation
from perfcast.errors import CalibrationError
from perfcast.published.comparison import print_part
from perfcast.traces.collectives.sizes import find_collectives
from perfcast.traces.events import Category, Trace
from perfcast.traces.forecast.host.operators import does_work
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import Rates, recorded_rates
from perfcast.traces.forecast.recording_cost import MOST_SECONDS_PER_EVENT, sums_within_pieces
from perfcast.traces.link.kernels import link_kernels, nest, own_seconds
from perfcast.traces.overheads.profile import OverheadProfile, fit_overheads
from perfcast.traces.timeline.program import DeviceWork, Overhead, RankProgram

#: What a prior of a and g is worth, in examples.
_PRIOR_WORTH = 0.3
_LEAST_SECONDS = 1e-7

#: (name of the collective, bytes that a rank holds) → seconds.
CollectiveCurve = Callable[[str, float], float]


@dataclass(frozen=True)
class OperatorLine:
    """Own seconds of an operator: a + g · work."""

    constant: float
    growth: float


@dataclass(frozen=True)
class ProcessorModel:
    """What one configuration told.

    Attributes:
        profile: Of T1.
        rates: What turns an operator's work into seconds.
        lines: By operator.
        usual: Of an operator that was not recorded.
        collective_factors: Recorded over measured apart, by kind.
    """

    profile: OverheadProfile
    rates: Rates
    lines: Mapping[str, OperatorLine]
    usual: OperatorLine
    collective_factors: Mapping[str, float]

    def seconds(self, name: str, operation: Operation | None) -> float:
        """Own time of an operator; of one without work of its own its constant."""
        line = self.lines.get(name, self.usual)
        work = 0.0 if operation is None else self.rates.seconds(operation)
        return line.constant + line.growth * work


@dataclass(frozen=True)
class RecordedStep:
    """One step of all ranks, each with its program."""

    traces: tuple[Trace, ...]
    programs: tuple[RankProgram, ...]


@dataclass(frozen=True)
class _Operators:
    """Operators of a recording: rows, own seconds, and the operation of those that work themselves."""

    rows: Integers
    names: tuple[str, ...]
    seconds: Floats
    operations: tuple[Operation | None, ...]


def fit_processor(
    steps: Sequence[RecordedStep], plain_seconds: Sequence[float], curve: CollectiveCurve
) -> ProcessorModel:
    """Fit one configuration, recorded in one or more equal steps.

    Of steps with the same operators in the same order each operator and gap counts by its median, each
    collective by its least: its span holds what keeps its thread from running.

    Args:
        plain_seconds: What each rank's thread was busy in a step without a timeline.

    Raises:
        CalibrationError: No recording, or none in which an operator with a rule took time.
    """
    if not steps:
        raise CalibrationError("nothing was recorded to take overheads from")
    found, programs = [], []
    for rank, plain in enumerate(plain_seconds):
        own = [(step.traces[rank], step.programs[rank]) for step in steps]
        operators, program = _typical(own, plain)
        found.append(operators)
        programs.append(program)
    rates, lines, usual = _fit_operators(found)
    factors = _fit_collectives(steps[0].traces, programs, curve)
    return ProcessorModel(fit_overheads(programs), rates, lines, usual, factors)


def _typical(
    steps: Sequence[tuple[Trace, RankProgram]], plain_seconds: float
) -> tuple[_Operators, RankProgram]:
    """A rank's operators and program with the medians of equal steps, without what recording cost."""
    _, program = steps[0]
    every = [_operators(*step) for step in steps]
    same = [at for at, one in enumerate(every) if one.names == every[0].names]
    pieces = _medians([[p.seconds for p in steps[at][1].pieces] for at in same])
    works = np.min(_alike([[w.seconds for w in steps[at][1].works] for at in same]), axis=0).tolist()
    seconds = np.array(_medians([every[at].seconds for at in same]))
    between = [piece.overhead is Overhead.BETWEEN for piece in program.pieces]
    gaps = [own if is_gap else 0.0 for is_gap, own in zip(between, pieces, strict=True)]
    own, factor = _without_cost(seconds, sum(gaps), plain_seconds)
    typical = program.with_piece_seconds([factor * gap for gap in gaps]).with_work_seconds(works)
    return replace(every[0], seconds=own), typical


def _without_cost(seconds: Floats, gaps: float, plain_seconds: float) -> tuple[Floats, float]:
    """Operators' own seconds as unrecorded, and what is left of the gaps between them; they sum to the step.

    Each event costs its operator up to so much; what then parts the two sums is a factor.
    """
    excess = max(0.0, float(seconds.sum()) + gaps - plain_seconds)
    cost = min(MOST_SECONDS_PER_EVENT, excess / max(len(seconds), 1))
    own = np.maximum(seconds - cost, 0.0)
    factor = plain_seconds / max(float(own.sum()) + gaps, _LEAST_SECONDS)
    return factor * own, factor


def _medians(rows: Sequence[Sequence[float] | Floats]) -> list[float]:
    """Of each column over those rows that are as long as the first."""
    medians: list[float] = np.median(_alike(rows), axis=0).tolist()
    return medians


def _alike(rows: Sequence[Sequence[float] | Floats]) -> Floats:
    """Rows that are as long as the first, shape [r, n]."""
    return np.array([list(row) for row in rows if len(row) == len(rows[0])], dtype=np.float64)


def _fit_operators(
    found: Sequence[_Operators],
) -> tuple[Rates, dict[str, OperatorLine], OperatorLine]:
    names = [name for one in found for name in one.names]
    seconds = np.concatenate([one.seconds for one in found])
    operations = [operation for one in found for operation in one.operations]
    rates = recorded_rates(operations, seconds)
    if rates is None:
        raise CalibrationError("no operator whose work is known took time in what was recorded")
    idle = np.array([operation is None for operation in operations])
    usual = OperatorLine(float(np.median(seconds[idle])) if idle.any() else 0.0, 1.0)
    work = np.array([0.0 if operation is None else rates.seconds(operation) for operation in operations])
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    return rates, {name: _line(seconds[own], work[own], usual) for name, own in groups.items()}, usual


def _fit_collectives(
    traces: Sequence[Trace], programs: Sequence[RankProgram], curve: CollectiveCurve
) -> dict[str, float]:
    """Recorded over measured apart, by kind; of each collective its rank that waited least."""
    least: dict[str, float] = {}
    asked: dict[str, tuple[str, float]] = {}
    for trace, program in zip(traces, programs, strict=True):
        for work, kind, size in _collectives(trace, program):
            name = work.collective or f"{program.rank} {work.row}"
            least[name] = min(least.get(name, math.inf), work.seconds)
            asked[name] = (kind, curve(kind, size))
    sums: dict[str, list[float]] = {}
    for name, (kind, apart) in asked.items():
        own = sums.setdefault(kind, [0.0, 0.0])
        own[0] += least[name]
        own[1] += apart
    return {kind: recorded / apart for kind, (recorded, apart) in sums.items() if apart > 0}


def forecast_programs(
    model: ProcessorModel,
    traces: Sequence[Trace],
    programs: Sequence[RankProgram],
    curve: CollectiveCurve,
) -> list[RankProgram]:
    """Programs of another configuration with modelled times; of its recording the structure counts alone."""
    return [_forecast(model, *one, curve) for one in zip(traces, programs, strict=True)]


def _forecast(
    model: ProcessorModel, trace: Trace, program: RankProgram, curve: CollectiveCurve
) -> RankProgram:
    found = _operators(trace, program)
    own = np.array([model.seconds(*one) for one in zip(found.names, found.operations, strict=True)])
    sums = sums_within_pieces(trace, program, found.rows, own)
    pieces = [
        model.profile.seconds(piece) if piece.overhead is Overhead.BETWEEN else inside
        for piece, inside in zip(program.pieces, sums, strict=True)
    ]
    asked = {
        work.row: model.collective_factors.get(kind, 1.0) * curve(kind, size)
        for work, kind, size in _collectives(trace, program)
    }
    works = [asked.get(work.row, work.seconds) for work in program.works]
    return program.with_piece_seconds(pieces).with_work_seconds(works)


def _collectives(trace: Trace, program: RankProgram) -> Iterator[tuple[DeviceWork, str, float]]:
    """Works of a program that are collectives, with their kind and the bytes that a rank holds."""
    nesting = nest(trace.events)
    found = find_collectives(trace, link_kernels(trace.events, nesting), nesting.parents)
    by_row = {one.row: one for one in found}
    for work in program.works:
        one = by_row.get(work.row)
        if one is not None:
            yield work, one.name, float(one.message_bytes)


def _operators(trace: Trace, program: RankProgram) -> _Operators:
    """Operators of the program's steps."""
    events = trace.events
    rows = events.rows_in(Category.OPERATOR)
    parents = nest(events).parents
    own = own_seconds(events.end_seconds - events.start_seconds, parents, events.is_in(Category.OPERATOR))
    recorded = RecordedOperations(trace, parents)
    every = [recorded.at(row) for row in rows.tolist()]
    counts = does_work(rows, parents, every)
    first, last = (end(span) for end, span in ((min, _starts(program)), (max, _ends(program))))
    inside = (events.start_seconds[rows] >= first) & (events.end_seconds[rows] <= last)
    _leave_out_waits(trace, program, rows, own)
    seconds = own[rows]
    chosen = np.flatnonzero(inside).tolist()
    return _Operators(
        rows[chosen],
        tuple(events.name(int(rows[at])) for at in chosen),
        seconds[chosen],
        tuple(every[at] if counts[at] else None for at in chosen),
    )


def _leave_out_waits(trace: Trace, program: RankProgram, rows: Integers, own: Floats) -> None:
    """Takes from operators' own times what their host waited in them for collectives; ``own`` changes."""
    starts, ends = trace.events.start_seconds[rows], trace.events.end_seconds[rows]
    for before, after in pairwise(program.pieces):
        waited = after.span[0] - before.span[1]
        if waited > 0 and before.chain == after.chain:
            around = np.flatnonzero((starts <= before.span[1]) & (ends >= after.span[0]))
            if len(around):
                innermost = int(rows[around[starts[around].argmax()]])
                own[innermost] = max(0.0, own[innermost] - waited)


def _starts(program: RankProgram) -> list[float]:
    return [piece.span[0] for piece in program.pieces]


def _ends(program: RankProgram) -> list[float]:
    return [piece.span[1] for piece in program.pieces]


def _line(seconds: Floats, work: Floats, usual: OperatorLine) -> OperatorLine:
    """Least squares of relative errors and priors, then the sum restored."""
    from scipy.optimize import nnls

    if not work.any():
        return OperatorLine(float(seconds.mean()), 0.0)
    scale = 1 / np.maximum(seconds, _LEAST_SECONDS)
    weight = 1 / np.sqrt(len(seconds))
    constant = max(usual.constant, _LEAST_SECONDS)
    prior = np.sqrt(_PRIOR_WORTH)
    rows = [
        weight * np.stack([scale, scale * work], axis=1),
        prior * np.array([[1 / constant, 0.0], [0.0, 1.0]]),
    ]
    wanted = np.concatenate([weight * scale * seconds, prior * np.ones(2)])
    constant, growth = nnls(np.concatenate(rows), wanted)[0]
    fitted = float((constant + growth * work).sum())
    restored = float(seconds.sum()) / fitted if fitted > 0 else 1.0
    return OperatorLine(restored * float(constant), restored * float(growth))


if __name__ == "__main__":
    print_part("multi_gpu_2024.on_processor", "multi_gpu_2024")
