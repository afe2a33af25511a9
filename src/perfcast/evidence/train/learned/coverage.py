"""How many measurements lie in an interval that knows nothing of the devices that were left out with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.cost.learned.kinship import KINS, Kin
from perfcast.cost.learned.predictor import Quantiles, find_spread
from perfcast.cost.learned.scalars import NUM_SCALARS
from perfcast.evidence.train.learned.left_out import LeftOut
from perfcast.evidence.train.learned.prepared import Prepared
from perfcast.evidence.train.learned.widths import errors_of, unseen_spread


def cross_coverage(p: Prepared, left: LeftOut) -> dict[Kin, float]:
    """By kin, share of the rows of a fold inside the interval that the other folds make; folds count alike.

    With n folds the interval comes from n - 1 and is wider for it. Nothing for a kin of fewer than two folds,
    nor of the very architecture: those are as unsure as without it.
    """
    found: dict[Kin, float] = {}
    for kin in KINS[1:]:
        errors, folds = errors_of(p, left, kin)
        present = np.isfinite(errors) & (folds >= 0)
        numbers = np.unique(folds[present]).tolist()
        if len(numbers) < 2:
            continue
        shares = []
        for number in numbers:
            mine = np.flatnonzero(present & (folds == number))
            table = unseen_spread(p, _without(left, kin, mine))[kin]
            shares.append(_share_inside(p, errors, mine, table))
        found[kin] = round(float(np.mean(shares)), 3)
    return found


def _without(left: LeftOut, kin: Kin, rows: Integers) -> LeftOut:
    """As if some rows had not been left out in a kin's way."""
    errors, folds = left.errors[kin].copy(), left.folds[kin].copy()
    errors[rows], folds[rows] = np.nan, -1
    return replace(left, errors={**left.errors, kin: errors}, folds={**left.folds, kin: folds})


def _share_inside(p: Prepared, errors: Floats, rows: Integers, table: Quantiles) -> float:
    regime = p.shares[rows].argmax(axis=1)
    pairs, which = np.unique(p.segment_index[rows] * NUM_SCALARS + regime, return_inverse=True)
    spans = np.array(
        [find_spread(table, p.segments[i // NUM_SCALARS], i % NUM_SCALARS) for i in pairs.tolist()]
    )[which]
    return float(((errors[rows] >= spans[:, 0]) & (errors[rows] <= spans[:, 1])).mean())
