"""Host overheads, from recordings of a program to forecasts of the same or another.

The five kinds are those of Lin et al. (TPDS 2024): T1 between operators, T2 before an operator's first
launch, T3 after its last, T4 a launch, T5 between launches. Most of the time lies in the tail (a gap in which
Python does something), so nothing is trimmed: an estimate is a mean.

A mean of few examples is uncertain, so each is drawn towards the coarser one that contains it:

    m(key) = (n · mean(key) + k · m(coarser key)) / (n + k)

with n examples of the key and k the examples that the coarser mean is worth (a normal mean with a normal
prior; k is the ratio of the variance within keys to that between them). Keys from coarse to fine: all; the
operator, for T1 the one that follows; for T1 the pair; that within its marked range; that by how often it
came before in its step, which equal steps have alike. k is chosen by leaving out whole steps, one at a time.
A last factor restores the sum over the recordings fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfcast.errors import CalibrationError
from perfcast.traces.timeline.program import HostPiece, Overhead, RankProgram

Key = tuple[str, ...]
Groups = Sequence[Sequence[HostPiece]]

#: Worths of a coarser mean that are tried, in examples.
STRENGTHS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
DEFAULT_STRENGTH = 0.5
_NORMAL = 1.6449  # 95th percentile


@dataclass(frozen=True, slots=True)
class OverheadMean:
    """Examples of one key: their mean, standard deviation and number."""

    seconds: float
    deviation_seconds: float
    count: int


@dataclass(frozen=True)
class OverheadProfile:
    """What a host needs beside the device.

    Attributes:
        host, framework: Where it was recorded: a processor or machine, and a framework with its version.
        means: By kind and key, coarse and fine ones.
        strengths: Examples that a coarser mean is worth, by kind.
        factors: What restores the sums, by kind.
    """

    host: str
    framework: str
    means: Mapping[Overhead, Mapping[Key, OverheadMean]]
    strengths: Mapping[Overhead, float]
    factors: Mapping[Overhead, float]

    def seconds(self, piece: HostPiece) -> float:
        """The estimate for a piece; 0 for a kind of which there was no example."""
        table, strength = self.means.get(piece.overhead, {}), self.strengths.get(piece.overhead, 0.0)
        return self.factors.get(piece.overhead, 1.0) * _estimate(table, strength, keys_of(piece))

    def deviation_seconds(self, piece: HostPiece) -> float:
        """How examples like a piece differ: those of its range, or of the finest key that several share."""
        table = self.means.get(piece.overhead, {})
        for key in reversed(keys_of(piece)[:-1]):
            known = table.get(key)
            if known is not None and (known.count > 1 or not key):
                return known.deviation_seconds
        return 0.0


def keys_of(piece: HostPiece) -> tuple[Key, ...]:
    """Keys of a piece from coarse to fine; their lengths tell them apart."""
    if piece.overhead is Overhead.BETWEEN:
        before, after = piece.key
        pair = (before, after, piece.where)
        return (), (after,), (before, after), pair, (*pair, f"#{piece.occurrence}")
    (name,) = piece.key
    return (), (name,), (name, piece.where), (name, piece.where, f"#{piece.occurrence}")


def fit_overheads(
    programs: Sequence[RankProgram], *, host: str = "", framework: str = "", strength: float | None = None
) -> OverheadProfile:
    """Fit a profile to recordings; with ``strength`` None and two or more steps, by leaving steps out.

    Raises:
        CalibrationError: No recording.
    """
    groups = [pieces for program in programs for pieces in pieces_by_step(program)]
    if not groups:
        raise CalibrationError("host overheads need at least one recorded step")
    chosen = {}
    for overhead in Overhead:
        own = [[p for p in group if p.overhead is overhead] for group in groups]
        fits = strength is None and len(groups) > 1
        chosen[overhead] = _choose_strength(own) if fits else (strength or DEFAULT_STRENGTH)
    means = {o: _means(p for group in groups for p in group if p.overhead is o) for o in Overhead}
    factors = {
        o: _factor([p for g in groups for p in g if p.overhead is o], means[o], chosen[o]) for o in Overhead
    }
    return OverheadProfile(host, framework, means, chosen, factors)


def apply_overheads(profile: OverheadProfile, program: RankProgram) -> RankProgram:
    """The same program with a profile's host times."""
    return program.with_piece_seconds([profile.seconds(piece) for piece in program.pieces])


def overheads_half_width(profile: OverheadProfile, program: RankProgram) -> float:
    """Of the host's time with a profile's overheads, relative, 90 %: pieces err apart, each as its examples.

    What a program does that the profile knows little of errs by much: its examples are those of coarse keys.
    """
    total = sum(profile.seconds(piece) for piece in program.pieces)
    squares = sum(profile.deviation_seconds(piece) ** 2 for piece in program.pieces)
    return _NORMAL * math.sqrt(squares) / total if total > 0 else 0.0


def pieces_by_step(program: RankProgram) -> list[list[HostPiece]]:
    """Pieces of each recorded step."""
    found: dict[int, list[HostPiece]] = {}
    for piece in program.pieces:
        found.setdefault(piece.step, []).append(piece)
    return list(found.values())


def _means(pieces: Iterable[HostPiece]) -> dict[Key, OverheadMean]:
    sums: dict[Key, list[float]] = {}
    for piece in pieces:
        for key in keys_of(piece):
            total = sums.setdefault(key, [0.0, 0.0, 0.0])
            total[0] += 1
            total[1] += piece.seconds
            total[2] += piece.seconds**2
    result = {}
    for key, (count, first, second) in sums.items():
        mean = first / count
        result[key] = OverheadMean(mean, math.sqrt(max(0.0, second / count - mean**2)), int(count))
    return result


def _estimate(table: Mapping[Key, OverheadMean], strength: float, keys: Sequence[Key]) -> float:
    value = 0.0
    for key in keys:
        known = table.get(key)
        if known is None:
            continue
        worth = strength if key else 0.0
        value = (known.count * known.seconds + worth * value) / (known.count + worth)
    return value


def _factor(pieces: Sequence[HostPiece], table: Mapping[Key, OverheadMean], strength: float) -> float:
    estimated = sum(_estimate(table, strength, keys_of(piece)) for piece in pieces)
    return sum(piece.seconds for piece in pieces) / estimated if estimated > 0 else 1.0


def _choose_strength(groups: Groups) -> float:
    """The worth of a coarser mean that predicts left-out recordings best (least squares)."""
    tables = [
        _means(p for other, g in enumerate(groups) if other != left for p in g) for left in range(len(groups))
    ]
    errors = {
        strength: sum(
            (_estimate(table, strength, keys_of(piece)) - piece.seconds) ** 2
            for table, group in zip(tables, groups, strict=True)
            for piece in group
        )
        for strength in STRENGTHS
    }
    return min(STRENGTHS, key=lambda strength: (errors[strength], strength))
