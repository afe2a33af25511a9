"""What JSON holds of a whole run."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.prediction.run.predict import Checkpoints, RunForecast
from perfcast.report.answers import finite_or_none, view


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A whole run, as it goes on average.

    Attributes:
        model: As asked for.
        cluster: Catalog name.
        num_devices: Devices.
        tokens: Of the run.
        num_steps: Of the run.
        step_seconds: Of one step.
        seconds: From start to end.
        seconds_low: Lower end of the 90 % interval.
        seconds_high: Upper end of the 90 % interval.
        productive_seconds: Steps that count.
        checkpoint_seconds: Waiting for checkpoints.
        lost_seconds: Work done again.
        restart_seconds: Restarts.
        num_interruptions: Expected.
        between_interruptions_seconds: Mean, of the whole run; null for none.
        checkpoints: How the run saves itself.
        device_watts: Mean of a device and its share of the server; null where unknown.
        energy_joules: Of the site; null where no rated power is known.
        fits: Whether the devices' memory holds a step; null where that is not known.
        dollars: Null without a price, and of steps that do not fit.
        goodput: Productive share of the time; 0 to 1.
        device_seconds: Of all devices.
        assumptions: What was taken for granted.
    """

    model: str
    cluster: str
    num_devices: int
    tokens: float
    num_steps: int
    step_seconds: float
    seconds: float
    seconds_low: float
    seconds_high: float
    productive_seconds: float
    checkpoint_seconds: float
    lost_seconds: float
    restart_seconds: float
    num_interruptions: float
    between_interruptions_seconds: float | None
    checkpoints: Checkpoints
    device_watts: float | None
    energy_joules: float | None
    fits: bool | None
    dollars: float | None
    goodput: float
    device_seconds: float
    assumptions: tuple[str, ...]


def data_of(run: RunForecast) -> RunData:
    """Every figure in SI units; what is not known is null."""
    between = finite_or_none(run.between_interruptions_seconds)
    return view(RunData, run, between_interruptions_seconds=between)
