"""Constants of serving from made-up points."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.evidence.train.serving.fit import (
    FittedPoint,
    added_seconds,
    fit_points,
    fit_serving,
    fit_spread,
    format_constants,
)
from perfcast.prediction.serving.constants import parse_serving_constants


def point(ttft: float, *, added: float = 0.03, is_split: bool = False, tpot: float = 1.0) -> FittedPoint:
    """Measured ``added`` later than forecast; tokens ``tpot`` times as long."""
    return FittedPoint(
        framework="vllm",
        is_split=is_split,
        is_sure=True,
        is_stated=False,
        forecast={"ttft": ttft, "tpot": 0.01, "e2e": ttft + 1.0},
        measured={"ttft": ttft + added, "tpot": 0.01 * tpot, "e2e": ttft + added + tpot},
        steps_low=0.8,
        steps_high=1.25,
    )


SERVERS = [point(0.02 * count) for count in range(1, 30)]


def test_seconds_of_a_request_are_what_first_tokens_lack() -> None:
    assert added_seconds(SERVERS, 0.0) == pytest.approx(0.03, rel=0.05)
    assert added_seconds(SERVERS, 0.03) == pytest.approx(0.0, abs=2e-3)
    assert added_seconds(SERVERS[:3], 0.0) == 0.0


def test_a_hand_over_is_what_two_pools_lack_beyond_a_request() -> None:
    pools = [point(0.02 * count, added=0.13, is_split=True) for count in range(1, 30)]
    found = fit_points([*SERVERS, *pools], 2)
    assert found.request_seconds["vllm"] == pytest.approx(0.03, rel=0.05)
    assert found.handover_seconds["vllm"] == pytest.approx(0.10, rel=0.05)


def test_spreads_hold_nine_of_ten_beside_the_steps_interval() -> None:
    points = [point(1.0, added=0.0, tpot=math.exp(0.4 * place / 100)) for place in range(-100, 101)]
    alone = fit_spread(points, [0.0] * len(points), "tpot", 0.0)
    assert (alone.low, alone.high) == (
        pytest.approx(math.exp(-0.36), rel=0.01),
        pytest.approx(math.exp(0.36), rel=0.01),
    )
    beside = fit_spread(points, [0.0] * len(points), "tpot", 1.0)
    assert math.hypot(math.log(beside.high), math.log(1.25)) == pytest.approx(0.36, rel=0.01)
    assert alone.high > beside.high


def test_two_pools_have_a_spread_of_their_own() -> None:
    pools = [
        point(1.0, added=0.0, tpot=math.exp(0.4 * place / 20), is_split=True) for place in range(-20, 21)
    ]
    found = fit_points([*SERVERS, *pools], 2)
    assert found.spreads_of_two_pools["tpot"].high > 1.2
    assert found.spreads["tpot"].high == pytest.approx(1.0, abs=0.01)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    fitted = fit_points(SERVERS, 1)
    (tmp_path / "constants.toml").write_text(format_constants(fitted), encoding="utf-8")
    found = parse_serving_constants(tmp_path / "constants.toml")
    assert found.request_seconds["vllm"] == pytest.approx(fitted.request_seconds["vllm"], rel=0.01)
    assert found.steps_share == fitted.steps_share
    assert found.spreads["time_to_first_token"].high == pytest.approx(fitted.spreads["ttft"].high, rel=0.01)


def test_nothing_to_fit_to_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 points"):
        fit_serving([tmp_path], lambda text: None)


def test_configurations_count_alike_however_many_loads_each_was_measured_at() -> None:
    """One of 41 is three times as slow as forecast: less than one in twenty, though of most points."""
    usual = [replace(point(1.0, added=0.0), configuration=(str(each),)) for each in range(40)]
    slow = [replace(point(1.0, added=0.0, tpot=3.0), configuration=("slow",))] * 100
    points = [*usual, *slow]
    assert fit_spread(points, [0.0] * len(points), "tpot", 0.0).high == pytest.approx(1.0)
    alike = [replace(each, configuration=("one",)) for each in points]
    assert fit_spread(alike, [0.0] * len(points), "tpot", 0.0).high == pytest.approx(3.0)
