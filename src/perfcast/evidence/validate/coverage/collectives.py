"""Coverage of collectives by the datasheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfcast.evidence.dataset.table import find_tables
from perfcast.evidence.validate.collectives.cases import TABLES
from perfcast.evidence.validate.collectives.suite import validate_collectives
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.summary import Scores


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    files = find_tables(places, TABLES)
    if not files:
        return ()
    result = validate_collectives(files, ("datasheet",), max_rows=max_rows, leave_out=("each",), say=say)
    scores = [part for priced in result.priced for part in priced.scores()]
    return [
        replace(
            part,
            labels={
                "device": part.labels["device"],
                "kind": part.labels["operation"],
                "framework": part.labels.get("framework", np.full(len(part), "", dtype=object)),
                "scale": part.labels["sizes"],
                "split": part.labels["device"],
            },
        )
        for part in scores
    ]


COLLECTIVES = Subject(
    "collectives",
    "constants of collectives chosen without all systems of each row's die; no link was",
    _score,
)
