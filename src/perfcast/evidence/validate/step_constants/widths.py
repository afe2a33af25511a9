"""Widths of intervals of training steps, fitted to what runs of left-out sources took over their forecasts.

Each side is fitted by the pinball loss of ln(measured / forecast) at ``TAIL``, the proper score of a quantile
(Koenker and Bassett, Econometrica 1978); a source of n runs counts √n times as much as one of a single run.
``TAIL`` is beyond 95 %, so that nine in ten of the runs of a source that was left out lie inside.

Programs of which only sources are known whose own repeats differ by more than a tenth (``noisy``) say nothing
of widths; what they stall by is fitted above the widths of all others. Of their runs next to none is faster
than the interval, so that the upper end alone misses: it is fitted at ``STALL_TAIL``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.plan import Plan
from perfcast.prediction.step.interval import (
    FEWEST_SOURCES,
    PARTS,
    STALL_DEVICES,
    Stall,
    StepParts,
    StepWidths,
    half_width,
    training_interval,
)

TAIL, STALL_TAIL = 0.96, 0.93
#: A fit of fewer runs says nothing.
_FEWEST_RUNS = 20
#: Where fits begin: widths of the parts; seconds and growth of stalls.
_STARTS = ((0.12, *[0.3] * 6), (0.2, 0.1, 1.0, 1.0, 0.2, 0.2, 0.02))
_STALL_STARTS = ((-2.0, 0.5), (0.0, 0.3), (-4.0, 1.5))
_MOST_STEPS = 4000
_NEW = "new_die"
#: Widths that are none; what a unit of a width costs, so that those that no run tells of shrink.
_NOTHING, _HELD = 1e-3, 1e-4


@dataclass(frozen=True, eq=False)
class WidthRow:
    """A run, what its forecast consists of, and how long it took.

    Attributes:
        group: Within its source: the model.
        seconds: Forecast by constants chosen without its source.
    """

    source: str
    group: str
    framework: str
    plan: Plan
    parts: StepParts
    seconds: float
    measured: float

    @property
    def error(self) -> float:
        """ln(measured / forecast)."""
        return float(np.log(self.measured / self.seconds))

    def interval(self, widths: StepWidths) -> tuple[float, float]:
        """Seconds, under some widths."""
        stalled = widths.stall_seconds(self.framework, self.plan) / self.seconds
        low, high = training_interval(self.parts, widths, stalled)
        return low * self.seconds, high * self.seconds


def fit_widths(rows: Sequence[WidthRow], noisy: Collection[str]) -> StepWidths:
    """Widths of all parts, and stalls of programs that only noisy sources ran."""
    sources = _sources_of_dies(rows)
    quiet = [row for row in rows if row.source not in noisy]
    below, above = ({}, {}) if len(quiet) < _FEWEST_RUNS else (_fit(quiet, False), _fit(quiet, True))
    widths = StepWidths(below, above, {}, {die: len(names) for die, names in sources.items()})
    return StepWidths(below, above, fit_stalls(rows, noisy, widths), widths.sources)


def fit_stalls(
    rows: Sequence[WidthRow], noisy: Collection[str], widths: StepWidths
) -> dict[str, tuple[Stall, Stall]]:
    """By framework, of plans of one stage and of pipelines."""
    known = {row.framework for row in rows if row.source not in noisy}
    found = {}
    for framework in sorted({row.framework for row in rows} - known):
        mine = [row for row in rows if row.framework == framework]
        kinds = [[r for r in mine if (r.plan.pipeline_parallel > 1) is piped] for piped in (False, True)]
        if all(len(kind) >= _FEWEST_RUNS for kind in kinds):
            alone, pipeline = (_fit_stall(kind, widths) for kind in kinds)
            found[framework] = (alone, pipeline)
    return found


def _sources_of_dies(rows: Sequence[WidthRow]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row.parts.die].add(row.source)
    return dict(sorted(found.items()))


def _fit(rows: Sequence[WidthRow], above: bool) -> dict[str, float]:
    """One side: first of all runs as if no die was new, then what a new die adds.

    A die is new to a run where too few other sources have it.
    """
    sources = _sources_of_dies(rows)
    is_new = np.array([len(sources[r.parts.die] - {r.source}) < FEWEST_SOURCES for r in rows])
    columns = np.array([row.parts.columns(above=above, is_new=True) for row in rows])
    errors = np.array([row.error for row in rows]) * (1 if above else -1)
    counts = Counter(row.source for row in rows)
    weights = np.array([counts[row.source] ** -0.5 for row in rows])
    free = [at for at, part in enumerate(PARTS) if part != _NEW]
    found = _minimum(errors, columns[:, free], weights, np.zeros(len(rows)))
    widths = dict(zip((PARTS[at] for at in free), found.tolist(), strict=True))
    squares = ((found * columns[:, free]) ** 2).sum(axis=1)
    if is_new.sum() >= _FEWEST_RUNS:
        (widths[_NEW],) = _minimum(
            errors[is_new], np.ones((int(is_new.sum()), 1)), weights[is_new], squares[is_new]
        ).tolist()
    return {part: float(f"{value:.3g}") for part, value in widths.items() if value > _NOTHING}


def _minimum(errors: Floats, columns: Floats, weights: Floats, squares: Floats) -> Floats:
    """Widths of some columns above 0, beside squares of half-widths that are known."""
    from scipy.optimize import minimize

    def loss(logs: Floats) -> float:
        values = np.exp(logs)
        beyond = errors - np.sqrt(squares + ((values * columns) ** 2).sum(axis=1))
        return float(weights @ _pinball(beyond, TAIL)) / float(weights.sum()) + _HELD * float(values.sum())

    options = {"maxiter": _MOST_STEPS, "xatol": 1e-3, "fatol": 1e-8, "adaptive": True}
    starts = [np.log(start[: columns.shape[1]]) for start in _STARTS]
    found = [minimize(loss, start, method="Nelder-Mead", options=options) for start in starts]
    best: Floats = np.exp(min(found, key=lambda one: float(one.fun)).x)
    return best


def _fit_stall(rows: Sequence[WidthRow], widths: StepWidths) -> Stall:
    from scipy.optimize import minimize

    upper = np.array([row.seconds * np.exp(_above(row, widths)) for row in rows])
    measured = np.log([row.measured for row in rows])
    batches = np.array([row.plan.num_micro_batches for row in rows], dtype=np.float64)
    devices = np.log([row.plan.world_size / STALL_DEVICES for row in rows])

    def loss(values: Floats) -> float:
        high = upper + batches * np.exp(values[0] + values[1] * devices)
        return float(_pinball(measured - np.log(high), STALL_TAIL).mean())

    options = {"maxiter": _MOST_STEPS, "xatol": 1e-3, "fatol": 1e-8}
    found = [minimize(loss, start, method="Nelder-Mead", options=options) for start in _STALL_STARTS]
    seconds, growth = min(found, key=lambda one: float(one.fun)).x.tolist()
    return Stall(float(f"{np.exp(seconds):.3g}"), float(f"{growth:.3g}"))


def _above(row: WidthRow, widths: StepWidths) -> float:
    is_new = widths.is_new(row.parts.die)
    return half_width(widths.above, row.parts.columns(above=True, is_new=is_new))


def _pinball(beyond: Floats, tail: float) -> Floats:
    found: Floats = np.where(beyond > 0, tail * beyond, (tail - 1) * beyond)
    return found


def widths_without_each(
    rows: Sequence[WidthRow], noisy: Collection[str]
) -> Mapping[tuple[str, str], StepWidths]:
    """Widths for each (source, group) from other sources; stalls of a noisy one from its other groups."""
    found: dict[tuple[str, str], StepWidths] = {}
    for source in sorted({row.source for row in rows}):
        without = fit_widths([row for row in rows if row.source != source], noisy)
        for group in sorted({row.group for row in rows if row.source == source}):
            stalls = without.stalls
            if source in noisy:
                left = [row for row in rows if row.source == source and row.group != group]
                stalls = fit_stalls(left, noisy, without)
            found[source, group] = StepWidths(without.below, without.above, stalls, without.sources)
    return found
