"""Coverage of deployments under load: times to the first and of further tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.coverage.rows import scores_of_rows
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.serving.cases import TABLE
from perfcast.evidence.validate.serving.suite import clients_of, validate_serving
from perfcast.evidence.validate.summary import Scores

#: Points that are played; all take a quarter of an hour.
_MOST_POINTS = 400
_PREDICTOR = "events"


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, (TABLE,))
    if not files:
        return ()
    result = validate_serving(files, (_PREDICTOR,), max_rows=min(max_rows, _MOST_POINTS), say=say)
    rows = [row for row in result.more_rows if row.columns.get("half") == "reported"]
    return scores_of_rows(
        _PREDICTOR,
        rows,
        {
            "device": lambda row: row.device,
            "kind": _kind,
            "framework": lambda row: row.framework or "",
            "scale": lambda row: f"{clients_of(row.columns.get('concurrency'))} clients",
            "split": lambda row: "the fitted half of the configurations",
        },
    )


def _kind(row: Row) -> str:
    pools = "two pools" if str(row.mode).startswith("disagg") else "one pool"
    return f"{row.operation}, {pools}"


SERVING_POINTS = Subject(
    "serving",
    "widths from the half of the configurations that is not shown here (perfcast train serving)",
    _score,
)
