"""``validate coverage``: how often the truth lies in the 90 % intervals, and how wide those are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.dataset.words import encode
from perfcast.evidence.validate.coverage.subject import DIMENSIONS, Subject
from perfcast.evidence.validate.coverage.subjects import SUBJECTS
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS
from perfcast.evidence.validate.summary import Scores

SUITE = "coverage"
#: What shares of the truth an honest 90 % interval may hold of many rows.
HONEST = (0.85, 0.95)
#: Groups of fewer rows are shown, and say little: chance alone takes them beyond ``HONEST``.
FEW = 20


@dataclass(frozen=True, eq=False)
class CoverageResult:
    """Scores of each subject, in the order of ``SUBJECTS``."""

    protocol: Mapping[str, Any]
    scores: Mapping[str, Sequence[Scores]]
    suite: str = SUITE

    @cached_property
    def summary(self) -> list[dict[str, Any]]:
        """One entry for each subject, dimension and value; dimension 'all' first."""
        return [entry for name, parts in self.scores.items() for entry in summarize_coverage(name, parts)]

    def to_json_rows(self) -> Iterator[dict[str, Any]]:
        """Each judged row: its labels, what was forecast and measured, and whether that was inside."""
        for name, parts in self.scores.items():
            for part in parts:
                yield from _rows(name, part)


def validate_coverage(
    places: Sequence[Path],
    subjects: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    say: Callable[[str], None] = lambda text: None,
) -> CoverageResult:
    """Score the intervals of every subject whose measurements are there.

    Args:
        places: Folders with tables of measurements, or with folders of such; single files.
        subjects: Names; all by default.
        max_rows: Of each subject.

    Raises:
        InputError: An unknown subject, or nothing measured of those that are asked for.
    """
    chosen = _named(subjects)
    inside = [*_with_folders(places)]
    scores = {}
    for subject in chosen:
        say(f"{subject.name}:")
        found = [part for part in subject.score(inside, max_rows, say) if len(part)]
        if found:
            scores[subject.name] = found
    if not scores:
        names = ", ".join(subject.name for subject in chosen)
        raise InputError(f"no measurements of {names} in {', '.join(map(str, places))}")
    return CoverageResult(_protocol([s for s in chosen if s.name in scores], max_rows), scores)


def _named(names: Sequence[str]) -> tuple[Subject, ...]:
    known = {subject.name: subject for subject in SUBJECTS}
    for name in names:
        if name not in known:
            raise UnknownNameError("subject", name, known, f"Known: {', '.join(known)}.")
    return tuple(known[name] for name in names) or SUBJECTS


def _with_folders(places: Sequence[Path]) -> Iterator[Path]:
    """The places, and the folders directly inside them, by name."""
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such file or folder")
        yield place
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if path.is_dir())


def _protocol(subjects: Sequence[Subject], max_rows: int) -> dict[str, Any]:
    return {
        "interval": "90 %: of many rows 85 to 95 % should lie inside",
        "width": "median of high over low",
        "left_out": {subject.name: subject.protocol for subject in subjects},
        "sampling": f"at most {max_rows} rows of each subject, drawn as its own suite draws them",
    }


# ---- groups --------------------------------------------------------------------------------------------


def summarize_coverage(subject: str, parts: Sequence[Scores]) -> list[dict[str, Any]]:
    """Rows, share inside and median width by every dimension that has values; 'all' first.

    Rows without a measurement, a forecast or an interval are not judged.
    """
    judged = np.concatenate([_is_judged(part) for part in parts])
    inside = np.concatenate([part.covered for part in parts])
    widths = np.concatenate([_widths(part) for part in parts])
    entries = [_entry(subject, "all", "all", inside[judged], widths[judged])]
    for dimension in DIMENSIONS:
        words = [part.labels.get(dimension, np.full(len(part), "", dtype=object)) for part in parts]
        values, codes = encode(np.concatenate(words))
        for place, value in enumerate(values):
            mine = judged & (codes == place)
            if value and mine.any():
                entries.append(_entry(subject, dimension, value, inside[mine], widths[mine]))
    return entries


def _is_judged(part: Scores) -> Flags:
    return np.isfinite(part.covered) & np.isfinite(part.high) & (part.low >= 0)


def _widths(part: Scores) -> Floats:
    """High over low; infinite where the low end is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(part.high / part.low, dtype=np.float64)


def _entry(subject: str, dimension: str, value: str, inside: Floats, widths: Floats) -> dict[str, Any]:
    coverage = float(inside.mean()) if len(inside) else None
    width = float(np.median(widths)) if len(widths) else None
    return {
        "subject": subject,
        "group": dimension,
        "value": value,
        "n": len(inside),
        "coverage": coverage,
        "median_width": width if width is not None and np.isfinite(width) else None,
        "is_honest": None if coverage is None or len(inside) < FEW else HONEST[0] <= coverage <= HONEST[1],
    }


def _rows(subject: str, part: Scores) -> Iterator[dict[str, Any]]:
    judged, covered = _is_judged(part), part.covered
    labels = {name: part.labels[name] for name in DIMENSIONS if name in part.labels}
    for at in np.flatnonzero(judged).tolist():
        yield {
            "suite": SUITE,
            "subject": subject,
            **{name: words[at] for name, words in labels.items() if words[at]},
            "predicted": float(part.predicted[at]),
            "low": float(part.low[at]),
            "high": float(part.high[at]),
            "measured": float(part.measured[at]),
            "inside": bool(covered[at]),
        }


def names_of(subjects: Iterable[Subject] = SUBJECTS) -> tuple[str, ...]:
    """Names of all subjects."""
    return tuple(subject.name for subject in subjects)
