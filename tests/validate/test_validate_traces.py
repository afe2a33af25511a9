"""Models recorded and run: what is measured when, what is kept, how errors are added up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfcast.errors import UnknownNameError
from perfcast.validate.suite import Row
from perfcast.validate.trace_models import TRACE_MODELS
from perfcast.validate.trace_parts import make, parts_of, run_seconds
from perfcast.validate.traces import score, validate_traces

MODEL = TRACE_MODELS[0]


def row(model: str, factor: float, predicted: float) -> Row:
    return Row(
        suite="traces", table="t", row=f"{model} {factor}", device="cpu", catalog_device="cpu",
        columns={"model": model, "factor": factor}, predictor="one recording", predicted_seconds=predicted,
        measured_seconds=1.0,
    )  # fmt: skip


def test_eight_models_are_reported_two_recommenders_and_two_with_ranks_among_them():
    reported = [model for model in TRACE_MODELS if model.is_reported]
    assert len(reported) == 8
    assert sum("recommender" in model.kind for model in reported) == 2
    assert sum(model.num_ranks == 2 for model in reported) == 2
    assert len({model.name for model in TRACE_MODELS}) == len(TRACE_MODELS)


def test_the_first_recording_stands_between_two_rounds_of_runs(tmp_path: Path):
    kinds = [(part.batch_size / MODEL.batch_size, part.is_recording) for part in parts_of(MODEL, tmp_path)]
    runs = [(factor, False) for factor in (0.5, 1.0, 2.0, 4.0)]
    assert kinds == [*runs, (1.0, True), *runs, (3.0, True)]


def test_what_is_done_is_not_done_again(tmp_path: Path):
    part = next(parts_of(MODEL, tmp_path))
    part.place.parent.mkdir(parents=True)
    part.place.write_text(json.dumps({"batch_size": 1, "seconds": [3.0, 1.0, 2.0]}))
    said: list[str] = []
    make(part, said.append)
    assert said == []
    assert run_seconds([part]) == 2.0


def test_a_geometric_mean_has_a_floor():
    found = {s.model: s for s in score([row("a", 2, 1.0), row("a", 4, 1.1), row("b", 2, 0.9)])}
    assert found["a"].gmae == pytest.approx((4e-4 * 0.1004) ** 0.5)
    assert dict(found["a"].errors) == pytest.approx({2.0: 0.0, 4.0: 0.1})
    assert found["all"].mape == pytest.approx(0.2 / 3)
    assert found["all"].num_cases == 3


def test_unknown_predictors_are_named(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="one recording"):
        validate_traces(tmp_path, ["guess"])
