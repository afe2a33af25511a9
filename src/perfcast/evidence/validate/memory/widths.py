"""Widths of a footprint's interval: quantiles of measured over estimated peaks, by what these consist of.

Each side of ``memory_use.footprint.spread`` is fitted by the pinball loss of ln(measured / estimated) at
``TAIL``, the proper score of a quantile (Koenker and Bassett, Econometrica 1978); a source of n lines counts
√n times as much as one of a single line. ``TAIL`` is beyond 95 %, so that nine in ten of the lines of a group
that was left out lie inside, and not nine in ten of those that were fitted to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.forecast import Predictor, footprint_of, measured_terms
from perfcast.memory_use.footprint.spread import (
    ANY,
    CAPTURED,
    SERVING,
    Side,
    Spread,
    bytes_by_kind,
    load_spread,
    spread_name,
)

#: Of each side.
TAIL = 0.97
#: Of a framework, for widths of its own.
FEWEST_PEAKS = 20
_START = (np.log([5e7, 0.05, 0.1, 0.1]), np.log([1e8, 0.02, 0.2, 0.4]))
_MOST_STEPS = 3000


@dataclass(frozen=True, eq=False)
class WidthRow:
    """A measured peak and what its estimate consists of.

    Attributes:
        fold: What leaves with it where it is left out.
        num_bytes: Of ``TERM_KINDS``, shape [3].
        ratio: Measured over estimated; of a reserve, without what reserves have over peaks.
    """

    framework: str
    source: str
    fold: str
    num_bytes: Floats
    ratio: float


def fold_of(case: MemoryCase) -> str:
    """The group that a case is left out with: its source's runs on one device, of one model or strategy."""
    words = case.configuration
    if case.source == "galvatron":
        return f"galvatron, pp {words.get('pp')}"
    within = words.get("model") if case.source == "usp" else case.catalog_device
    return f"{case.source}, {within}"


def width_rows(cases: Sequence[MemoryCase], predictor: Predictor, reserved: float) -> list[WidthRow]:
    """Rows of the measured peaks, steady states, parts and reserves that say which attention ran.

    Args:
        reserved: Over allocated, median.
    """
    found = []
    for case in cases:
        if case.run is None or not case.measured_bytes or case.metric == "outcome":
            continue
        if case.metric == "allocated" and not states_attention(case):
            continue
        footprint = footprint_of(case, predictor)
        if isinstance(footprint, str):
            continue
        row = bytes_by_kind(measured_terms(footprint, case))
        measured = float(case.measured_bytes)
        if case.metric == "reserved":
            context = footprint.context_bytes if case.measured_by == "nvidia-smi" else 0
            measured = (measured - context) / reserved
        if row.sum() > 0 and measured > 0:
            framework = case.run.training.framework
            found.append(WidthRow(framework, case.source, fold_of(case), row, measured / float(row.sum())))
    return found


def states_attention(case: MemoryCase) -> bool:
    """Whether the table says which attention ran, where it has a column for it.

    Rows that do not say differ by up to twice with all else equal; a user states what will run.
    """
    return case.configuration.get("attention_backend", "stated") not in (None, "")


def fit_spreads(
    rows: Sequence[WidthRow], fitted: Sequence[str], reserved: tuple[float, float]
) -> dict[str, Spread]:
    """Spreads by framework; those of captured programs and of what answers are carried over.

    Args:
        fitted: Frameworks whose footprint has figures that were fitted: they have widths of their own.
        reserved: Median and 95th percentile of reserved over allocated.
    """
    found = {name: _fit_spread(mine, reserved) for name, mine in _groups(rows, fitted).items()}
    for name in (CAPTURED, SERVING):
        found[name] = replace(load_spread(name), reserved=reserved[0], reserved_high=reserved[1])
    return _no_surer(found, fitted)


def spreads_without_each(
    rows: Sequence[WidthRow], fitted: Sequence[str], reserved: tuple[float, float]
) -> dict[str, dict[str, Spread]]:
    """``fit_spreads`` without each fold in turn; what does not lose a row is fitted once."""
    whole, groups = fit_spreads(rows, fitted, reserved), _groups(rows, fitted)
    found = {}
    for fold in sorted({row.fold for row in rows}):
        left = _groups([row for row in rows if row.fold != fold], fitted)
        spreads = {name: whole[name] for name in (CAPTURED, SERVING)} | {
            name: whole[name] if mine == groups.get(name) else _fit_spread(mine, reserved)
            for name, mine in left.items()
        }
        found[fold] = _no_surer(spreads, fitted)
    return found


def _no_surer(spreads: dict[str, Spread], fitted: Sequence[str]) -> dict[str, Spread]:
    """Of no part is a framework that nobody measured surer than the surest that was."""
    own = [spreads[name] for name in fitted if name in spreads]
    if not own:
        return spreads
    least = [
        Side(*np.min([astuple(getattr(spread, end)) for spread in own], axis=0).tolist())
        for end in ("below", "above")
    ]
    below, above = (
        Side(*np.maximum(astuple(mine), astuple(floor)).tolist())
        for mine, floor in zip((spreads[ANY].below, spreads[ANY].above), least, strict=True)
    )
    return spreads | {ANY: replace(spreads[ANY], below=below, above=above)}


def _groups(rows: Sequence[WidthRow], fitted: Sequence[str]) -> dict[str, list[WidthRow]]:
    """Rows by whose widths they decide; too few for a framework's own decide those of any."""
    own = {name: [row for row in rows if spread_name(row.framework, {name: 0}) == name] for name in fitted}
    own = {name: mine for name, mine in own.items() if len(mine) >= FEWEST_PEAKS}
    others = [row for row in rows if spread_name(row.framework, own) == ANY]
    return {**own, ANY: others if len(others) >= FEWEST_PEAKS else list(rows)}


def _fit_spread(rows: Sequence[WidthRow], reserved: tuple[float, float]) -> Spread:
    return Spread(_fit_side(rows, -1), _fit_side(rows, 1), *reserved)


def to_json(spreads: Mapping[str, Spread]) -> dict[str, Any]:
    """What ``memory_use/data/footprint_spread.json`` holds."""
    return {name: asdict(spread) for name, spread in spreads.items()}


def _fit_side(rows: Sequence[WidthRow], sign: int) -> Side:
    """The side above (1) or below (-1) the estimate."""
    from scipy.optimize import minimize

    num_bytes = np.array([row.num_bytes for row in rows])
    errors = sign * np.log([row.ratio for row in rows])
    counts = Counter(row.source for row in rows)
    weights = np.array([counts[row.source] ** -0.5 for row in rows])

    def loss(logs: Floats) -> float:
        beyond = errors - np.log1p(_side(logs).shares(num_bytes))
        return float(weights @ np.where(beyond > 0, TAIL * beyond, (TAIL - 1) * beyond))

    found = [
        minimize(loss, start, method="Nelder-Mead", options={"maxiter": _MOST_STEPS, "fatol": 1e-8})
        for start in _START
    ]
    return _side(min(found, key=lambda one: float(one.fun)).x, digits=3)


def _side(logs: Floats, digits: int | None = None) -> Side:
    """A side from logarithms; what is next to nothing is nothing."""
    fixed, *shares = np.exp(logs).tolist()
    if digits is not None:
        fixed = float(f"{fixed:.{digits}g}") if fixed > 1e4 else 0.0
        shares = [float(f"{share:.{digits}g}") if share > 1e-4 else 0.0 for share in shares]
    return Side(fixed, 0.0, *shares)
