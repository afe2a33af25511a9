"""Programs that a processor ran itself, on another processor, or on one that was calibrated only in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up_profile import profile
from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.linear import LinearCost
from perfcast.cost.profile import local_device
from perfcast.errors import PlanError
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.request import TraceForecastRequest
from recorded_traces import Recording

_ONE = {"Input_Dims": [[64, 512]], "Input_type": ["float"]}


def recorded() -> Recording:
    """A relu of 600 µs, a softmax of 300 µs, and 100 µs behind them."""
    recording = Recording(device="")
    recording.step(1, 0, 1000)
    recording.operator("aten::relu", 0, 600, **_ONE)
    recording.operator(
        "aten::_softmax", 600, 300,
        Input_Dims=[[64, 512], [], []], Input_type=["float", "Scalar", "Scalar"],
        Concrete_Inputs=["", "1", "False"],
    )  # fmt: skip
    return recording


def partial() -> Side:
    """The local processor, of which elementwise work alone was calibrated."""
    part = profile()
    return Side(local_device(part), LinearCost(part), "fp32")


def forecast(folder: Path, before: Side, after: Side, batch: tuple[int, int] | None = None) -> TraceForecast:
    request = TraceForecastRequest(before=before, after=after, batch=batch)
    return forecast_from_traces([recorded().read(folder)], request)


def test_what_was_not_calibrated_follows_its_data_is_said_and_bounded(tmp_path: Path):
    side = partial()
    found = forecast(tmp_path, side, side, (64, 128))
    assert set(found.seconds_by_provenance) >= {"priced", "not calibrated"}
    assert found.seconds_by_provenance["not calibrated"] == pytest.approx(300e-6)
    assert "33.3 % of the recorded time is of operators that were not calibrated" in " ".join(
        found.assumptions
    )
    # Twice the softmax's data: 600 µs, 300 to 1200 of them.
    assert found.host_seconds_high - found.host_seconds_after >= 590e-6
    assert found.step_seconds_low < found.step_seconds < found.step_seconds_high


def test_another_processor_prices_operators_and_is_unsure_of_the_rest(tmp_path: Path):
    cost = LearnedCost()
    sides = [Side(load_device(name), cost, "fp32") for name in ("xeon-8480", "ryzen-7950x")]
    found = forecast(tmp_path, *sides)
    assert found.step_seconds != pytest.approx(found.measured_seconds, rel=0.01)
    assert found.host_seconds_high > 1.5 * found.host_seconds_after
    assert "operators are priced on the other processor" in " ".join(found.assumptions)


@pytest.mark.parametrize("device", ["h100-sxm", "mi300x"])
def test_a_processors_operators_are_no_accelerators_kernels(tmp_path: Path, device: str):
    after = Side(load_device(device), LearnedCost(), "fp32")
    with pytest.raises(PlanError, match=r"ran on a processor.*not in the recording"):
        forecast(tmp_path, Side(load_device("epyc-9654"), LearnedCost(), "fp32"), after)
