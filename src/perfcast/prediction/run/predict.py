"""A whole run: tokens → steps → days, device-hours, energy, dollars, with checkpoints and interruptions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.runs import RunFigures, load_run_figures
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.memory_use.footprint.states import FROZEN
from perfcast.prediction.model import Model, read_model
from perfcast.prediction.request.run import RunRequest
from perfcast.prediction.run.energy import busy_share, device_watts
from perfcast.prediction.run.interruptions import (
    Segment,
    daly_interval_seconds,
    expect_segment,
    young_interval_seconds,
)
from perfcast.units import HOUR, format_count, format_duration

#: Standard deviations from the mean to either end of a 90 % interval of a normal distribution.
_NORMAL_90 = 1.645
_PERSISTENT = (Category.PARAMETER, Category.OPTIMIZER_STATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How a run saves itself.

    Attributes:
        num_bytes: Weights and optimizer state, once.
        write_seconds: Until one is on storage.
        stall_seconds: Of it, what steps wait for.
        interval_seconds: Of work between two, in whole steps.
        count: Over the run.
    """

    num_bytes: int
    write_seconds: float
    stall_seconds: float
    interval_seconds: float
    count: float
    is_asynchronous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """A run as it goes on average.

    Attributes:
        seconds, seconds_low, seconds_high: From start to end, and a 90 % interval over the step's uncertainty
            and the chance of interruptions.
        productive_seconds: Steps that count; with the next three they add up to ``seconds``.
        checkpoint_seconds, lost_seconds, restart_seconds: Waiting for checkpoints; work done again; restarts.
        num_interruptions: Expected.
        between_interruptions_seconds: Mean, of the whole run.
        device_watts: Mean while steps run, with the device's share of its server; None where unknown.
        energy_joules: Of the site; None where no rated power is known.
        fits: Whether the devices' memory holds a step; None where that is not known.
        dollars: None without a price, and of steps that do not fit: nobody can buy that run.
        assumptions: For the reader.
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
    between_interruptions_seconds: float
    checkpoints: Checkpoints
    device_watts: float | None
    energy_joules: float | None
    fits: bool | None
    dollars: float | None
    assumptions: tuple[str, ...]

    @property
    def goodput(self) -> float:
        """Part of the time that steps which count take."""
        return self.productive_seconds / self.seconds

    @property
    def device_seconds(self) -> float:
        """Of all devices."""
        return self.seconds * self.num_devices


def forecast_run(
    forecast: PlanForecast,
    request: RunRequest,
    device: Device,
    checkpoint_bytes: int,
    figures: RunFigures | None = None,
) -> RunForecast:
    """A run of steps like the one that was forecast.

    Args:
        checkpoint_bytes: Of one checkpoint (``count_checkpoint_bytes``).
        figures: Published ones for what is not asked for; by default the catalog's.

    Raises:
        PlanError: Not a training, or a run that interruptions never let end.
    """
    if forecast.mode != "train":
        raise PlanError(f"--tokens is of a training, not of {forecast.mode}")
    figures = figures or load_run_figures()
    steps = math.ceil(request.tokens / forecast.num_tokens)
    course = _expect(forecast, request, device, checkpoint_bytes, steps, figures)
    segment, count = course.segment, course.checkpoints.count
    seconds = count * segment.seconds
    low, high = _bounds(forecast, segment, count)
    watts, joules = _energy(forecast, request, device, course, figures)
    return RunForecast(
        model=forecast.model, cluster=forecast.cluster, num_devices=forecast.num_devices,
        tokens=request.tokens, num_steps=steps, step_seconds=mean_step_seconds(forecast), seconds=seconds,
        seconds_low=low, seconds_high=high, productive_seconds=steps * mean_step_seconds(forecast),
        checkpoint_seconds=count * course.checkpoints.stall_seconds,
        lost_seconds=count * course.lost_seconds, restart_seconds=count * course.restart_seconds,
        num_interruptions=count * segment.num_interruptions,
        between_interruptions_seconds=course.between_seconds, checkpoints=course.checkpoints,
        device_watts=watts, energy_joules=joules, fits=forecast.fits,
        dollars=_dollars(forecast, request, seconds),
        assumptions=(*course.notes, *_assumptions(forecast, request, figures)),
    )  # fmt: skip


def _dollars(forecast: PlanForecast, request: RunRequest, seconds: float) -> float | None:
    """Of all devices; None without a price, and of steps that do not fit."""
    price = request.dollars_per_device_hour
    if price is None or forecast.fits is False:
        return None
    return seconds * forecast.num_devices / HOUR * price


def mean_step_seconds(forecast: PlanForecast) -> float:
    """Of a step: where ranks differ in speed, the mean over their draws."""
    return forecast.step_seconds if forecast.stragglers is None else forecast.stragglers.mean_seconds


@dataclass(frozen=True, slots=True)
class _Course:
    """How a run goes between two checkpoints; seconds of one segment."""

    between_seconds: float
    checkpoints: Checkpoints
    segment: Segment
    lost_seconds: float
    restart_seconds: float
    notes: tuple[str, ...]


def _expect(
    forecast: PlanForecast,
    request: RunRequest,
    device: Device,
    checkpoint_bytes: int,
    steps: int,
    figures: RunFigures,
) -> _Course:
    """Checkpoints and interruptions.

    With asynchronous checkpoints, what was worked while one was still being written is lost with it: that
    lengthens each restart by the time of a write, and is counted as lost.
    """
    between, note = _between(request, device, forecast.num_devices, figures)
    bandwidth, storage_note = _bandwidth(request, forecast.num_devices, figures)
    write = stall = checkpoint_bytes / bandwidth
    if request.is_asynchronous:
        stall = min(write, checkpoint_bytes / forecast.num_devices / figures.figures["host_link"].si_value)
    restart = figures.figures["restart"].si_value
    restart = write + (restart if request.restart_seconds is None else request.restart_seconds)
    unsaved = write if request.is_asynchronous else 0.0
    step = mean_step_seconds(forecast)
    interval = _interval(request, step, write, stall, between, steps)
    segment = expect_segment(interval, stall, restart + unsaved, between)
    unsaved_part = segment.restart_seconds * unsaved / (restart + unsaved)
    checkpoints = Checkpoints(
        num_bytes=checkpoint_bytes, write_seconds=write, stall_seconds=stall, interval_seconds=interval,
        count=steps * step / interval, is_asynchronous=request.is_asynchronous,
    )  # fmt: skip
    source = "as given" if request.restart_seconds is not None else figures.figures["restart"].source
    notes = (
        note,
        storage_note,
        f"a restart takes {format_duration(restart)} with the reading of a checkpoint: {source}",
    )
    return _Course(
        between,
        checkpoints,
        segment,
        segment.lost_seconds + unsaved_part,
        segment.restart_seconds - unsaved_part,
        notes,
    )


def predict_run(
    forecast: PlanForecast, request: RunRequest, model: Model, device: Device | None = None
) -> RunForecast:
    """``forecast_run`` of a forecast whose checkpoints are counted from the model's sizes.

    Args:
        model: That was forecast.
        device: None takes the forecast's by its name.

    Raises:
        InputError: An unknown name, a model without sizes, not a training, a run that never ends.
    """
    if forecast.training is None:
        raise PlanError(f"--tokens is of a training, not of {forecast.mode}")
    checkpoint_bytes = count_checkpoint_bytes(read_model(model).sizes, forecast.training)
    return forecast_run(forecast, request, device or load_device(forecast.device), checkpoint_bytes)


def count_checkpoint_bytes(model: Transformer, training: Training) -> int:
    """Weights and optimizer state of the whole model, as the training's framework keeps them, once.

    Of a model beside adapters these alone are written (huggingface/peft: save_pretrained).

    Plain PyTorch keeps what its FSDP does: fp32 weights, and no copy of them.
    """
    if load_training_profile(training.framework).memory is None:
        training = replace(training, framework="fsdp")
    unpadded = replace(load_training_profile(training.framework), vocabulary_multiple=1)
    whole = estimate_footprint(model, Plan(), training, sequence_length=1, profile=unpadded).stages[0]
    terms = next(candidate.terms for candidate in whole.peak_candidates if candidate.name == "optimizer")
    kept = (term for term in terms if term.category in _PERSISTENT and not term.name.startswith(FROZEN))
    return sum(term.num_bytes for term in kept)


def _between(request: RunRequest, device: Device, num_devices: int, figures: RunFigures) -> tuple[float, str]:
    """Mean seconds between interruptions of the whole run, and where they come from."""
    if request.between_interruptions_seconds is not None:
        each = request.between_interruptions_seconds
        if math.isinf(each):
            return each, "no interruptions"
        return each / num_devices, f"one interruption of each device in {each / HOUR:,.0f} hours, as given"
    figure, is_own = figures.between_interruptions(device.architecture)
    other = "" if is_own else f" (nothing is published for {device.architecture})"
    hours = figure.si_value / HOUR
    return figure.si_value / num_devices, (
        f"one interruption of each device in {hours:,.0f} hours{other}: {figure.source}"
    )


def _bandwidth(request: RunRequest, num_devices: int, figures: RunFigures) -> tuple[float, str]:
    if request.checkpoint_bytes_per_second is not None:
        rate = request.checkpoint_bytes_per_second
        return rate, f"checkpoints written at {format_count(rate, 'B/s')}, as given"
    figure = figures.figures["storage_of_a_device"]
    rate = figure.si_value * num_devices
    return rate, (
        f"checkpoints written at {format_count(rate, 'B/s')}, {figure.value:g} {figure.unit} a device: "
        f"{figure.source}"
    )


def _interval(
    request: RunRequest, step_seconds: float, write: float, stall: float, between: float, steps: int
) -> float:
    """Work between two checkpoints: whole steps, no less than one takes to write, no more than the run."""
    run = steps * step_seconds
    if request.checkpoint_interval_seconds is not None:
        wanted = request.checkpoint_interval_seconds
    elif math.isinf(between):
        return run
    else:
        rule = young_interval_seconds if request.checkpoint_rule == "young" else daly_interval_seconds
        wanted = rule(stall, between)
    least = write - stall  # the one before has to be done
    return min(max(round(wanted / step_seconds), math.ceil(least / step_seconds), 1) * step_seconds, run)


def _bounds(forecast: PlanForecast, segment: Segment, count: float) -> tuple[float, float]:
    """The step's interval and that of the interruptions, independent of one another: in quadrature."""
    seconds = count * segment.seconds
    chance = _NORMAL_90 * math.sqrt(count * segment.variance)
    below = seconds * (1.0 - forecast.step_seconds_low / forecast.step_seconds)
    above = seconds * (forecast.step_seconds_high / forecast.step_seconds - 1.0)
    return seconds - math.hypot(below, chance), seconds + math.hypot(above, chance)


def _energy(
    forecast: PlanForecast,
    request: RunRequest,
    device: Device,
    course: _Course,
    figures: RunFigures,
) -> tuple[float | None, float | None]:
    """Watts of a device while steps run, and joules of the site: less while it restarts or waits."""
    running = device_watts(device, busy_share(forecast.time.seconds_by_cause), figures)
    waiting = device_watts(device, 0.0, figures)
    if running is None or waiting is None:
        return None, None
    devices = forecast.num_devices * course.checkpoints.count
    pue = figures.figures["pue"].si_value if request.pue is None else request.pue
    idle = course.restart_seconds
    return running, pue * devices * (running * (course.segment.seconds - idle) + waiting * idle)


def _assumptions(forecast: PlanForecast, request: RunRequest, figures: RunFigures) -> tuple[str, ...]:
    known = figures.figures
    pue_source = "as given" if request.pue is not None else known["pue"].source
    pue = known["pue"].value if request.pue is None else request.pue
    notes = [
        "interruptions are a Poisson process; any one of them stops all devices",
        f"a device that computes draws its rated power, with its part of the server "
        f"{known['node_power_ratio'].value:g} times that: {known['node_power_ratio'].source}",
        f"a device that waits: {known['waiting_power_ratio'].value:g} of the rated power: "
        f"{known['waiting_power_ratio'].source}",
        f"site over servers (PUE) {pue:g}: {pue_source}",
        f"every step is as the one forecast, of {forecast.num_tokens:,} tokens"
        + (", as long as with stragglers on average" if forecast.stragglers is not None else ""),
    ]
    if request.is_asynchronous:
        host = known["host_link"]
        notes.append(
            f"steps wait while every device copies its part to its host, at {host.value:g} {host.unit}: "
            f"{host.source}"
        )
    if request.dollars_per_device_hour is not None:
        notes.append(
            f"{request.dollars_per_device_hour:g} dollars a device-hour: {request.price_source or 'as given'}"
        )
    return tuple(notes)
