"""Fit a family: scalars and residuals, how far to trust them elsewhere, and how sure to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.cost.learned.family import Family
from perfcast.cost.learned.kinship import Segment
from perfcast.cost.learned.predictor import CellError, FittedFamily, Hull, log_sizes, with_codes
from perfcast.cost.learned.trees import KNOWN, KNOWN_OF_FEW, Trees, fit_trees
from perfcast.evidence.train.learned.coverage import cross_coverage
from perfcast.evidence.train.learned.left_out import LeftOut, leave_out
from perfcast.evidence.train.learned.prepared import (
    Prepared,
    TrainingRows,
    architectures_of,
    fit_common,
    prepare,
)
from perfcast.evidence.train.learned.widths import distances, measure_spread

_HELD_OUT = 0.1
_LEAST_FOR_CELL = 10
_MANY_ROWS = 300_000
_SHAPES_KEPT = 24
#: What holds on every device needs fewer rows than what one architecture does.
_ROWS_FOR_COMMON = 40_000


def fit_family(family: Family, rows: TrainingRows, threads: int = 1) -> FittedFamily:
    """Fit everything; ``rows`` must hold at least one device.

    Architectures, instruction families and vendors are left out to choose how far to trust what others tell,
    and to measure the spread on unseen devices; a tenth of the rows, to measure it on known ones.
    """
    prepared = prepare(family, rows, threads)
    fewer = prepare(family, rows.take(evenly(prepared, _ROWS_FOR_COMMON)), threads)
    left = leave_out(fewer)
    scalars, common, _ = fit_common(fewer, np.ones(len(fewer.target), dtype=bool))
    scalars = replace(scalars, trust=left.trust, apart=distances(fewer, left))
    known, held_out = _fit_known(prepared, prepared.offsets(scalars))
    return FittedFamily(
        family=family,
        scalars=scalars,
        common=common,
        shrink=left.shrink,
        known=known,
        architectures=architectures_of(prepared.rows.devices),
        trained=_trained(prepared),
        spread=measure_spread(prepared, held_out, fewer, left),
        hulls=_hulls(prepared),
        errors=_cell_errors(prepared, held_out, fewer, left),
        lean=left.lean,
        coverage=cross_coverage(fewer, left),
    )


def evenly(p: Prepared, most: int) -> Integers:
    """At most ``most`` rows, every device and segment alike."""
    group = p.rows.device_index * len(p.segments) + p.segment_index
    counts = np.bincount(group)
    share = most / max(int((counts > 0).sum()), 1)
    keep = np.random.default_rng(1).random(len(group)) < share / counts[group]
    return np.flatnonzero(keep)


def _trained(p: Prepared) -> frozenset[tuple[int, str, str]]:
    """(architecture code, operation or '', format) of the rows."""
    pairs = np.unique(p.fold * len(p.segments) + p.segment_index)
    found = [(pair // len(p.segments), p.segments[pair % len(p.segments)]) for pair in pairs.tolist()]
    return frozenset((code, name, s[1]) for code, s in found for name in (s[0], ""))


def _fit_known(p: Prepared, offsets: Floats) -> tuple[Trees, Floats]:
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


def _cell_errors(p: Prepared, held_out: Floats, fewer: Prepared, left: LeftOut) -> tuple[CellError, ...]:
    """By operation, format and device; frameworks together."""
    count = _counts(p)
    columns = [_mean_errors(p, held_out)] + [
        _mean_errors(fewer, errors) for errors in (left.alone, left.errors["vendor"], left.errors["none"])
    ]
    return tuple(
        CellError(*cell, count[cell], *(column.get(cell) for column in columns)) for cell in sorted(count)
    )


def _cells(p: Prepared) -> Objects:
    names = [d.name for d in p.rows.devices]
    return np.array(
        [f"{p.segments[s][0]}|{p.segments[s][1]}|{names[d]}" for s, d in
         zip(p.segment_index.tolist(), p.rows.device_index.tolist(), strict=True)], dtype=object,
    )  # fmt: skip


def _counts(p: Prepared) -> dict[tuple[str, str, str], int]:
    names, counts = np.unique(_cells(p).astype(str), return_counts=True)
    return {_cell(name): int(count) for name, count in zip(names.tolist(), counts, strict=True)}


def _mean_errors(p: Prepared, errors: Floats) -> dict[tuple[str, str, str], float]:
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


def _hulls(p: Prepared) -> dict[Segment, Hull]:
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
