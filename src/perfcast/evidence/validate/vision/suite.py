"""``validate vision``: measured steps of image models, of whatever tables a folder has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.result import TableResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.evidence.validate.summary import score_rows
from perfcast.evidence.validate.vision.examples import rows as examples

PREDICTORS = ("learned", "roofline")
GROUPS = (
    "all",
    "source",
    "device",
    "mode",
    "dtype",
    "model",
    "size",
    "provenance",
    "skipped",
    "model, mode",
    "model, device",
    "model, mode, dtype",
    "device, mode",
    "memory_format, mode",
    "devices",
)


def validate_vision(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    say: Callable[[str], None] = lambda text: None,
) -> TableResult:
    """Forecast every case by every predictor.

    Args:
        places: Folders of tables, or single tables.
        predictors: Of ``PREDICTORS``; all by default.
        max_rows: Of cases, drawn evenly over model, device, precision and mode.

    Raises:
        InputError: No tables; unknown predictors.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    files = _find(places, examples.FILE)
    if not files:
        raise InputError(f"no {examples.FILE} in {', '.join(map(str, places))}")
    every = [case for path in files for case in examples.example_cases(path)]
    taken = sample(
        every,
        max_rows,
        lambda case: f"{case.row}",
        lambda case: (case.line.source_file, case.catalog_device, case.dtype, case.mode),
    )
    how = "evenly over model, device, precision and mode, by a fixed hash"
    words = describe_sampling(len(every), len(taken), how=how)
    say(words)
    rows = examples.score_examples(taken, names, say)
    return TableResult(
        "vision",
        {"forecast": examples.PROTOCOL, "fitted_on": "no row of these tables", "sampling": words},
        (),
        GROUPS,
        more_rows=tuple(rows),
        more_scores=tuple(score_rows(rows, _labels)),
    )


def _find(places: Sequence[Path], name: str) -> list[Path]:
    found = []
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such file or folder")
        path = place / name if place.is_dir() else place
        if path.name == name and path.is_file():
            found.append(path)
    return found


def _labels(rows: Sequence[Row]) -> dict[str, list[str]]:
    def of(name: str) -> list[str]:
        return [_word(row.columns.get(name)) for row in rows]

    return {
        "model": of("model"),
        "memory_format": of("memory_format"),
        "devices": [f"{row.columns.get('num_devices', 1)} devices" for row in rows],
    }


def _word(value: Any) -> str:
    return "" if value is None else str(value)
