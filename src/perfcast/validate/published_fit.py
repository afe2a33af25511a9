"""Choosing the constants of a step on published runs, with whole sources left out if wanted.

Residuals are logarithms of forecast over measured. Gauss-Newton steps on the logarithms of the constants, each
held near its start by a prior; Cauchy weights, so that runs which no constant explains do not decide; and a
source of n runs counts √n times as much as one of a single run. At most ``MOST_ROWS`` runs of a source are
looked at, by a fixed hash, so that a fit takes seconds.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.prediction.step_scaling import CLASSES
from perfcast.validate.published_constants import FloatArray, Parameter, Scalable

MOST_ROWS = 40
_SCALE, _DIFFERENCE, _STEPS, _REWEIGHTS = 0.2, 0.02, 3, 8
#: Residuals of a fit's rows count in units of this, against a prior's spread.
_NOISE = 0.15

Forecast = Callable[[Scalable, Mapping[str, float]], float]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Runs to choose constants on; aligned.

    Attributes:
        names: Of each run, for the hash that thins them.
    """

    runs: Sequence[Scalable]
    measured: FloatArray
    sources: Sequence[str]
    names: Sequence[str]

    def thinned(self) -> Evidence:
        """At most ``MOST_ROWS`` of each source."""
        by_source: defaultdict[str, list[int]] = defaultdict(list)
        for index, source in enumerate(self.sources):
            by_source[source].append(index)
        chosen: list[int] = []
        for members in by_source.values():
            ranked = sorted(members, key=lambda i: hashlib.sha256(self.names[i].encode()).digest())
            chosen.extend(ranked[:MOST_ROWS])
        return self.take(sorted(chosen))

    def take(self, rows: Sequence[int]) -> Evidence:
        """Some of the runs."""
        return Evidence(
            [self.runs[i] for i in rows],
            self.measured[list(rows)],
            [self.sources[i] for i in rows],
            [self.names[i] for i in rows],
        )

    def without(self, source: str) -> Evidence:
        """All but those of one source."""
        return self.take([i for i, name in enumerate(self.sources) if name != source])


def start_values(parameters: Sequence[Parameter]) -> dict[str, float]:
    """The constants that nothing was fitted to."""
    return {parameter.name: parameter.start for parameter in parameters}


def fit_constants(
    evidence: Evidence, parameters: Sequence[Parameter], forecast: Forecast, steps: int = _STEPS
) -> dict[str, float]:
    """The constants that explain some runs best."""
    thinned = evidence.thinned()
    offsets = np.zeros(len(parameters))
    weights = _source_weights(thinned.sources)
    for _ in range(steps):
        residuals, slopes = _linearised(thinned, parameters, offsets, forecast)
        offsets = offsets + _solve(residuals, slopes, offsets, weights, parameters)
    return _values(parameters, offsets)


def _source_weights(sources: Sequence[str]) -> FloatArray:
    counts = Counter(sources)
    return np.array([counts[source] ** -0.5 for source in sources])


def _values(parameters: Sequence[Parameter], offsets: FloatArray) -> dict[str, float]:
    return {p.name: p.start * float(np.exp(x)) for p, x in zip(parameters, offsets, strict=True)}


def _linearised(
    evidence: Evidence, parameters: Sequence[Parameter], offsets: FloatArray, forecast: Forecast
) -> tuple[FloatArray, FloatArray]:
    """Residuals, shape [n], and their slopes by constant, shape [n, k]."""
    values = _values(parameters, offsets)
    residuals = np.zeros(len(evidence.runs))
    slopes = np.zeros((len(evidence.runs), len(parameters)))
    for row, run in enumerate(evidence.runs):
        base = forecast(run, values)
        residuals[row] = np.log(base / evidence.measured[row])
        for column, parameter in enumerate(parameters):
            if not concerns(parameter.name, run):
                continue
            moved = values | {parameter.name: values[parameter.name] * float(np.exp(_DIFFERENCE))}
            slopes[row, column] = np.log(forecast(run, moved) / base) / _DIFFERENCE
    return residuals, slopes


def concerns(name: str, run: Scalable) -> bool:
    """Whether a constant can change the forecast of a run."""
    group, _, member = name.partition(".")
    own_class = {"node": "node", "network": "network", "networks": "network"}.get(group)
    if own_class is not None and not (run.classes == CLASSES.index(own_class)).any():
        return False
    own = {"launch": run.run.training.framework, "dies": run.die, "networks": run.network}
    return not member or own[group] == member


def _solve(
    residuals: FloatArray,
    slopes: FloatArray,
    offsets: FloatArray,
    weights: FloatArray,
    parameters: Sequence[Parameter],
) -> FloatArray:
    """One step: ridge regression, reweighted until outliers have lost their say."""
    spreads = np.array([parameter.spread for parameter in parameters])
    step = np.zeros(len(parameters))
    for _ in range(_REWEIGHTS):
        left = residuals + slopes @ step
        robust = weights / (1 + (left / _SCALE) ** 2) / _NOISE**2
        matrix = slopes.T @ (robust[:, None] * slopes) + np.diag(spreads**-2)
        right = slopes.T @ (robust * residuals) + offsets / spreads**2
        step = -np.linalg.solve(matrix, right)
    largest: FloatArray = np.clip(step, -1.0, 1.0)
    return largest
