import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_steps import step_forecast
from perfcast.catalogs.devices import load_device
from perfcast.core.forecast.plan import StragglerEffect
from perfcast.core.model.weights import count_parameters
from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.errors import PlanError
from perfcast.prediction.request.run import RunRequest
from perfcast.prediction.run.predict import RunForecast, count_checkpoint_bytes, forecast_run
from perfcast.units import DAY, HOUR, MINUTE
from small_transformers import llama

H100 = load_device("h100-sxm")


def run(forecast: Any = None, checkpoint_bytes: int = 10**12, **request: Any) -> RunForecast:
    asked = {"tokens": 1e9, **request}
    return forecast_run(forecast or step_forecast(), RunRequest(**asked), H100, checkpoint_bytes)


def test_without_interruptions_a_run_is_its_steps_and_one_checkpoint() -> None:
    found = run(between_interruptions_seconds=math.inf, checkpoint_bytes_per_second=1e10)
    assert found.num_steps == 1000
    assert found.seconds == pytest.approx(1000 * 10.0 + 100.0)
    assert found.goodput == pytest.approx(10_000 / 10_100)
    assert (found.num_interruptions, found.seconds_low) == (0.0, found.seconds)


def test_a_last_part_of_a_batch_takes_a_whole_step() -> None:
    assert run(tokens=1_000_001, between_interruptions_seconds=math.inf).num_steps == 2


def test_the_parts_of_a_run_add_up() -> None:
    found = run(tokens=1e12, is_asynchronous=True)
    parts = found.productive_seconds + found.checkpoint_seconds + found.lost_seconds + found.restart_seconds
    assert parts == pytest.approx(found.seconds)
    assert found.num_interruptions == pytest.approx(found.seconds / found.between_interruptions_seconds)


def test_stragglers_lengthen_every_step_of_a_run() -> None:
    slower = StragglerEffect("lognormal", 12.0, 12.0, 13.0, 14.0, 100)
    found = run(replace(step_forecast(10.0), stragglers=slower), between_interruptions_seconds=math.inf)
    assert (found.step_seconds, found.productive_seconds) == (12.0, 1000 * 12.0)
    assert any("stragglers" in note for note in found.assumptions)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"between_interruptions_seconds": -HOUR}, "--mtbf -1: must"),
        ({"restart_seconds": -5 * MINUTE}, "--restart -5: must"),
        ({"checkpoint_interval_seconds": 0.0}, "--checkpoint-interval 0: must"),
        ({"checkpoint_bytes_per_second": -2e9}, "--checkpoint-bandwidth -2: must"),
        ({"tokens": math.inf}, "--tokens inf: must be finite"),
    ],
)
def test_a_complaint_shows_a_value_in_the_unit_of_its_option(
    request_: dict[str, float], complaint: str
) -> None:
    with pytest.raises(PlanError, match=complaint):
        run(**request_)


def test_interruptions_come_as_often_as_devices_are_many() -> None:
    found = run(between_interruptions_seconds=8 * HOUR)
    assert found.between_interruptions_seconds == HOUR


def test_llama_3_keeps_the_nine_tenths_of_its_time_that_its_paper_states() -> None:
    devices = 16_384
    step = step_forecast(13.4, num_devices=devices, num_tokens=16 * 2**20)
    found = run(step, checkpoint_bytes=14 * 405 * 10**9, tokens=54 * DAY / 13.4 * 16 * 2**20)
    assert found.num_interruptions == pytest.approx(419, rel=0.1)
    assert found.goodput > 0.9


def test_energy_is_power_times_time_times_the_site() -> None:
    found = run(between_interruptions_seconds=math.inf, checkpoint_bytes_per_second=1e15, pue=1.5)
    watts = 700 * 1.38
    assert found.device_watts == pytest.approx(watts)
    assert found.energy_joules == pytest.approx(1.5 * 8 * watts * found.seconds)


def test_a_device_that_waits_draws_less() -> None:
    waiting = step_forecast(causes={"bubble": 5.0})
    found = run(waiting, between_interruptions_seconds=math.inf)
    assert found.device_watts == pytest.approx(700 * (0.5 + 0.5 * 0.5 + 0.38))


def test_dollars_are_device_hours_times_the_price_and_none_without_one() -> None:
    found = run(dollars_per_device_hour=2.0)
    assert found.dollars == pytest.approx(2.0 * 8 * found.seconds / HOUR)
    assert run().dollars is None


def test_steps_go_on_while_an_asynchronous_checkpoint_is_written() -> None:
    slow = {"tokens": 1e12, "checkpoint_bytes_per_second": 1e9}
    synchronous, asynchronous = run(**slow), run(**slow, is_asynchronous=True)
    assert asynchronous.checkpoints.stall_seconds < synchronous.checkpoints.stall_seconds
    assert asynchronous.goodput > synchronous.goodput
    saved = asynchronous.checkpoints
    assert saved.interval_seconds + saved.stall_seconds >= saved.write_seconds


def test_checkpoints_are_whole_steps_apart() -> None:
    assert run(checkpoint_interval_seconds=98.0).checkpoints.interval_seconds == 100.0
    assert run(checkpoint_interval_seconds=0.1).checkpoints.interval_seconds == 10.0


def test_the_interval_of_the_step_is_that_of_the_run() -> None:
    step = step_forecast(step_seconds_low=9.0, step_seconds_high=12.0)
    found = run(step, between_interruptions_seconds=math.inf)
    assert found.seconds_low == pytest.approx(0.9 * found.seconds)
    assert found.seconds_high == pytest.approx(1.2 * found.seconds)


@given(st.floats(min_value=1e3, max_value=1e6), st.booleans())
def test_no_checkpoint_interval_asked_for_beats_the_optimum_by_much(seconds: float, later: bool) -> None:
    asked = {"tokens": 1e12, "between_interruptions_seconds": 2e6, "is_asynchronous": later}
    best = run(**asked)
    other = run(**asked, checkpoint_interval_seconds=seconds)
    assert best.goodput >= 0.995 * other.goodput


def test_a_checkpoint_holds_weights_masters_and_moments_once() -> None:
    model = llama()
    training = Training(framework="megatron")
    assert count_checkpoint_bytes(model, training) == 14 * count_parameters(model)
    assert count_checkpoint_bytes(model, Training(framework="pytorch")) == 12 * count_parameters(model)


def test_a_checkpoint_of_adapters_holds_them_alone() -> None:
    """Two matrices of rank 2 beside seven linear layers each, twelve bytes an element."""
    tuned = Training(framework="fsdp", tuning=parse_tuning(lora="rank=2"))
    each = 2 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 192))
    assert count_checkpoint_bytes(llama(), tuned) == 12 * 8 * each


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"tokens": 0.0}, "--tokens"),
        ({"pue": 0.9}, "at least 1"),
        ({"checkpoint_rule": "never"}, "daly"),
        ({"restart_seconds": -1.0}, "--restart"),
        ({"dollars_per_device_hour": -1.0}, "--price"),
        ({"between_interruptions_seconds": 0.0}, "--mtbf"),
    ],
)
def test_what_no_run_can_have_is_refused(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        RunRequest(**{"tokens": 1e9, **request_})


def test_inference_has_no_tokens_to_train_on() -> None:
    with pytest.raises(PlanError, match="training"):
        run(step_forecast(mode="decode"))


def test_what_is_not_given_is_stated_with_its_source() -> None:
    notes = " ".join(run().assumptions)
    assert "Llama 3" in notes
    assert "MegaScale" in notes
    assert "as given" in " ".join(run(restart_seconds=60.0, pue=1.2).assumptions)


def test_a_device_of_which_nothing_is_published_takes_anothers_interruptions_and_says_so() -> None:
    found = forecast_run(step_forecast(), RunRequest(tokens=1e9), load_device("b200"), 10**12)
    assert "nothing is published for blackwell" in found.assumptions[0]
