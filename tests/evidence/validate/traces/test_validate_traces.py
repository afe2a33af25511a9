"""Models recorded and run: who takes turns when, at which speed steps are stated, how errors are added up."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from perfcast.errors import TraceError, UnknownNameError
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.traces.models import TRACE_MODELS
from perfcast.evidence.validate.traces.parts import (
    NUM_TURNS,
    StepTimes,
    measure,
    parts_of,
    read_times,
    turn_steps,
)
from perfcast.evidence.validate.traces.program import plain_steps
from perfcast.evidence.validate.traces.speeds import stated_steps
from perfcast.evidence.validate.traces.suite import score, validate_traces
from perfcast.evidence.validate.traces.turns import Turns, ask_for_turns
from perfcast.traces.record.recorder import Recorder, Request

MODEL = TRACE_MODELS[0]


def row(model: str, factor: float, predicted: float) -> Row:
    return Row(
        suite="traces", table="t", row=f"{model} {factor}", device="cpu", catalog_device="cpu",
        columns={"model": model, "factor": factor}, predictor="one recording", predicted_seconds=predicted,
        measured_seconds=1.0,
    )  # fmt: skip


def times(seconds: list[float], probes: list[list[float]], wall: list[float] | None = None) -> StepTimes:
    return StepTimes(8, wall or seconds, seconds, probes, [at // 2 for at in range(len(seconds))])


def test_eight_models_are_reported_two_recommenders_and_two_with_ranks_among_them():
    reported = [model for model in TRACE_MODELS if model.is_reported]
    assert len(reported) == 8
    assert sum("recommender" in model.kind for model in reported) == 2
    assert sum(model.num_ranks == 2 for model in reported) == 2
    assert len({model.name for model in TRACE_MODELS}) == len(TRACE_MODELS)


def test_four_batches_are_run_and_two_recorded(tmp_path: Path):
    kinds = [(part.batch_size / MODEL.batch_size, part.is_recording) for part in parts_of(MODEL, tmp_path)]
    assert kinds == [*((factor, False) for factor in (0.5, 1.0, 2.0, 4.0)), (1.0, True), (3.0, True)]


def test_what_is_done_is_not_done_again(tmp_path: Path):
    (tmp_path / MODEL.name).mkdir()
    said: list[str] = []
    measure(MODEL, tmp_path, said.append)
    assert said == []


def test_times_are_read_as_a_program_writes_them(tmp_path: Path):
    part = parts_of(MODEL, tmp_path)[0]
    wanted = times([0.1, 0.2], [[1.0, 2.0, 3.0]] * 2)
    part.times.parent.mkdir(parents=True, exist_ok=True)
    part.times.write_text(json.dumps(asdict(wanted)), encoding="utf-8")
    assert read_times(part) == wanted


def test_a_turn_is_of_some_steps_or_one_long_one():
    assert [turn_steps(seconds) for seconds in (0.01, 0.05, 0.4)] == [15, 3, 1]


def test_programs_take_the_turns_that_they_are_given(monkeypatch: pytest.MonkeyPatch):
    taken: list[int] = []
    with Turns() as turns:
        for name, value in turns.environment.items():
            monkeypatch.setenv(name, value)
        program = threading.Thread(target=lambda: taken.extend(ask_for_turns("a", 0.5)))
        program.start()
        turns.await_programs(1)
        assert turns.usual_seconds == {"a": 0.5}
        turns.give("a", 3)
        turns.give("a", 4)
        turns.end("a")
        program.join()
    assert taken == [3, 4]


def test_a_program_that_ends_in_its_turn_is_named(monkeypatch: pytest.MonkeyPatch):
    with Turns() as turns:
        for name, value in turns.environment.items():
            monkeypatch.setenv(name, value)

        def ends() -> None:
            asked = ask_for_turns("a", 0.5)
            next(asked)
            asked.close()  # type: ignore[attr-defined]

        program = threading.Thread(target=ends)
        program.start()
        turns.await_programs(1)
        with pytest.raises(TraceError, match="a: the program ended"):
            turns.give("a", 3)
        program.join()


def test_steps_are_plain_where_the_recorder_only_times_them():
    request = Request("unused", num_skipped=2, num_steps=3, num_timed=NUM_TURNS)
    recorder = Recorder(request)
    found = list(plain_steps(request))
    assert found == [recorder._phase(step) in ("before", "after") for step in range(len(found))]
    assert recorder._phase(len(found)) == "done"


def test_without_a_recording_all_steps_are_plain():
    assert list(islice(plain_steps(None), 3)) == [True] * 3


def test_steps_are_stated_for_one_speed_of_the_machine():
    slower = np.array([1.0, 1.0, 1.5, 2.0, 1.2, 1.0, 1.1, 1.7])
    wave = 1 + 0.1 * np.arange(8) % 0.3
    found = stated_steps(
        {
            name: times((own * s).tolist(), np.stack([s, wave, 1 / wave**0.5 * s], axis=1).tolist())
            for name, own, s in (("a", 0.1, slower), ("b", 0.2, slower[::-1] * 1.3))
        },
        1,
    )
    assert found["b"].seconds / found["a"].seconds == pytest.approx(2.0)
    assert found["a"].later_over_earlier == pytest.approx(1.0)


def test_ranks_are_timed_by_their_undisturbed_quarter_on_the_wall():
    probes = np.random.default_rng(0).uniform(1, 2, (8, 3)).tolist()
    own = times([0.1] * 8, probes, [0.12] * 4 + [0.24] * 4)
    assert stated_steps({"a": own}, 2)["a"].seconds == pytest.approx(0.12)
    assert stated_steps({"a": own}, 1)["a"].seconds == pytest.approx(0.1)


def test_a_geometric_mean_has_a_floor():
    found = {s.model: s for s in score([row("a", 2, 1.0), row("a", 4, 1.1), row("b", 2, 0.9)])}
    assert found["a"].gmae == pytest.approx((4e-4 * 0.1004) ** 0.5)
    assert dict(found["a"].errors) == pytest.approx({2.0: 0.0, 4.0: 0.1})
    assert found["all"].mape == pytest.approx(0.2 / 3)
    assert found["all"].num_cases == 3


def test_unknown_predictors_are_named(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="one recording"):
        validate_traces(tmp_path, ["guess"])
