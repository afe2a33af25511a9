"""Fitting the learned cost of embedding lookups to measured cases.

Minimised over cases: √(e² + 0.05²), e = ln(predicted / measured), a loss that few disturbed measurements
cannot bend, plus 0.0015 times the squares of the net's weights, by Adam with a falling rate. The factor was
chosen within the cases that are fitted, by leaving out a tenth of their tables twice (of 0.0005, 0.0015 and
0.005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.embedding.columns import EmbeddingColumns, embedding_columns
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.cost.embedding.features import base_terms, speed_features
from perfcast.cost.embedding.learned import EmbeddingNet
from perfcast.errors import CalibrationError

NUM_MEMBERS = 3
_HIDDEN = 16
_STEPS = 900
_RATE = 0.03
_DECAY = 0.0015
_KNEE = 0.05
_LEAST_CASES = 20
#: Where the fit begins: of a table's mean time.
_FIRST_STEP = 0.1


@dataclass(frozen=True, eq=False)
class EmbeddingCases:
    """Measured cases of several tables each.

    Attributes:
        columns: Of all tables of all cases.
        case: Of each table, the case that it belongs to; shape [tables].
        seconds: Of each case; shape [cases].
    """

    columns: EmbeddingColumns
    case: Integers
    seconds: Floats


def gather_cases(lookups: Sequence[Sequence[EmbeddingLookup]], seconds: Sequence[float]) -> EmbeddingCases:
    """Cases from lookups of each and what was measured."""
    return EmbeddingCases(
        embedding_columns([lookup for mine in lookups for lookup in mine]),
        np.repeat(np.arange(len(lookups)), [len(mine) for mine in lookups]),
        np.array(seconds, dtype=np.float64),
    )


def fit_nets(
    cases: EmbeddingCases, num_members: int = NUM_MEMBERS, *, has_step: bool = True
) -> tuple[EmbeddingNet, ...]:
    """Members fitted to the same cases from different seeds.

    Args:
        has_step: Whether a case pays once for all of its tables; not where cases are single tables of a
            longer step.

    Raises:
        CalibrationError: Too few cases, or times that are not positive.
    """
    if len(cases.seconds) < _LEAST_CASES:
        raise CalibrationError(
            f"{len(cases.seconds)} measured cases of embedding lookups; a fit needs {_LEAST_CASES}"
        )
    if not (np.isfinite(cases.seconds) & (cases.seconds > 0)).all():
        raise CalibrationError("a measured time of embedding lookups is not a positive number")
    base, features = base_terms(cases.columns), speed_features(cases.columns)
    return tuple(_fit_net(base, features, cases, seed, has_step) for seed in range(num_members))


def _fit_net(
    base: Floats, features: Floats, cases: EmbeddingCases, seed: int, has_step: bool
) -> EmbeddingNet:
    import torch
    from torch import nn

    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    typical = np.maximum(base.mean(axis=0), 1e-12)
    generator = torch.Generator().manual_seed(seed)
    per_table = cases.seconds.mean() * len(cases.seconds) / len(base)
    rates = nn.Parameter(torch.full((base.shape[1],), float(np.log(per_table / base.shape[1]))))
    hidden = nn.Parameter(torch.randn(_HIDDEN, features.shape[1], generator=generator) * 0.2)
    bias, output = nn.Parameter(torch.zeros(_HIDDEN)), nn.Parameter(torch.zeros(_HIDDEN))
    offset = nn.Parameter(torch.zeros(1))
    step = nn.Parameter(torch.tensor(float(np.log(_FIRST_STEP * per_table))))
    x = torch.tensor((features - mean) / scale, dtype=torch.float32)
    work = torch.tensor(base / typical, dtype=torch.float32)
    owner, wanted = torch.tensor(cases.case), torch.tensor(np.log(cases.seconds), dtype=torch.float32)
    optimizer = torch.optim.Adam([rates, hidden, bias, output, offset, step], lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    for _ in range(_STEPS):
        correction = torch.tanh(x @ hidden.T + bias) @ output + offset
        each = (work * rates.exp()).sum(1) * correction.exp()
        together = torch.zeros(len(wanted)).index_add(0, owner, each)
        error = (together + step.exp() if has_step else together).log() - wanted
        loss = (error**2 + _KNEE**2).sqrt().mean() + _DECAY * ((hidden**2).sum() + (output**2).sum())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    found = [p.detach().double().numpy() for p in (rates, hidden, bias, output, offset)]
    return EmbeddingNet(
        np.exp(found[0]) / typical,
        mean,
        scale,
        found[1],
        found[2],
        found[3],
        float(found[4][0]),
        float(step.detach().exp()) if has_step else 0.0,
    )
