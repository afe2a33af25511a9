"""Coverage of steps forecast from recordings: steps left out, and the same model on another device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.errors import InputError
from perfcast.evidence.validate.coverage.rows import scores_of_rows
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.recordings.elsewhere import LEFT_OUT
from perfcast.evidence.validate.recordings.left_out import OTHERS, OWN_WORK
from perfcast.evidence.validate.recordings.suite import validate_recordings
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.summary import Scores

#: Folders that hold recordings, below one that holds all data.
_FOLDERS = ("tracelens", "hta")


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    folders = [place / name for place in places for name in _FOLDERS if (place / name).is_dir()]
    if not folders:
        return ()
    try:
        rows = validate_recordings(folders, (LEFT_OUT, OWN_WORK, OTHERS), max_rows=max_rows, say=say).rows
    except InputError:
        return ()
    return [
        scores
        for name in (LEFT_OUT, OWN_WORK, OTHERS)
        for scores in scores_of_rows(
            name,
            rows,
            {
                "device": lambda row: row.device,
                "kind": _kind,
                "split": lambda row: str(row.columns.get("recording") or row.columns.get("model")),
            },
        )
    ]


def _kind(row: Row) -> str:
    return f"another device: {row.operation}" if row.predictor == LEFT_OUT else str(row.operation)


RECORDED_STEPS = Subject(
    "recorded steps",
    "each step from those recorded before it, from those after it, and by the host of all others; a model's "
    "step on one device from its recording on another, constants of kernels fitted without the model. How "
    "far steps differ was set on the same recordings",
    _score,
)
