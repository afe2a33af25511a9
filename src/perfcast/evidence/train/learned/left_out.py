"""Devices left out, by architecture, instruction family and vendor, and what the rest tells of them.

What is left out has a nearest kin among the rest (``kinship``): of an architecture mostly one that runs the
same kernels, of a whole family its vendor's others, of a whole vendor none. How far to trust what the others
tell is chosen for each kin apart: least mean error where devices were left out in the way that it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.machine.instructions import find_family
from perfcast.cost.learned.kinship import (
    KINS,
    Architecture,
    Kin,
    is_alike,
    is_on_matrix,
    nearest_of_family,
)
from perfcast.cost.learned.predictor import with_codes
from perfcast.cost.learned.scalars import DeviceScalars, trust_key
from perfcast.cost.learned.trees import KNOWN_OF_FEW, fit_trees
from perfcast.evidence.train.learned.prepared import Prepared, architectures_of, fit_common

_SHRINKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TRUSTS = (0.0, 0.5, 0.75, 1.0)
_LEANS = (0.0, 0.25, 0.5, 0.75, 1.0)
_Choice = tuple[float, float, float]  # trust, shrink, lean
#: The first stands in where nobody was left out in another's way.
_ORDER: tuple[Kin, ...] = ("vendor", "family", "none", "elsewhere", "architecture")
#: With fewer architectures nothing can be left out.
_LEAST_ARCHITECTURES = 3


@dataclass(frozen=True, eq=False)
class Told:
    """What the others told of the rows of one kin, columns of shape [n]; NaN where they told nothing.

    Attributes:
        offset: u · s of the others' mean, in full trust.
        common: What the common trees say.
        borrowed: What trees that know architectures say of the nearest of its family; NaN for none.
        fold: Which exclusion, -1 for none.
    """

    offset: Floats
    common: Floats
    borrowed: Floats
    fold: Integers

    def left(self, target: Floats, trust: float, shrink: float, lean: float) -> Floats:
        """log(measured / predicted) of each row; NaN where nobody told of it."""
        share = np.where(np.isnan(self.borrowed), 0.0, lean)
        trees = share * np.nan_to_num(self.borrowed) + (1 - share) * shrink * self.common
        return np.asarray(target - trust * self.offset - trees)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What leaving out decided.

    Attributes:
        trust, shrink: By ``trust_key``.
        lean: See ``FittedFamily``.
        errors: log(measured / predicted) of every row by kin, shape [n]; NaN where it was not left out so.
        folds: Which exclusion it was, shape [n]; -1 for none.
        alone: The same with its architecture alone left out, whatever its kin then is.
    """

    trust: dict[str, float]
    shrink: dict[str, float]
    lean: float
    errors: dict[Kin, Floats]
    folds: dict[Kin, Integers]
    alone: Floats


def leave_out(p: Prepared) -> LeftOut:
    """Leave out in every way, and choose."""
    architectures = architectures_of(p.rows.devices)
    if len(architectures) < _LEAST_ARCHITECTURES:
        return _nothing_left_out(p)
    told = {kin: _nobody(len(p.target)) for kin in KINS}
    first = np.full(len(p.target), -1, dtype=np.int64)
    for number, out in enumerate(_exclusions(architectures)):
        for kin, rows in _tell(p, architectures, out, number, told):
            if len(out) == 1:
                first[rows] = KINS.index(kin)
    return _choose(p, told, first)


def _exclusions(architectures: tuple[Architecture, ...]) -> list[frozenset[Architecture]]:
    """Each architecture, each instruction family, each vendor; what would leave nobody is left out."""
    kinds = (lambda a: a, lambda a: (a[0], find_family(*a)), lambda a: a[0])
    found: list[frozenset[Architecture]] = []
    for kind in kinds:
        for label in sorted({kind(a) for a in architectures}):
            out = frozenset(a for a in architectures if kind(a) == label)
            if out not in found and len(out) < len(architectures):
                found.append(out)
    return found


def _tell(
    p: Prepared,
    architectures: tuple[Architecture, ...],
    out: frozenset[Architecture],
    number: int,
    told: dict[Kin, Told],
) -> Iterator[tuple[Kin, Integers]]:
    """Fit without some architectures, and note in ``told`` what that says of them, over smaller ones."""
    is_out = np.isin(p.fold, [architectures.index(a) for a in out])
    scalars, trees, offsets = fit_common(p, ~is_out)
    common = trees.predict(p.physics.features)
    kins = _kins_of(p, scalars, is_out)
    borrowed = np.full(len(p.target), np.nan)
    if len(out) == 1:
        kindred = np.flatnonzero((kins >= 0) & (kins <= KINS.index("family")))
        borrowed[kindred] = _borrow(p, architectures, ~is_out, offsets, kindred)
    for place, kin in enumerate(KINS):
        rows = np.flatnonzero(kins == place)
        one = told[kin]
        one.offset[rows], one.common[rows], one.borrowed[rows] = offsets[rows], common[rows], borrowed[rows]
        one.fold[rows] = number
        yield kin, rows


def _kins_of(p: Prepared, scalars: DeviceScalars, is_out: Flags) -> Integers:
    """Place in ``KINS`` of each row that is left out, -1 of others, shape [n]."""
    pair = p.rows.device_index * len(p.segments) + p.segment_index
    pairs, which = np.unique(pair[is_out], return_inverse=True)
    of_pair = [
        KINS.index(scalars.kin(p.rows.devices[i // len(p.segments)], p.segments[i % len(p.segments)]))
        for i in pairs.tolist()
    ]
    found = np.full(len(pair), -1, dtype=np.int64)
    found[is_out] = np.array(of_pair, dtype=np.int64)[which]
    return found


def _borrow(
    p: Prepared, architectures: tuple[Architecture, ...], chosen: Flags, offsets: Floats, rows: Integers
) -> Floats:
    """What trees that know architectures say of ``rows`` as if they were the nearest of their family."""
    if not len(rows):
        return np.zeros(0)
    features = with_codes(p.physics.features, p.fold)
    rest = (p.target - offsets)[chosen]
    trees = fit_trees(features[chosen], rest, np.ones(len(rest)), KNOWN_OF_FEW, p.threads)
    codes = np.full(len(rows), -1, dtype=np.int64)
    for number in np.unique(p.segment_index[rows]).tolist():
        segment, mine = p.segments[number], p.segment_index[rows] == number
        own = architectures[int(p.fold[rows[mine][0]])]
        if is_on_matrix(segment) or any(is_alike(own, a) for a in architectures if a != own):
            same = [i for i, s in enumerate(p.segments) if s[:2] == segment[:2]]
            seen = np.unique(p.fold[chosen & np.isin(p.segment_index, same)]).tolist()
            nearest = nearest_of_family(own, [architectures[i] for i in seen])
            codes[mine] = -1 if nearest is None else architectures.index(nearest)
    said = trees.predict(with_codes(p.physics.features[rows], codes))
    return np.where(codes >= 0, said, np.nan)


def _nobody(count: int) -> Told:
    nan = np.full(count, np.nan)
    return Told(nan, nan.copy(), nan.copy(), np.full(count, -1, dtype=np.int64))


# ---- choosing ----------------------------------------------------------------------------------------


def _choose(p: Prepared, told: dict[Kin, Told], first: Integers) -> LeftOut:
    weight = p.weights(np.ones(len(p.target), dtype=bool))
    trust: dict[str, float] = {}
    shrink: dict[str, float] = {}
    errors: dict[Kin, Floats] = {}
    chosen: dict[Kin, _Choice] = dict.fromkeys(KINS, (1.0, 0.0, 0.0))
    for kin in _ORDER:
        choices = _choices(_LEANS if kin == "family" else (0.0,))
        losses = _losses(p, told[kin], told[kin].fold >= 0, weight, choices)
        default = (*chosen["vendor"][:2], 0.0)
        chosen[kin] = default if losses is None else choices[int(np.argmin(losses))]
        if kin == "architecture":
            chosen[kin] = (1.0, chosen["vendor"][1], 1.0)  # the very same binaries: believed
        trust[kin], shrink[kin] = chosen[kin][:2]
        errors[kin] = told[kin].left(p.target, *chosen[kin])
        for name, rows in _keys_of(p, told, kin):
            own = _own_choice(p, told[kin], rows, weight, chosen[kin], kin)
            trust[name], shrink[name] = own[:2]
            errors[kin][rows] = told[kin].left(p.target, *own)[rows]
    alone = np.full(len(p.target), np.nan)
    for place, kin in enumerate(KINS):
        alone[first == place] = errors[kin][first == place]
    folds = {kin: told[kin].fold for kin in KINS}
    return LeftOut(trust, shrink, chosen["family"][2], errors, folds, alone)


def _choices(leans: tuple[float, ...]) -> list[_Choice]:
    return [(trust, shrink, lean) for lean in leans for trust in _TRUSTS for shrink in _SHRINKS]


def _keys_of(p: Prepared, told: dict[Kin, Told], kin: Kin) -> Iterator[tuple[str, Flags]]:
    """Keys of ``trust_key`` for which a choice of their own is made, and their rows that were left out."""
    if kin not in ("vendor", "family"):
        return
    keys, key = _trust_keys(p, kin)
    for number, name in enumerate(keys):
        rows = (key == number) & (told[kin].fold >= 0)
        if rows.any():
            yield name, rows


def _own_choice(p: Prepared, told: Told, rows: Flags, weight: Floats, common: _Choice, kin: Kin) -> _Choice:
    """Least mean error of an operation and format.

    Of a family, where mostly two folds tell of it, half of what counts is the mean error of all operations.
    """
    choices = _choices((common[2],))
    losses = _losses(p, told, rows, weight, choices)
    assert losses is not None
    if kin == "family":
        every = _losses(p, told, told.fold >= 0, weight, choices)
        assert every is not None
        losses = losses + every
    return choices[int(np.argmin(losses))]


def _losses(p: Prepared, told: Told, rows: Flags, weight: Floats, choices: list[_Choice]) -> Floats | None:
    """Weighted mean error on ``rows`` of each choice; None for no rows."""
    if not rows.any():
        return None
    found = []
    for choice in choices:
        left = told.left(p.target, *choice)[rows]
        found.append(float(np.abs(np.expm1(-np.clip(left, -3, 3))) @ weight[rows] / weight[rows].sum()))
    return np.array(found)


def _nothing_left_out(p: Prepared) -> LeftOut:
    """Full trust in scalars, none in trees; what scalars leave on the devices themselves for an error."""
    everything = np.ones(len(p.target), dtype=bool)
    alone = p.target - p.offsets(p.scalars(p.target, everything))
    nan, nobody = np.full(len(alone), np.nan), np.full(len(alone), -1, dtype=np.int64)
    names = [*KINS, *_trust_keys(p, "vendor")[0]]
    errors: dict[Kin, Floats] = dict.fromkeys(KINS, nan) | {"vendor": alone}
    folds: dict[Kin, Integers] = dict.fromkeys(KINS, nobody) | {"vendor": p.fold}
    return LeftOut(dict.fromkeys(names, 1.0), dict.fromkeys(names, 0.0), 0.0, errors, folds, alone)


def _trust_keys(p: Prepared, kin: Kin) -> tuple[list[str], Integers]:
    """The different keys of a kin, and which one each row has."""
    pair = p.rows.device_index * len(p.segments) + p.segment_index
    pairs, which = np.unique(pair, return_inverse=True)
    names = [
        trust_key(kin, p.rows.devices[i // len(p.segments)].vendor, p.segments[i % len(p.segments)])
        for i in pairs.tolist()
    ]
    keys, of_pair = np.unique(np.array(names, dtype=str), return_inverse=True)
    return keys.tolist(), of_pair[which].astype(np.int64)
