"""Fit a family: scalars and residuals, how far to trust them elsewhere, and how sure to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelTable
from perfcast.cost.learned.family import Family, Physics
from perfcast.cost.learned.figures import collect_figures
from perfcast.cost.learned.predictor import CellError, FittedFamily, Hull, Spread, log_sizes, with_codes
from perfcast.cost.learned.scalars import (
    Architecture,
    DeviceScalars,
    Segment,
    architecture_of,
    coarser,
    fit_scalars,
    index_segments,
    regime_shares,
    scalar_offsets,
    vendor_key,
)
from perfcast.cost.learned.trees import COMMON, KNOWN, KNOWN_OF_FEW, Trees, TreeSettings, fit_trees

_SHRINKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TRUSTS = (0.0, 0.5, 0.75, 1.0)
_QUANTILES = (0.05, 0.95)
_HELD_OUT = 0.1
_LEAST_FOR_QUANTILES = 40
_LEAST_FOR_CELL = 10
_MANY_ROWS = 300_000
_SHAPES_KEPT = 24
#: What holds on every device needs fewer rows than what one architecture does.
_ROWS_FOR_COMMON = 40_000


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """n measured kernels of one family.

    Attributes:
        device_index: Of each row, into ``devices``.
    """

    kernels: KernelTable
    seconds: Floats
    devices: tuple[Device, ...]
    device_index: Integers

    def take(self, rows: Integers | Flags) -> TrainingRows:
        """Some of the rows; the devices stay."""
        return TrainingRows(
            self.kernels.take(rows), self.seconds[rows], self.devices, self.device_index[rows]
        )


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Rows with everything that does not depend on the fold."""

    rows: TrainingRows
    physics: Physics
    target: Floats
    shares: Floats
    segments: list[Segment]
    segment_index: Integers
    fold: Integers
    threads: int

    def scalars(self, residual: Floats, chosen: Flags) -> DeviceScalars:
        return fit_scalars(
            residual[chosen], self.shares[chosen], self.rows.device_index[chosen],
            self.rows.devices, self.segments, self.segment_index[chosen],
        )  # fmt: skip

    def offsets(self, scalars: DeviceScalars) -> Floats:
        return scalar_offsets(
            scalars, self.shares, self.rows.device_index, self.rows.devices,
            self.segments, self.segment_index,
        )[0]  # fmt: skip

    def weights(self, chosen: Flags) -> Floats:
        """Every architecture counts alike, and within it every segment by the root of its rows."""
        weight = np.zeros(len(self.target))
        for fold in np.unique(self.fold[chosen]).tolist():
            mine = chosen & (self.fold == fold)
            counts = np.bincount(self.segment_index[mine], minlength=len(self.segments))
            weight[mine] = 1.0 / np.sqrt(counts[self.segment_index[mine]])
            weight[mine] /= weight[mine].sum()
        return np.asarray(weight * chosen.sum() / max(weight.sum(), 1e-300))


def fit_family(family: Family, rows: TrainingRows, threads: int = 1) -> FittedFamily:
    """Fit everything; ``rows`` must hold at least one device.

    Devices are left out by architecture to choose the shrinkage of the common residual and to measure
    the spread on unseen devices; a tenth of the rows, to measure it on known ones.
    """
    prepared = _prepare(family, rows, threads)
    fewer = _prepare(family, rows.take(_evenly(prepared, _ROWS_FOR_COMMON)), threads)
    trust, shrink, unseen = _leave_out(fewer)
    scalars, common, _ = _fit_common(fewer, np.ones(len(fewer.target), dtype=bool))
    scalars = replace(scalars, trust=trust)
    known, held_out = _fit_known(prepared, prepared.offsets(scalars))
    architectures = _architectures(prepared.rows.devices)
    return FittedFamily(
        family=family,
        scalars=scalars,
        common=common,
        shrink=shrink,
        known=known,
        architectures=architectures,
        trained=_trained(prepared),
        spread=Spread(
            known=_quantiles(prepared, held_out, prepared.fold),
            unseen=_quantiles(fewer, unseen, fewer.fold),
        ),
        hulls=_hulls(prepared),
        errors=_cell_errors(prepared, held_out, fewer, unseen),
    )


def _prepare(family: Family, rows: TrainingRows, threads: int) -> _Prepared:
    figures = collect_figures(rows.devices, rows.device_index, rows.kernels.word("dtype"))
    physics = family.describe(rows.kernels, figures)
    segments, segment_index = index_segments(rows.kernels)
    architectures = _architectures(rows.devices)
    of_device = np.array([architectures.index(architecture_of(d)) for d in rows.devices])
    return _Prepared(
        rows=rows,
        physics=physics,
        target=np.log(rows.seconds / physics.seconds),
        shares=regime_shares(physics),
        segments=segments,
        segment_index=segment_index,
        fold=of_device[rows.device_index],
        threads=threads,
    )


def _evenly(p: _Prepared, most: int) -> Integers:
    """At most ``most`` rows, every device and segment alike."""
    group = p.rows.device_index * len(p.segments) + p.segment_index
    counts = np.bincount(group)
    share = most / max(int((counts > 0).sum()), 1)
    keep = np.random.default_rng(1).random(len(group)) < share / counts[group]
    return np.flatnonzero(keep)


def _architectures(devices: Sequence[Device]) -> tuple[Architecture, ...]:
    return tuple(sorted({architecture_of(d) for d in devices}))


def _trained(p: _Prepared) -> frozenset[tuple[int, str, str]]:
    """(architecture code, operation or '', format) of the rows."""
    pairs = np.unique(p.fold * len(p.segments) + p.segment_index)
    found = [(pair // len(p.segments), p.segments[pair % len(p.segments)]) for pair in pairs.tolist()]
    return frozenset((code, name, s[1]) for code, s in found for name in (s[0], ""))


def _fit_common(
    p: _Prepared, chosen: Flags, settings: TreeSettings = COMMON
) -> tuple[DeviceScalars, Trees, Floats]:
    """Scalars and common trees in turn, each on what the other leaves."""
    weight, residual = p.weights(chosen), np.zeros(len(p.target))
    for _ in range(2):
        scalars = p.scalars(p.target - residual, chosen)
        offsets = p.offsets(scalars)
        trees = fit_trees(
            p.physics.features[chosen], (p.target - offsets)[chosen], weight[chosen], settings, p.threads
        )
        residual = trees.predict(p.physics.features)
    # Scalars go without the trees, whose part in them is the shrinkage's to decide.
    scalars = p.scalars(p.target, chosen)
    return scalars, trees, p.offsets(scalars)


def _leave_out(p: _Prepared) -> tuple[dict[str, float], dict[str, float], Floats]:
    """Best trust in the others' scalars and shrinkage of the common trees on architectures left out.

    Returns both by ``vendor_key``, and log(measured / predicted) of every row, its architecture left out.
    """
    folds = np.unique(p.fold).tolist()
    keys, key = _vendor_keys(p)
    if len(folds) < 3:
        everything = np.ones(len(p.target), dtype=bool)
        alone = p.target - p.offsets(p.scalars(p.target, everything))
        return dict.fromkeys(keys, 1.0), dict.fromkeys(keys, 0.0), alone
    choices = [(trust, shrink) for trust in _TRUSTS for shrink in _SHRINKS]
    left = np.zeros((len(choices), len(p.target)))
    for fold in folds:
        chosen, out = p.fold != fold, p.fold == fold
        _, trees, offsets = _fit_common(p, chosen)
        residual = trees.predict(p.physics.features[out])
        for number, (trust, shrink) in enumerate(choices):
            left[number, out] = p.target[out] - trust * offsets[out] - shrink * residual
    weight = p.weights(np.ones(len(p.target), dtype=bool))
    trusts, shrinks, best = {}, {}, np.zeros(len(p.target))
    for number, name in enumerate(keys):
        rows = key == number
        errors = np.abs(np.expm1(-np.clip(left[:, rows], -3, 3))) @ weight[rows]
        chosen_one = int(np.argmin(errors))
        trusts[name], shrinks[name] = choices[chosen_one]
        best[rows] = left[chosen_one, rows]
    return trusts, shrinks, best


def _vendor_keys(p: _Prepared) -> tuple[list[str], Integers]:
    """The different vendor keys, and which one each row has."""
    pair = p.rows.device_index * len(p.segments) + p.segment_index
    pairs, which = np.unique(pair, return_inverse=True)
    names = [
        vendor_key(p.rows.devices[i // len(p.segments)].vendor, p.segments[i % len(p.segments)])
        for i in pairs.tolist()
    ]
    keys, of_pair = np.unique(np.array(names, dtype=str), return_inverse=True)
    return keys.tolist(), of_pair[which].astype(np.int64)


def _fit_known(p: _Prepared, offsets: Floats) -> tuple[Trees, Floats]:
    """Trees that know the architecture, and log(measured / predicted) where a row was held out (else NaN).

    The rows held out stay out: what the interval was measured on is what is shipped.
    """
    features = with_codes(p.physics.features, p.fold)
    held = np.random.default_rng(0).random(len(p.target)) < _HELD_OUT
    target, weight = p.target - offsets, np.ones(len(p.target))
    settings = KNOWN if len(target) >= _MANY_ROWS else KNOWN_OF_FEW
    trees = fit_trees(features[~held], target[~held], weight[~held], settings, p.threads)
    spread = np.full(len(p.target), np.nan)
    spread[held] = target[held] - trees.predict(features[held])
    return trees, spread


def _quantiles(
    p: _Prepared, errors: Floats, fold: Integers
) -> dict[tuple[Segment, int], tuple[float, float]]:
    """By level and dominant regime (-1: any); architectures count alike."""
    regime, present = p.shares.argmax(axis=1), np.isfinite(errors)
    found: dict[tuple[Segment, int], tuple[float, float]] = {}
    by_level: defaultdict[Segment, list[int]] = defaultdict(list)
    for number, segment in enumerate(p.segments):
        for level in coarser(segment):
            by_level[level].append(number)
    for level, numbers in by_level.items():
        inside = present & np.isin(p.segment_index, numbers)
        for wanted in (-1, 0, 1, 2):
            rows = inside & ((regime == wanted) | (wanted < 0))
            if rows.sum() >= _LEAST_FOR_QUANTILES or (level == () and wanted == -1 and rows.any()):
                found[level, wanted] = _balanced_quantiles(errors[rows], fold[rows])
    return found


def _balanced_quantiles(errors: Floats, fold: Integers) -> tuple[float, float]:
    counts = np.bincount(fold)
    weight = 1.0 / counts[fold]
    order = np.argsort(errors, kind="stable")
    position = np.cumsum(weight[order]) / weight.sum()
    low, high = (
        float(errors[order][np.searchsorted(position, q).clip(0, len(errors) - 1)]) for q in _QUANTILES
    )
    return min(low, -0.01), max(high, 0.01)


def _cell_errors(p: _Prepared, held_out: Floats, fewer: _Prepared, unseen: Floats) -> tuple[CellError, ...]:
    """By operation, format and device; frameworks together."""
    known, count = _mean_errors(p, held_out), _counts(p)
    left_out = _mean_errors(fewer, unseen)
    return tuple(CellError(*cell, count[cell], known.get(cell), left_out.get(cell)) for cell in sorted(count))


def _cells(p: _Prepared) -> Objects:
    names = [d.name for d in p.rows.devices]
    return np.array(
        [f"{p.segments[s][0]}|{p.segments[s][1]}|{names[d]}" for s, d in
         zip(p.segment_index.tolist(), p.rows.device_index.tolist(), strict=True)], dtype=object,
    )  # fmt: skip


def _counts(p: _Prepared) -> dict[tuple[str, str, str], int]:
    names, counts = np.unique(_cells(p).astype(str), return_counts=True)
    return {_cell(name): int(count) for name, count in zip(names.tolist(), counts, strict=True)}


def _mean_errors(p: _Prepared, errors: Floats) -> dict[tuple[str, str, str], float]:
    present = np.isfinite(errors)
    names, which = np.unique(_cells(p)[present].astype(str), return_inverse=True)
    relative = np.abs(np.expm1(-np.clip(errors[present], -3, 3)))
    counts = np.bincount(which)
    means = np.bincount(which, weights=relative) / np.maximum(counts, 1)
    return {
        _cell(name): round(float(mean), 4)
        for name, mean, n in zip(names.tolist(), means, counts, strict=True)
        if n >= _LEAST_FOR_CELL
    }


def _cell(name: str) -> tuple[str, str, str]:
    operation, dtype, device = name.split("|")
    return operation, dtype, device


def _hulls(p: _Prepared) -> dict[Segment, Hull]:
    sizes, hulls = log_sizes(p.rows.kernels), {}
    for number, segment in enumerate(p.segments):
        rows = np.flatnonzero(p.segment_index == number)
        kept = rows[np.linspace(0, len(rows) - 1, min(len(rows), _SHAPES_KEPT)).astype(np.int64)]
        names = sorted({p.rows.devices[i].name for i in np.unique(p.rows.device_index[rows]).tolist()})
        owner = [names.index(p.rows.devices[i].name) for i in p.rows.device_index[kept].tolist()]
        hulls[segment] = Hull(
            low=sizes[rows].min(axis=0), high=sizes[rows].max(axis=0), devices=tuple(names),
            shapes=sizes[kept], shape_device=np.array(owner, dtype=np.int64),
        )  # fmt: skip
    return hulls
