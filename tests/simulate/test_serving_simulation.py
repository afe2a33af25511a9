"""Forwards alone: prompts through a pipeline, and rounds of decoding."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_steps import SECONDS, SEND, forwards_of, small_layer, small_step

from perfcast.core.forecast.plan import StepTime
from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.inference import decode_round
from perfcast.simulate.part_times import time_parts
from perfcast.simulate.training import play_step, simulate_step

PRICES = {**SECONDS, SEND: 0.25}


def simulate_decode(work: StepWork, *, launch_seconds: float = 0.0) -> StepTime:
    return decode_round(play_step(work, time_parts(work, PRICES, launch_seconds=launch_seconds)))


def test_prompts_are_a_flow_shop():
    work = forwards_of(small_step(3, 4))
    expected = 3 * 1.0 + 2 * 0.25 + 3 * 1.0
    assert simulate_step(work, PRICES).step_seconds == expected
    assert closed_form_step(work, PRICES).step_seconds == expected


@pytest.mark.parametrize(("count", "seconds"), [(1, 3.5), (2, 3.5), (3, 3.5), (4, 4.0), (7, 7.0)])
def test_a_token_takes_the_way_through_all_stages_or_the_busiest_stages_work(count: int, seconds: float):
    time = simulate_decode(forwards_of(small_step(3, count)))
    assert time.step_seconds == pytest.approx(seconds)
    assert time.seconds_by_cause["compute"] == pytest.approx(count)
    assert sum(time.seconds_by_cause.values()) == pytest.approx(seconds)


def test_a_single_token_waits_for_its_messages_and_other_stages():
    time = simulate_decode(forwards_of(small_step(3, 1)))
    assert time.seconds_by_cause == pytest.approx({"compute": 1.0, "pipeline": 0.5, "bubble": 2.0})


def test_a_host_that_cannot_keep_up_bounds_decoding():
    work = forwards_of(small_step(1, 1, layers=4))
    time = simulate_decode(work, launch_seconds=2.0)
    assert time.step_seconds == pytest.approx(8.0)
    assert time.seconds_by_cause == pytest.approx({"compute": 4.0, "host": 4.0})


@given(
    st.integers(1, 4), st.integers(1, 9), st.integers(1, 2), st.booleans(), st.sampled_from((0.0, 0.3)),
    st.sampled_from((1, 2)),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_causes_of_serving_add_up(num_stages, count, layers, is_decode, launch, virtual):
    schedule = "interleaved" if virtual > 1 else "1f1b"
    step = small_step(
        num_stages, count, layers, virtual=virtual, schedule=schedule, layer=small_layer(reduces=True)
    )
    simulate = simulate_decode if is_decode else partial(simulate_step, seconds=PRICES)
    time = simulate(forwards_of(step), launch_seconds=launch)
    for rank in time.ranks:
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(time.step_seconds)
        assert min(rank.seconds_by_cause.values()) >= 0
