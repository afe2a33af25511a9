"""The same model recorded on two devices: each forecast from the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.evidence.train.recorded_kernels.fit import fit_kernels
from perfcast.evidence.train.recorded_kernels.observe import ObservedKernels
from perfcast.evidence.validate.recordings.found import Recording
from perfcast.evidence.validate.row import Row
from perfcast.traces.forecast.eager_kernels import VendorKernels
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.request import TraceForecastRequest

#: As ``--predictor`` names them: constants of kernels fitted without the model, and the shipped ones.
LEFT_OUT, SHIPPED = "model left out", "shipped"


def pairs_of(recordings: Sequence[Recording]) -> Iterator[tuple[Recording, Recording]]:
    """(recorded, wanted) for every two recordings of a model on different devices, both ways."""
    for one, other in permutations(recordings, 2):
        if one.model == other.model and one.device != other.device:
            yield one, other


def rows_elsewhere(
    pair: tuple[Recording, Recording], predictor: str, observed: Sequence[ObservedKernels]
) -> Iterator[Row]:
    """Device time, host time and step of a model on one device, from its recording on another.

    Args:
        observed: Kernels of all recordings, for constants that leave out this model's.
    """
    first, second = pair
    left = [one for one in observed if first.model not in one.recording]
    constants: Mapping[str, VendorKernels] | None = fit_kernels(left) if predictor == LEFT_OUT else None
    cost = LearnedCost()
    sides = [Side(load_device(one.device), cost, "fp32") for one in pair]
    request = TraceForecastRequest(before=sides[0], after=sides[1], kernels=constants)
    found = forecast_from_traces([first.trace], request)
    truth = forecast_from_traces([second.trace], TraceForecastRequest())
    measured = {
        "device time": truth.device_seconds_before,
        "host time": truth.host_seconds_before,
        "step": truth.measured_seconds,
    }
    for operation, seconds in measured.items():
        middle, low, high = _figures(found, operation)
        yield Row(
            suite="recordings",
            table=first.path.parent.name,
            row=f"{first.model}: {operation}, {first.device} to {second.device}",
            device=second.device,
            catalog_device=second.device,
            operation=operation,
            mode="another device",
            predictor=predictor,
            columns={"model": first.model, "recorded_device": first.device},
            predicted_seconds=middle,
            predicted_seconds_low=low,
            predicted_seconds_high=high,
            measured_seconds=seconds,
            provenance="extrapolated",
        )


def _figures(found: TraceForecast, operation: str) -> tuple[float, float, float]:
    if operation == "device time":
        return found.device_seconds_after, found.device_seconds_low, found.device_seconds_high
    if operation == "host time":
        return found.host_seconds_after, found.host_seconds_low, found.host_seconds_high
    return found.step_seconds, found.step_seconds_low, found.step_seconds_high
