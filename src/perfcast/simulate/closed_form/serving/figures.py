"""From parts of a time to its mean and percentiles over requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.steady import LatencyColumns
from perfcast.simulate.closed_form.serving.work import variation

#: Equally likely places at which a distribution is looked at, and those of an answer's length.
_PLACES, _LENGTHS = 24, 6
_NORMAL = {0.5: 0.0, 0.9: 1.2816, 0.99: 2.3263}


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the requests, whose seconds lie evenly between two bounds, with a tail behind them.

    Attributes:
        weight: Of all requests, shape (n,).
        least, span: Seconds: at least, and up to so much more, shape (n,).
        tail: Mean of an exponential addition, shape (n,).
    """

    weight: Floats
    least: Floats
    span: Floats
    tail: Floats

    @property
    def mean(self) -> Floats:
        """Of its requests."""
        return self.least + self.span / 2 + self.tail

    def points(self) -> Floats:
        """Equally likely seconds, shape (n, places); their mean is ``mean``."""
        at = (np.arange(_PLACES) + 0.5) / _PLACES
        tail = -np.log1p(-at)
        # span and tail are independent: the places of one run through those of the other
        mixed = np.argsort((np.arange(_PLACES) * 7) % _PLACES)
        found: Floats = (
            self.least[:, None] + self.span[:, None] * at + self.tail[:, None] * (tail / tail.mean())[mixed]
        )
        return found


def mixed_latency(parts: list[Part], num_requests: Floats) -> LatencyColumns:
    """Of all parts together.

    Args:
        num_requests: Whose percentiles are asked for, shape (n,): of N values at (N - 1) q of 0 to N - 1.
    """
    with np.errstate(invalid="ignore"):
        mean = sum(np.where(part.weight > 0, part.weight * part.mean, 0.0) for part in parts)
    values = np.concatenate([part.points() for part in parts], axis=1)
    weights = np.concatenate(
        [np.repeat(part.weight[:, None] / _PLACES, _PLACES, axis=1) for part in parts], axis=1
    )
    return LatencyColumns(
        np.asarray(mean), *(_quantile(values, weights, at - (at - 0.5) / num_requests) for at in _NORMAL)
    )


def _quantile(values: Floats, weights: Floats, at: Floats) -> Floats:
    """Weighted quantiles of rows: between the two places around it."""
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    weights = np.take_along_axis(weights, order, axis=1)
    middle = np.cumsum(weights, axis=1) - weights / 2
    above = np.minimum((middle < at[:, None]).sum(axis=1), values.shape[1] - 1)
    below = np.maximum(above - 1, 0)
    rows = np.arange(len(values))
    low, high = values[rows, below], values[rows, above]
    gap = middle[rows, above] - middle[rows, below]
    with np.errstate(invalid="ignore"):
        share = np.clip((at - middle[rows, below]) / np.maximum(gap, 1e-12), 0.0, 1.0)
        found = np.where(np.isfinite(high), low + share * (high - low), high)
    return np.asarray(found)


def token_latency(answer_seconds: Floats, deviation: Floats, further_tokens: float) -> LatencyColumns:
    """Of a token after the first; zeros where answers have one token."""
    if further_tokens <= 0:
        none = np.zeros_like(answer_seconds)
        return LatencyColumns(none, none, none, none)
    with np.errstate(invalid="ignore"):
        places = [(answer_seconds + score * deviation) / further_tokens for score in _NORMAL.values()]
    return LatencyColumns(answer_seconds / further_tokens, *places)


def whole_latency(
    first: list[Part],
    answer_seconds: Floats,
    deviation: Floats,
    answers: Lengths,
    num_requests: Floats,
) -> LatencyColumns:
    """From sending to the last token: first tokens and answers, each independent of the other."""
    spread = np.sqrt(deviation**2 + (answer_seconds * variation(answers)) ** 2)
    at = (np.arange(_LENGTHS) + 0.5) / _LENGTHS
    scores = np.array([-1.383, -0.674, -0.21, 0.21, 0.674, 1.383]) * 1.09
    parts = [
        Part(
            part.weight / len(at),
            part.least + np.maximum(answer_seconds + score * spread, 0.0),
            part.span,
            part.tail,
        )
        for part in first
        for score in scores
    ]
    return mixed_latency(parts, num_requests)
