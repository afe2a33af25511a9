"""Steps of processors from one recorded configuration to another. Times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import CalibrationError
from perfcast.published.multi_gpu_2024.on_processor import (
    RecordedStep,
    fit_processor,
    forecast_programs,
)
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording

RANKS = 2
FLOATS = ["float", "float"]
#: What a rank's thread is busy: 100 + 20 + 280 in operators, 30 + 100 of gaps without the wait.
BUSY = 430 * MICRO


def step(rows: int, product: float, noise: float = 0.0) -> list[Recording]:
    """A product of ``rows`` rows, a gap of 30, a collective that is awaited, an addition."""
    recordings = []
    for rank in range(RANKS):
        recording = Recording(rank, world_size=RANKS)
        recording.step(1, 0, product + 900 + noise)
        recording.operator("aten::mm", 0, product, Input_Dims=[[rows, 64], [64, 64]], Input_type=FLOATS)
        asked = product + 30
        recording.operator("c10d::alltoall_base_", asked, 20)
        recording.mark("gloo:all_to_all", asked + 10, 390, thread=2)
        recording.operator(
            "aten::add",
            asked + 500,
            280 + noise,
            Input_Dims=[[rows, 64], [rows, 64], []],
            Input_type=[*FLOATS, "Scalar"],
        )
        recordings.append(recording)
    return recordings


@pytest.fixture
def read(tmp_path: Path):
    def found(*arguments) -> RecordedStep:
        traces = tuple(recording.read(tmp_path) for recording in step(*arguments))
        return RecordedStep(traces, build_ranks(traces))

    return found


def test_the_recorded_configuration_comes_out_as_long_as_it_ran_unrecorded(read):
    recorded = read(128, 100)
    model = fit_processor([recorded], [BUSY] * RANKS, lambda name, size: 390 * MICRO)
    programs = forecast_programs(model, recorded.traces, recorded.programs, lambda name, size: 390 * MICRO)
    assert sum(piece.seconds for piece in programs[0].pieces) == pytest.approx(BUSY, rel=0.02)


def test_an_operator_of_twice_the_size_takes_longer_and_the_others_own_times_do_not_count(read):
    recorded, other = read(128, 100), read(256, 100_000)
    model = fit_processor([recorded], [BUSY] * RANKS, lambda name, size: 390 * MICRO)

    def played(one: RecordedStep) -> float:
        ranks = forecast_programs(model, one.traces, one.programs, lambda name, size: 390 * MICRO)
        return play_ranks(ranks).step_seconds[0]

    assert 1.1 * played(recorded) < played(other) < 2 * played(recorded)


def test_one_slow_step_of_three_does_not_count(read):
    quiet, loud = read(128, 100), read(128, 100, 5000)

    def curve(name: str, size: float) -> float:
        return 390 * MICRO

    alone = fit_processor([quiet], [BUSY] * RANKS, curve)
    among = fit_processor([quiet, loud, quiet], [BUSY] * RANKS, curve)
    assert among.lines["aten::add"] == alone.lines["aten::add"]


def test_collectives_take_what_those_of_their_kind_took_over_what_was_measured_apart(read):
    recorded = read(128, 100)
    model = fit_processor([recorded], [BUSY] * RANKS, lambda name, size: 130 * MICRO)
    assert model.collective_factors == {"all_to_all": pytest.approx(3)}
    programs = forecast_programs(model, recorded.traces, recorded.programs, lambda name, size: 200 * MICRO)
    assert programs[0].works[0].seconds == pytest.approx(600 * MICRO)


def test_nothing_recorded_is_said():
    with pytest.raises(CalibrationError, match="nothing was recorded"):
        fit_processor([], [BUSY], lambda name, size: 0.0)
