"""Coverage of steps of one device: models of the NeuSight study, timm's, and NVIDIA's examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.rows import scores_of_rows
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.steps.cases import STEM
from perfcast.evidence.validate.steps.suite import validate_neusight
from perfcast.evidence.validate.summary import Scores
from perfcast.evidence.validate.vision.suite import holds_vision, validate_vision

#: Steps that are captured; all of them take hours.
_MOST_STEPS = 400
_PREDICTOR = "learned"


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    rows: list[Row] = []
    files = find_tables(places, (STEM,))
    if files:
        rows += validate_neusight(files, (_PREDICTOR,), max_rows=max_rows, say=say).more_rows
    folders = [place for place in places if holds_vision(place)]
    if folders:
        most = min(max_rows, _MOST_STEPS)
        rows += validate_vision(folders, (_PREDICTOR,), max_rows=most, say=say).more_rows
    return scores_of_rows(
        _PREDICTOR,
        [row for row in rows if row.columns.get("num_devices", 1) == 1],
        {
            "device": lambda row: row.catalog_device or row.device,
            "kind": _kind,
            "framework": _program,
            "split": lambda row: row.table,
        },
    )


def _kind(row: Row) -> str:
    return f"{row.mode}, {row.dtype}" + (", compiled" if _is_compiled(row) else "")


def _is_compiled(row: Row) -> bool:
    return row.columns.get("variant") == "fusion" or bool(row.columns.get("compiled"))


def _program(row: Row) -> str:
    return str(row.columns.get("model") or "") if row.table != STEM else "neusight"


ONE_DEVICE_STEPS = Subject("steps of one device", "the shipped widths", _score)
