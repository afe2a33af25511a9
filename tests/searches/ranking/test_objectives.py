"""What plans are ranked by."""

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.runs import load_run_figures
from perfcast.core.forecast.plan import CAUSES
from perfcast.errors import InputError, UnknownNameError
from perfcast.searches.ranking.objectives import OBJECTIVES, Job, find_objective, order_of, watts_of_devices
from perfcast.units import HOUR

DEVICE = load_device("h100-sxm")
#: 1,000 tokens a step on 4 devices; 10,500 tokens are eleven whole steps.
JOB = Job(num_devices=4, num_tokens=1000, tokens=10_500, deadline_seconds=30.0, dollars_per_device_hour=HOUR)
SECONDS, WATTS = np.array([2.0, 1.0, 4.0]), np.array([100.0, 300.0, 50.0])
EXPECTED = {
    "time": [2, 1, 4],
    "tokens-per-second": [500, 1000, 250],
    "dollars-per-token": [0.008, 0.004, 0.016],  # one dollar a second and device
    "energy-per-token": [0.8, 1.2, 0.8],  # 100 W · 4 · 2 s / 1000
    "time-to-train": [22, 11, 44],
    "devices": [4, 4, 4],
}


def test_the_objectives_are_those_of_the_command_line():
    assert list(OBJECTIVES) == list(EXPECTED)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_values_are_those_of_the_definition(name: str):
    values = find_objective(name, JOB, DEVICE).value(JOB, SECONDS, WATTS)
    assert values == pytest.approx(EXPECTED[name])


def test_more_tokens_a_second_are_better_and_less_of_all_else():
    assert [name for name, one in OBJECTIVES.items() if one.larger_is_better] == ["tokens-per-second"]


def test_equal_values_are_ordered_by_time_and_equal_times_by_place():
    order = order_of(OBJECTIVES["devices"], np.full(4, 8.0), np.array([3.0, 1.0, 2.0, 1.0]))
    assert order.tolist() == [1, 3, 2, 0]
    order = order_of(OBJECTIVES["tokens-per-second"], np.array([1.0, 3.0, 2.0]), np.ones(3))
    assert order.tolist() == [1, 2, 0]


def test_an_unknown_objective_names_close_ones():
    with pytest.raises(UnknownNameError, match=r"unknown objective .tims.*time"):
        find_objective("tims", JOB, DEVICE)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("dollars-per-token", "needs --prices"), ("time-to-train", "needs --tokens"),
        ("devices", "needs --deadline and --tokens"),
    ],
)  # fmt: skip
def test_an_objective_says_which_option_it_needs(name: str, missing: str):
    with pytest.raises(InputError, match=missing):
        find_objective(name, Job(num_devices=4, num_tokens=1000), DEVICE)


def test_energy_needs_a_rated_power():
    with pytest.raises(InputError, match="rated power"):
        find_objective("energy-per-token", JOB, replace(DEVICE, power_watts=None))


def test_a_training_of_unknown_length_has_no_number_of_steps():
    assert JOB.num_steps == 11
    with pytest.raises(InputError, match="--tokens"):
        _ = Job(num_devices=4, num_tokens=1000).num_steps


def test_devices_that_compute_draw_more_than_devices_that_wait():
    seconds = {cause: np.zeros(2) for cause in CAUSES}
    seconds["compute"], seconds["bubble"] = np.array([1.0, 0.5]), np.array([0.0, 0.5])
    busy, waiting = watts_of_devices(DEVICE, seconds, load_run_figures())
    assert busy > waiting > 0
    without = watts_of_devices(replace(DEVICE, power_watts=None), seconds, load_run_figures())
    assert np.isnan(without).all()
