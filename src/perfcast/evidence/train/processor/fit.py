"""Constants of a processor from whole steps: one time a step, and what its operators asked for by class.

Times of single operators are not measured, so that what a step's terms add up to is fitted, on the logarithm
of fitted over measured with the soft-L1 loss; constants are positive, and drawn a little to where physics has
them, as some classes are rare. Families of models are left out in turn to say how closely it holds elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from perfcast.core.arrays import Floats
from perfcast.cost.processor.work import CLASSES, ProcessorClass

#: What is fitted for each class; seconds of it at a constant of 1 are a step's columns.
TERMS = ("call", "flops", "weights", "activations")
#: Where physics has them: calls of 60 µs at 1 GHz, arithmetic near its peak but in single channels, data that
#: moves once.
_USUAL = {"call": 60.0, "flops": 1.5, "weights": 1.2, "activations": 1.5}
_DEPTHWISE_FLOPS = 10.0
_PULL = 0.05
_SOFT_SCALE = 0.2
_FOLDS = 8
_NINETY = 0.9


@dataclass(frozen=True)
class FittedProcessor:
    """Constants by term and class, and errors of steps of families that were left out, in shape [n].

    Attributes:
        spread: Factor either way that holds nine of ten of those.
    """

    constants: dict[str, dict[ProcessorClass, float]]
    errors: Floats
    spread: float


def fit_processor(columns: Floats, seconds: Floats, families: Sequence[str]) -> FittedProcessor:
    """Fit to steps.

    Args:
        columns: Seconds of each term and class at a constant of 1, shape [n, terms, classes].
        seconds: Measured, shape [n].
        families: Of the models, which are left out together.
    """
    matrix = columns.reshape(len(seconds), -1)
    names = np.array(families)
    errors = np.zeros(len(seconds))
    order = np.random.default_rng(0).permutation(sorted(set(families)))
    for fold in range(_FOLDS):
        left_out = np.isin(names, order[fold::_FOLDS])
        if left_out.any() and not left_out.all():
            found = _fit(matrix[~left_out], seconds[~left_out])
            errors[left_out] = matrix[left_out] @ found / seconds[left_out] - 1.0
    table = _fit(matrix, seconds).reshape(len(TERMS), len(CLASSES))
    constants = {
        term: dict(zip(CLASSES, row.tolist(), strict=True)) for term, row in zip(TERMS, table, strict=True)
    }
    spread = float(np.exp(np.quantile(np.abs(np.log1p(errors)), _NINETY)))
    return FittedProcessor(constants, errors, spread)


def _fit(matrix: Floats, seconds: Floats) -> Floats:
    usual = np.log([[_usual(term, name) for name in CLASSES] for term in TERMS]).ravel()

    def residuals(logs: Floats) -> Floats:
        return np.concatenate([np.log(matrix @ np.exp(logs) / seconds), _PULL * (logs - usual)])

    found: Floats = np.exp(least_squares(residuals, usual, loss="soft_l1", f_scale=_SOFT_SCALE).x)
    return found


def _usual(term: str, name: ProcessorClass) -> float:
    return _DEPTHWISE_FLOPS if (term, name) == ("flops", "depthwise") else _USUAL[term]
