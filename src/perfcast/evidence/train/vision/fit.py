"""Constants of parts from whole steps: robust least squares of the logarithm.

    minimise  Σ over steps (weight · ρ(log(Σ over parts constant · seconds) − log measured))
            + n · ridge² · Σ over parts (log(constant) − log(prior))²

ρ is the pseudo-Huber loss: a model that was measured wrongly, or under another name, pulls no more than one
that is a little off. Each family of models weighs as much as the root of its number of steps, so that
EfficientNet's variants do not decide. The ridge keeps a part that few steps have at what its traffic says.
Solved by Gauss and Newton's method with reweighting; the sum is linear in the constants, the step smooth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.evidence.train.vision.steps import StepParts, VisionStep

_RIDGE = 0.01
_HUBER = 0.1
_ROUNDS = 60
_FOLDS = 8
#: Parts that other models price: their errors are one number a device here, and not kept.
_OWN = ("other.",)
#: Before anything is measured: passes over the tensors that a kernel reads more than once.
PRIORS: Mapping[str, float] = {
    "stream.batch_norm.nchw": 1.5,
    "stream.batch_norm.nhwc": 1.5,
    "stream.batch_norm_backward.nchw": 5 / 3,
    "stream.batch_norm_backward.nhwc": 5 / 3,
}


@dataclass(frozen=True)
class Problem:
    """Steps in rows, parts in columns.

    Attributes:
        seconds: Ideal seconds of each part, shape [n, p].
        measured, weight: Shape [n].
        prior: Of each constant, shape [p].
    """

    names: tuple[str, ...]
    seconds: Floats
    measured: Floats
    weight: Floats
    prior: Floats

    def take(self, rows: Flags) -> Problem:
        """Some of the steps."""
        return Problem(self.names, self.seconds[rows], self.measured[rows], self.weight[rows], self.prior)


def build_problem(steps: Sequence[VisionStep], parts: Sequence[StepParts]) -> Problem:
    """One row a step; what other models price has a column for each device."""
    named = [
        {_column(name, step.device): value for name, value in of.seconds.items()}
        for step, of in zip(steps, parts, strict=True)
    ]
    names = tuple(sorted({name for row in named for name in row}))
    seconds = np.array([[row.get(name, 0.0) for name in names] for row in named])
    groups = Counter((s.family, s.device, s.mode) for s in steps)
    weight = np.array([1 / np.sqrt(groups[s.family, s.device, s.mode]) for s in steps])
    prior = np.array([PRIORS.get(name, 1.0) for name in names])
    return Problem(names, seconds, np.array([s.seconds for s in steps]), weight / weight.mean(), prior)


def _column(name: str, device: str) -> str:
    return f"{name}@{device}" if name.startswith(_OWN) else name


def fit_constants(problem: Problem) -> Floats:
    """Constants, shape [p]."""
    logs = np.log(problem.prior)
    ridge = _RIDGE**2 * len(problem.measured)
    for _ in range(_ROUNDS):
        terms = problem.seconds * np.exp(logs)
        total = terms.sum(axis=1)
        residual = np.log(total / problem.measured)
        slopes = terms / total[:, None]
        pull = problem.weight / np.sqrt(1 + (residual / _HUBER) ** 2)
        normal = (slopes * pull[:, None]).T @ slopes + ridge * np.eye(len(logs))
        right = (slopes * pull[:, None]).T @ residual + ridge * (logs - np.log(problem.prior))
        move = np.clip(np.linalg.solve(normal, right), -0.5, 0.5)
        logs = logs - move
        if np.abs(move).max() < 1e-5:
            break
    return np.asarray(np.exp(logs), dtype=np.float64)


def left_out_seconds(problem: Problem, groups: Sequence[str]) -> Floats:
    """Forecasts of every step by constants that no step of its group was used for, shape [n].

    Groups are dealt to eight folds; fewer than eight are left out one by one.
    """
    every = sorted(set(groups))
    dealt = np.random.default_rng(0).permutation(len(every))
    fold_of = {every[at]: number % _FOLDS for number, at in enumerate(dealt.tolist())}
    fold = np.array([fold_of[group] for group in groups])
    forecast = np.zeros(len(fold))
    for number in sorted(set(fold.tolist())):
        out = fold == number
        constants = fit_constants(problem.take(~out))
        constants = _constants_elsewhere(problem, constants, ~out)
        forecast[out] = problem.seconds[out] @ constants
    return forecast


def _constants_elsewhere(problem: Problem, constants: Floats, used: Flags) -> Floats:
    """A device that was left out has no numbers of its own: 1 for what other models price."""
    seen = problem.seconds[used].any(axis=0)
    return np.where(seen, constants, problem.prior)
