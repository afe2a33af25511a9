"""How many measurements lie in an interval that knows nothing of the devices that were left out with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.cost.learned.kinship import KINS, Kin
from perfcast.cost.learned.predictor import Quantiles, find_spread
from perfcast.cost.learned.scalars import NUM_SCALARS
from perfcast.evidence.train.learned.left_out import LeftOut
from perfcast.evidence.train.learned.prepared import Prepared
from perfcast.evidence.train.learned.widths import errors_of, unseen_spread


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """Rows that were left out together, beside the interval that the other folds of their kin make.

    Attributes:
        rows: Which of the prepared rows.
        errors: log(measured / predicted), shape [rows].
        low, high: Ends of the interval, as logarithms over the prediction, shape [rows].
    """

    kin: Kin
    rows: Integers
    errors: Floats
    low: Floats
    high: Floats

    @property
    def share_inside(self) -> float:
        """Of the rows."""
        return float(((self.errors >= self.low) & (self.errors <= self.high)).mean())


def judged_folds(p: Prepared, left: LeftOut) -> Iterator[JudgedFold]:
    """Every fold by an interval from the others.

    With n folds the interval comes from n - 1 and is wider for it. Nothing for a kin of fewer than two folds,
    nor of the very architecture: those are as unsure as without it.
    """
    for kin in KINS[1:]:
        errors, folds = errors_of(p, left, kin)
        present = np.isfinite(errors) & (folds >= 0)
        numbers = np.unique(folds[present]).tolist()
        if len(numbers) < 2:
            continue
        for number in numbers:
            mine = np.flatnonzero(present & (folds == number))
            spans = _spans(p, mine, unseen_spread(p, _without(left, kin, mine))[kin])
            yield JudgedFold(kin, mine, errors[mine], spans[:, 0], spans[:, 1])


def cross_coverage(p: Prepared, left: LeftOut) -> dict[Kin, float]:
    """By kin, share of the rows of a fold inside the interval from the other folds; these count alike."""
    shares: dict[Kin, list[float]] = {}
    for fold in judged_folds(p, left):
        shares.setdefault(fold.kin, []).append(fold.share_inside)
    return {kin: round(float(np.mean(some)), 3) for kin, some in shares.items()}


def _without(left: LeftOut, kin: Kin, rows: Integers) -> LeftOut:
    """As if some rows had not been left out in a kin's way."""
    errors, folds = left.errors[kin].copy(), left.folds[kin].copy()
    errors[rows], folds[rows] = np.nan, -1
    return replace(left, errors={**left.errors, kin: errors}, folds={**left.folds, kin: folds})


def _spans(p: Prepared, rows: Integers, table: Quantiles) -> Floats:
    """Shape [rows, 2]."""
    regime = p.shares[rows].argmax(axis=1)
    pairs, which = np.unique(p.segment_index[rows] * NUM_SCALARS + regime, return_inverse=True)
    spans = np.array(
        [find_spread(table, p.segments[i // NUM_SCALARS], i % NUM_SCALARS) for i in pairs.tolist()]
    )
    return np.asarray(spans[which], dtype=np.float64)
