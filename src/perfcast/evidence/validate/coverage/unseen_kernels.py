"""Coverage of kernels on devices that were left out, by how near the nearest measured ones then are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.cost.learned.kinship import Kin
from perfcast.cost.learned.store import family_of
from perfcast.evidence.dataset.table import known_files
from perfcast.evidence.train.learned.coverage import JudgedFold, judged_folds
from perfcast.evidence.train.learned.fit import evenly
from perfcast.evidence.train.learned.left_out import leave_out
from perfcast.evidence.train.learned.prepared import Prepared, prepare
from perfcast.evidence.train.learned.train import collect_rows, model_order
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.summary import Scores

#: Of each model of ``learned``: as many as its own training leaves out.
_MOST_ROWS = 40_000
_WORDS: dict[Kin, str] = {
    "family": "an instruction family measured on another generation",
    "vendor": "a generation of a vendor's, others measured",
    "none": "a vendor",
}
_DECADES = ("below 10 us", "10 to 100 us", "0.1 to 1 ms", "1 ms and more")


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    folders = [place for place in places if place.is_dir() and known_files(place)]
    if not folders:
        return ()
    collected = collect_rows(folders)
    most = min(_MOST_ROWS, max(1, max_rows // len(collected)))
    found: list[Scores] = []
    for model in model_order(collected):
        rows, _ = collected[model]
        chosen = evenly(prepare(family_of(model), rows, 1), most)
        say(f"leaving devices out of {model}: {len(chosen)} of {len(rows.seconds)} rows")
        few = prepare(family_of(model), rows.take(chosen), 1)
        found += _scores(few)
    return found


def _scores(p: Prepared) -> Iterator[Scores]:
    for fold in judged_folds(p, leave_out(p)):
        yield _scores_of(p, fold)


def _scores_of(p: Prepared, fold: JudgedFold) -> Scores:
    at = fold.rows
    measured = p.rows.seconds[at]
    predicted = measured * np.exp(-fold.errors)
    low = np.maximum(predicted * np.exp(fold.low), np.minimum(_least(p, at), predicted))
    segments = [p.segments[i] for i in p.segment_index[at].tolist()]
    devices = [p.rows.devices[i].name for i in p.rows.device_index[at].tolist()]
    return Scores(
        predictor="learned",
        labels={
            "device": _words(devices),
            "kind": _words([f"{segment[0]}, {segment[1]}" for segment in segments]),
            "framework": _words([segment[2] for segment in segments]),
            "scale": _decade(measured),
            "split": np.full(len(at), _WORDS[fold.kin], dtype=object),
        },
        predicted=predicted,
        low=low,
        high=predicted * np.exp(fold.high),
        measured=measured,
        skipped=np.zeros(len(at), dtype=np.bool_),
    )


def _least(p: Prepared, at: Integers) -> Floats:
    """Seconds that no kernel falls below, shape [rows]."""
    headroom = np.array([device.clock_headroom for device in p.rows.devices], dtype=np.float64)
    compute = p.physics.compute_seconds[at] * headroom[p.rows.device_index[at]]
    return np.maximum(compute, p.physics.memory_seconds[at])


def _words(values: Sequence[str]) -> Objects:
    return np.array(values, dtype=object)


def _decade(seconds: Floats) -> Objects:
    place = np.searchsorted([1e-5, 1e-4, 1e-3], seconds, side="right")
    return np.array(_DECADES, dtype=object)[place]


UNSEEN_KERNELS = Subject(
    "kernels of unseen devices",
    "fitted again without every architecture, instruction family and vendor in turn; the width that judges a "
    "row comes from the other folds of its kin",
    _score,
)
