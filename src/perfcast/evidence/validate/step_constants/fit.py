"""Choosing the constants of a step on published runs, with whole sources left out if wanted.

Residuals are logarithms of forecast over measured; Cauchy weights, so that runs which no constant explains do
not decide; a source of n runs counts √n times as much as one of a single run; every constant is held near its
start by a prior. At most ``MOST_ROWS`` runs of a source are looked at, by a fixed hash.

The host's pace comes first, on a grid, since it matters only from some value on: that of all programs, and
how far each differs. Then Gauss-Newton steps on the logarithms of the others, with slopes that are
properties of the forecasts alone (no measurement enters them) and so serve for every choice of sources.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.validate.step_constants.scales import Parameter, Scalable
from perfcast.prediction.step.scaling import CLASSES

MOST_ROWS = 60
_SCALE, _DIFFERENCE, _STEPS, _REWEIGHTS = 0.2, 0.02, 3, 8
#: Residuals of a fit's rows count in units of this, against a prior's spread.
_NOISE = 0.15
#: Seconds of the host from one launch to the next that are tried.
_PACES = tuple((3e-6 * 1.4**step) for step in range(12))
#: Paces between which costs are compared; a run's seconds between two that were tried are interpolated.
_FINE = 100
#: A run tells the pace of its host if a slow one, as traces show it at most, would hold it up by so much.
_SLOW_SECONDS, _HELD_UP = 60e-6, 1.1
_LAUNCH = "launch"

Forecast = Callable[[Scalable, Mapping[str, float]], float]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Runs to choose constants on; aligned.

    Attributes:
        names: Of each run, for the hash that thins them.
        sizes: Runs of each source before they were thinned.
    """

    runs: Sequence[Scalable]
    measured: Floats
    sources: Sequence[str]
    names: Sequence[str]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def thinned(self) -> Evidence:
        """At most ``MOST_ROWS`` of each source."""
        by_source: defaultdict[str, list[int]] = defaultdict(list)
        for index, source in enumerate(self.sources):
            by_source[source].append(index)
        chosen: list[int] = []
        for members in by_source.values():
            ranked = sorted(members, key=lambda i: hashlib.sha256(self.names[i].encode()).digest())
            chosen.extend(ranked[:MOST_ROWS])
        rows = sorted(chosen)
        return Evidence(
            [self.runs[i] for i in rows],
            self.measured[rows],
            [self.sources[i] for i in rows],
            [self.names[i] for i in rows],
            Counter(self.sources),
        )


@dataclass(eq=False)
class Fitter:
    """Chooses constants on any of the sources; what several choices share is computed once.

    Attributes:
        evidence: Thinned.
        forecast: Seconds of a run under some constants.
    """

    evidence: Evidence
    parameters: Sequence[Parameter]
    forecast: Forecast
    _paces: dict[int, Floats] = field(default_factory=dict)
    _slopes: dict[tuple[int, float], Floats] = field(default_factory=dict)

    def fit(self, without: str | None = None) -> dict[str, float]:
        """The constants that explain the runs of all sources but one best."""
        rows = [i for i, source in enumerate(self.evidence.sources) if source != without]
        counts = Counter(self.evidence.sources[i] for i in rows)
        sizes = self.evidence.sizes
        weights = np.array([sizes[name] ** 0.5 / counts[name] for name in map(self._source, rows)])
        values = self._start() | self._choose_paces(rows, weights)
        moved = [p for p in self.parameters if not p.name.startswith(_LAUNCH)]
        slopes = np.array([self._slopes_of(i, values, moved) for i in rows])
        offsets = np.zeros(len(moved))
        for _ in range(_STEPS):
            now = values | _moved(moved, offsets)
            residuals = np.array([np.log(self._seconds(i, now) / self.evidence.measured[i]) for i in rows])
            offsets = offsets + _solve(residuals, slopes, offsets, weights, moved)
        return values | _moved(moved, offsets)

    def _source(self, row: int) -> str:
        return self.evidence.sources[row]

    def _start(self) -> dict[str, float]:
        return {parameter.name: parameter.start for parameter in self.parameters}

    def _seconds(self, row: int, values: Mapping[str, float]) -> float:
        return self.forecast(self.evidence.runs[row], values)

    def _slopes_of(self, row: int, values: Mapping[str, float], moved: Sequence[Parameter]) -> Floats:
        """d log seconds / d log constant of one run near its host's pace, the others at their start; [k]."""
        run = self.evidence.runs[row]
        pace = min(_PACES, key=lambda tried: abs(np.log(tried / run.launch_seconds(values))))
        key = (row, pace)
        if key not in self._slopes:
            at = self._at_pace(run, pace)
            base = self.forecast(run, at)
            found = np.zeros(len(moved))
            for column, parameter in enumerate(moved):
                if concerns(parameter.name, run):
                    near = at | {parameter.name: at[parameter.name] * float(np.exp(_DIFFERENCE))}
                    found[column] = np.log(self.forecast(run, near) / base) / _DIFFERENCE
            self._slopes[key] = found
        return self._slopes[key]

    def _choose_paces(self, rows: Sequence[int], weights: Floats) -> dict[str, float]:
        """Pace of all programs and factor of each: least cost over the grid of both."""
        spreads = {p.name: p.spread for p in self.parameters if p.name.startswith(_LAUNCH)}
        starts = {p.name: p.start for p in self.parameters if p.name in spreads}
        coarse, slow = np.log(_PACES), np.log(_SLOW_SECONDS)
        grid = np.linspace(coarse[0], coarse[-1], _FINE)
        costs: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(len(grid)))
        for row, weight in zip(rows, weights, strict=True):
            tried = self._paces_of(row)
            name = f"{_LAUNCH}.{self.evidence.runs[row].host}"
            if name not in spreads or np.interp(slow, coarse, tried) - tried[0] < np.log(_HELD_UP):
                continue
            left = np.interp(grid, coarse, tried) - np.log(self.evidence.measured[row])
            costs[name] = costs[name] + weight * _SCALE**2 * np.log1p((left / _SCALE) ** 2) / _NOISE**2
        best: tuple[float, dict[str, float]] = (np.inf, {})
        for shared in grid:
            total = ((shared - np.log(starts[_LAUNCH])) / spreads[_LAUNCH]) ** 2
            chosen = {_LAUNCH: float(np.exp(shared))}
            for name, cost in costs.items():
                own = cost + ((grid - shared) / spreads[name]) ** 2
                total += float(own.min())
                chosen[name] = float(np.exp(grid[int(own.argmin())] - shared))
            if total < best[0]:
                best = (float(total), chosen)
        return best[1]

    def _paces_of(self, row: int) -> Floats:
        """Logarithm of a run's seconds at every pace of the grid, all else at its start."""
        if row not in self._paces:
            run = self.evidence.runs[row]
            seconds = [self.forecast(run, self._at_pace(run, pace)) for pace in _PACES]
            self._paces[row] = np.log(seconds)
        return self._paces[row]

    def _at_pace(self, run: Scalable, pace: float) -> dict[str, float]:
        """All constants at their start but the host's pace of a run's program."""
        start = self._start()
        return start | {_LAUNCH: pace / start.get(f"{_LAUNCH}.{run.host}", 1.0)}


def _moved(parameters: Sequence[Parameter], offsets: Floats) -> dict[str, float]:
    return {p.name: p.start * float(np.exp(x)) for p, x in zip(parameters, offsets, strict=True)}


def concerns(name: str, run: Scalable) -> bool:
    """Whether a constant can change the forecast of a run."""
    group, _, member = name.partition(".")
    own_class = {"networks": "network"}.get(group, group)
    if own_class in CLASSES and not (run.classes == CLASSES.index(own_class)).any():
        return False
    own = {_LAUNCH: run.host, "dies": run.die, "networks": run.network}
    return not member or own[group] == member


def _solve(
    residuals: Floats,
    slopes: Floats,
    offsets: Floats,
    weights: Floats,
    parameters: Sequence[Parameter],
) -> Floats:
    """One step: ridge regression, reweighted until outliers have lost their say."""
    spreads = np.array([parameter.spread for parameter in parameters])
    step = np.zeros(len(parameters))
    for _ in range(_REWEIGHTS):
        left = residuals + slopes @ step
        robust = weights / (1 + (left / _SCALE) ** 2) / _NOISE**2
        matrix = slopes.T @ (robust[:, None] * slopes) + np.diag(spreads**-2)
        right = slopes.T @ (robust * residuals) + offsets / spreads**2
        step = -np.linalg.solve(matrix, right)
    largest: Floats = np.clip(step, -1.0, 1.0)
    return largest
