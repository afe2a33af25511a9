import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import PlanError
from perfcast.prediction.run.interruptions import (
    daly_interval_seconds,
    expect_segment,
    young_interval_seconds,
)

SECONDS = st.floats(min_value=1.0, max_value=1e4)


def simulate_segment(need: float, restart: float, between: float, random: np.random.Generator) -> float:
    """One segment, drawn interruption by interruption."""
    clock, left, work = 0.0, need, True
    while True:
        until = random.exponential(between)
        if until >= left:
            clock += left
            if work:
                return clock
            left, work = need, True
        else:
            clock += until
            left, work = restart, False


def test_mean_and_variance_are_those_of_drawn_segments() -> None:
    segment = expect_segment(50.0, 10.0, 20.0, 100.0)
    random = np.random.default_rng(0)
    drawn = np.array([simulate_segment(60.0, 20.0, 100.0, random) for _ in range(40_000)])
    assert segment.seconds == pytest.approx(drawn.mean(), rel=0.02)
    assert math.sqrt(segment.variance) == pytest.approx(drawn.std(), rel=0.03)


def test_a_segment_takes_what_daly_says() -> None:
    segment = expect_segment(50.0, 10.0, 20.0, 100.0)
    assert segment.seconds == pytest.approx(100.0 * math.exp(0.2) * (math.exp(0.6) - 1.0))


def test_without_interruptions_a_segment_is_work_and_checkpoint() -> None:
    segment = expect_segment(50.0, 10.0, 20.0, math.inf)
    assert (segment.seconds, segment.variance, segment.num_interruptions) == (60.0, 0.0, 0.0)


@given(SECONDS, SECONDS, SECONDS)
def test_the_parts_of_a_segment_add_up(work: float, checkpoint: float, restart: float) -> None:
    segment = expect_segment(work, checkpoint, restart, 5000.0)
    parts = work + checkpoint + segment.lost_seconds + segment.restart_seconds
    assert parts == pytest.approx(segment.seconds)
    assert segment.lost_seconds >= 0.0


@given(SECONDS)
def test_rare_interruptions_cost_half_a_segment_and_a_restart(work: float) -> None:
    between = 1e9
    segment = expect_segment(work, 0.0, 100.0, between)
    assert (segment.seconds - work) * between / work == pytest.approx(work / 2 + 100.0, rel=1e-2, abs=1.0)


def test_young_takes_the_root_of_twice_the_product() -> None:
    assert young_interval_seconds(50.0, 10_000.0) == pytest.approx(1000.0)


@pytest.mark.parametrize("checkpoint", [10.0, 100.0, 1000.0])
def test_no_interval_beats_dalys_by_much(checkpoint: float) -> None:
    between, restart = 10_000.0, 300.0

    def cost(interval: float) -> float:
        return expect_segment(interval, checkpoint, restart, between).seconds / interval

    best = min(cost(interval) for interval in np.geomspace(10.0, 20_000.0, 2000))
    assert cost(daly_interval_seconds(checkpoint, between)) <= 1.001 * best


def test_daly_works_as_long_as_interruptions_let_where_checkpoints_are_slow() -> None:
    assert daly_interval_seconds(300.0, 100.0) == 100.0


def test_a_run_that_cannot_end_is_refused() -> None:
    with pytest.raises(PlanError, match="does not end"):
        expect_segment(1e6, 0.0, 10.0, 100.0)
