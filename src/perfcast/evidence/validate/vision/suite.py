"""``validate vision``: measured steps of image models, of whatever tables a folder has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.result import TableResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.evidence.validate.summary import score_rows
from perfcast.evidence.validate.vision.examples import rows as examples
from perfcast.evidence.validate.vision.examples.cases import ExampleCase
from perfcast.evidence.validate.vision.timm_steps import cases as timm_cases
from perfcast.evidence.validate.vision.timm_steps import rows as timm_rows
from perfcast.evidence.validate.vision.timm_steps.cases import TimmCase, family_of

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
    "compiled, mode",
    "device, mode, memory_format, compiled",
    "family, mode",
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
    every = _read(places)
    taken = sample(every, max_rows, lambda case: f"{case.row}", _stratum)
    how = (
        "evenly over table, model (timm: family), device, precision, memory format and mode, by a fixed hash"
    )
    words = describe_sampling(len(every), len(taken), how=how)
    say(words)
    rows = [
        *examples.score_examples([case for case in taken if isinstance(case, ExampleCase)], names, say),
        *timm_rows.score_timm([case for case in taken if isinstance(case, TimmCase)], names, say),
    ]
    return TableResult(
        "vision",
        {
            "forecast": [examples.PROTOCOL, timm_rows.PROTOCOL],
            "fitted_on": "nvidia_examples: EfficientNet at batch 1 (the host alone); timm: eager "
            "half-precision rows of the published table",
            "sampling": words,
        },
        (),
        GROUPS,
        more_rows=tuple(rows),
        more_scores=tuple(score_rows(rows, _labels)),
    )


def holds_vision(place: Path) -> bool:
    """Whether a folder or file is, or has, a table of this suite."""
    return bool(find_tables([place], (timm_cases.STEM,)) or _find([place], examples.FILE))


def _read(places: Sequence[Path]) -> list[ExampleCase | TimmCase]:
    tables, lines = find_tables(places, (timm_cases.STEM,)), _find(places, examples.FILE)
    if not tables and not lines:
        raise InputError(
            f"no {examples.FILE} and no {timm_cases.STEM}.csv.gz in {', '.join(map(str, places))}"
        )
    return [
        *(case for path in lines for case in examples.example_cases(path)),
        *(case for path in tables for case in timm_cases.read_cases(path)),
    ]


def _stratum(case: ExampleCase | TimmCase) -> tuple[object, ...]:
    if isinstance(case, ExampleCase):
        return (case.line.source_file, case.catalog_device, case.dtype, case.mode)
    named = ("device", "dtype", "mode", "memory_format", "compiled")
    return (timm_cases.STEM, case.family, *(str(case.columns.get(name)) for name in named))


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
        "compiled": [
            "compiled" if row.columns.get("compiled") in (True, "True") else "eager" for row in rows
        ],
        "family": [family_of(str(row.columns.get("model") or "")) for row in rows],
        "devices": [f"{row.columns.get('num_devices', 1)} devices" for row in rows],
    }


def _word(value: Any) -> str:
    return "" if value is None else str(value)
