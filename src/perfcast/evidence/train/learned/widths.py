"""Intervals: quantile ranges of log(measured / predicted), wider where few left-out folds tell of them.

A pooled quantile takes the few architectures, families or vendors that could be left out for all there are.
Let their effects be n draws of one law of variance σ². A fold is off by its own effect less the others' mean,
of variance σ²·n / (n − 1); the next device is off by σ²·(n + 1) / n. With τ² the mean square of the folds'
medians that is (1 − 1/n²)·τ², known with n − 1 degrees of freedom (two vendors that predict one another show
one difference), so that the next one lies within t(n − 1) deviations nine times in ten, not within 1.645
(Student's t; Gosset, "The Probable Error of a Mean", Biometrika 1908). What the pooled quantile lacks is
added in squares:

    wide = √(quantile² + (t(n − 1)² − 1.645²)·(1 − 1/n²)·τ²)

Generations of one vendor are many, and the operations of one share most of what is new about it: there the
whole of what is added holds too much, and a share of it is taken. Of vendors only two were measured, mostly
in kernels of few families: τ is one of all families, and of what is added half counts below the estimate,
where the roofline stands in the way of what errs by as much above it.

Devices of an architecture that was measured are as sure as if it had not been: on the safe side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.cost.learned.kinship import KINS, Kin, Segment
from perfcast.cost.learned.predictor import Quantiles, Spread
from perfcast.cost.learned.scalars import coarser
from perfcast.evidence.train.learned.left_out import LeftOut
from perfcast.evidence.train.learned.prepared import Prepared

_QUANTILES = (0.05, 0.95)
_LEAST_FOR_QUANTILES = 40
#: Rows from which a fold counts as much as any other: two rows of a device say little of all of its kernels.
_WHOLE_FOLD = 60
#: Rows of an operation and format in a fold from which its median counts.
_LEAST_FOR_MEDIAN = 20
#: 95 % quantile of Student's t by degrees of freedom from 1, and of the normal law.
_STUDENT = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
_NORMAL = 1.645
#: How many folds the mean of all operations' τ counts for beside an operation's own.
_PRIOR_FOLDS = 2
#: τ between vendors where only one was measured: root mean square of those of the models of which two were
#: (products, experts), each vendor predicted from the other; a test holds it to the shipped weights.
UNSEEN_VENDOR = 0.3
_VENDORS_SEEN = 2
#: Of what few folds leave open, the share that is added for another generation of a vendor. Chosen so that
#: nine in ten of rows left out lie inside, all folds of the seven models alike, by an interval from the other
#: folds: 92 % with the whole, 90 % so (``perfcast validate coverage --subject "kernels of unseen devices"``).
_SHARE_OF_GENERATIONS = 0.65
#: The same below the estimate, for a vendor that nobody measured.
_SHARE_BELOW = 0.5

#: Logarithms of low and high over the estimate.
Span = tuple[float, float]
_Table = dict[tuple[Segment, int], Span]
#: By (operation, format) and fold.
_Medians = Mapping[tuple[str, ...], Mapping[int, float]]


def measure_spread(p: Prepared, held_out: Floats, fewer: Prepared, left: LeftOut) -> Spread:
    """Quantiles of measured devices, and of unseen ones by kin."""
    return Spread(quantiles(p, held_out, p.fold), unseen_spread(fewer, left))


def unseen_spread(p: Prepared, left: LeftOut) -> dict[Kin, Quantiles]:
    """Widened quantiles by kin; another kin's where nobody was left out so."""
    found = {kin: _of_kin(p, left, kin) for kin in KINS}
    stand_in = found["vendor"] or found["family"]
    return {kin: table or stand_in for kin, table in found.items()}


def distances(p: Prepared, left: LeftOut) -> dict[Kin, float]:
    """τ by kin over all operations and formats; between vendors where two were measured."""
    found: dict[Kin, float] = {"none": UNSEEN_VENDOR}
    for kin in KINS:
        medians = fold_medians(p, *errors_of(p, left, kin))
        if medians:
            found[kin] = math.sqrt(_mean_square(list(medians.values())))
    return found


def _of_kin(p: Prepared, left: LeftOut, kin: Kin) -> _Table:
    """Widened quantiles of one kin; of vendors, where only one was measured, from its families'."""
    errors, folds = errors_of(p, left, kin)
    if kin == "architecture":
        return quantiles(p, errors, folds)
    medians = fold_medians(p, errors, folds)
    if kin in ("elsewhere", "none"):
        nearer: Kin = "vendor" if (left.folds["vendor"] >= 0).any() else "family"
        base = quantiles(p, *errors_of(p, left, kin if medians else nearer))
        return {key: _of_another_vendor(span, kin) for key, span in base.items()}
    plain = quantiles(p, errors, folds, least_folds=2)
    farther = len({*left.folds["vendor"].tolist()} - {-1}) if kin == "family" else 0
    share = _SHARE_OF_GENERATIONS if kin == "vendor" else 1.0
    return {key: _widen(span, key[0], medians, farther, share) for key, span in plain.items()}


def one_vendor_spread(known: Mapping[Segment, Span], unseen: Mapping[Segment, Span]) -> Spread:
    """Of kernels measured on devices of one vendor alone, by level of segments."""
    others = {
        kin: {(level, -1): _of_another_vendor(span, kin) for level, span in unseen.items()} for kin in KINS
    }
    return Spread({(level, -1): span for level, span in known.items()}, others)


def widened_quantiles(errors: Floats, fold: Integers) -> Span:
    """Quantiles of errors of folds left out, with what so few folds leave open, by the formula above."""
    medians = {fold_: float(np.median(errors[fold == fold_])) for fold_ in sorted(set(fold.tolist()))}
    return _widen(balanced_quantiles(errors, fold), (), {("step",): medians}, 0)


def _of_another_vendor(span: tuple[float, float], kin: Kin) -> tuple[float, float]:
    """An unseen device's range on one whose vendor's kernels of this family nobody measured."""
    if kin not in ("elsewhere", "none"):
        return span
    # Few pooled quantiles hold any of it.
    extra = _NORMAL if kin == "elsewhere" else math.hypot(_unknown(_VENDORS_SEEN, 0), _NORMAL)
    below = 1.0 if kin == "elsewhere" else _SHARE_BELOW
    return (
        -math.hypot(span[0], below * extra * UNSEEN_VENDOR),
        math.hypot(span[1], extra * UNSEEN_VENDOR),
    )


def errors_of(p: Prepared, left: LeftOut, kin: Kin) -> tuple[Floats, Integers]:
    """Errors and folds of a kin; of the very architecture, those with it left out."""
    return (left.alone, p.fold) if kin == "architecture" else (left.errors[kin], left.folds[kin])


def _widen(span: Span, level: Segment, medians: _Medians, farther: int, taken: float = 1.0) -> Span:
    """A span with what so few folds leave open, by the formula above.

    τ is that of the level's own operations and formats, and for ``_PRIOR_FOLDS`` folds that of all.

    Args:
        farther: Folds of a farther kin; a nearer one is no farther off.
        taken: Of what is added, the share.
    """
    every = list(medians.values())
    own = [cell for name, cell in medians.items() if _holds(level, name)]
    num_folds, num_all = (len({fold for cell in cells for fold in cell}) for cells in (own, every))
    if not num_folds:
        return span
    share = num_folds / (num_folds + _PRIOR_FOLDS)
    variance = share * _mean_square(own) + (1 - share) * _mean_square(every)
    extra = taken * _unknown(num_folds, num_all - num_folds + farther) * math.sqrt(variance)
    return -math.hypot(span[0], extra), math.hypot(span[1], extra)


def _holds(level: Segment, cell: tuple[str, ...]) -> bool:
    """Whether a level of segments holds an operation in a format."""
    return all(wanted in ("", name) for wanted, name in zip(level, cell, strict=False))


def _mean_square(cells: Sequence[Mapping[int, float]]) -> float:
    values = [value for cell in cells for value in cell.values()]
    return sum(v * v for v in values) / len(values)


def _unknown(num_folds: int, num_others: int) -> float:
    """√((t² − 1.645²)·(1 − 1/n²)); other folds count for as many as their mean does."""
    freedom = max(num_folds - 1, 0) + min(_PRIOR_FOLDS, num_others)
    student = _STUDENT[min(max(freedom, 1), len(_STUDENT)) - 1]
    return math.sqrt((student**2 - _NORMAL**2) * (1 - 1 / max(num_folds, 2) ** 2))


def fold_medians(p: Prepared, errors: Floats, fold: Integers) -> _Medians:
    """Median error by (operation, format) and fold."""
    found: defaultdict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    names = sorted({segment[:2] for segment in p.segments})
    cell = np.array([names.index(segment[:2]) for segment in p.segments], dtype=np.int64)[p.segment_index]
    present = np.isfinite(errors) & (fold >= 0)
    for pair in np.unique(cell[present] * (fold.max() + 1) + fold[present]).tolist():
        number, which = divmod(pair, int(fold.max()) + 1)
        mine = errors[present & (cell == number) & (fold == which)]
        if len(mine) >= _LEAST_FOR_MEDIAN:
            found[names[number]][which] = float(np.median(mine))
    return dict(found)


def quantiles(p: Prepared, errors: Floats, fold: Integers, least_folds: int = 1) -> _Table:
    """By level and dominant regime (-1: any); folds count alike."""
    regime, present = p.shares.argmax(axis=1), np.isfinite(errors) & (fold >= 0)
    found: _Table = {}
    by_level: defaultdict[Segment, list[int]] = defaultdict(list)
    for number, segment in enumerate(p.segments):
        for level in coarser(segment):
            by_level[level].append(number)
    for level, numbers in by_level.items():
        inside = present & np.isin(p.segment_index, numbers)
        for wanted in (-1, 0, 1, 2):
            rows = inside & ((regime == wanted) | (wanted < 0))
            last_resort = level == () and wanted == -1 and rows.any()
            many = rows.sum() >= _LEAST_FOR_QUANTILES and len(np.unique(fold[rows])) >= least_folds
            if many or last_resort:
                found[level, wanted] = balanced_quantiles(errors[rows], fold[rows], _WHOLE_FOLD)
    return found


def balanced_quantiles(errors: Floats, fold: Integers, whole: int = 1) -> Span:
    """Quantiles of errors; folds count alike from ``whole`` rows on, smaller ones by their rows."""
    counts = np.maximum(np.bincount(fold), whole)
    weight = 1.0 / counts[fold]
    order = np.argsort(errors, kind="stable")
    position = np.cumsum(weight[order]) / weight.sum()
    low, high = (
        float(errors[order][np.searchsorted(position, q).clip(0, len(errors) - 1)]) for q in _QUANTILES
    )
    return min(low, -0.01), max(high, 0.01)
