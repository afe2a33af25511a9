"""What a search is after: a figure of every plan, and whether more of it is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfcast.catalogs.runs import RunFigures
from perfcast.core.arrays import Floats, Integers
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.machine.hardware import Device
from perfcast.errors import InputError, UnknownNameError
from perfcast.units import HOUR


@dataclass(frozen=True, kw_only=True)
class Job:
    """What else an objective depends on.

    Attributes:
        num_devices: Of the cluster.
        num_tokens: Of a step, over all devices.
        tokens: Of the whole training; None where it is not known.
        deadline_seconds: For the whole training; None without one.
        dollars_per_device_hour: None without a price.
    """

    num_devices: int
    num_tokens: int
    tokens: float | None = None
    deadline_seconds: float | None = None
    dollars_per_device_hour: float | None = None

    @property
    def num_steps(self) -> int:
        """Whole steps of the training.

        Raises:
            InputError: Its tokens are not known.
        """
        if self.tokens is None:
            raise InputError("how long a training is needs its tokens (--tokens)")
        return math.ceil(self.tokens / self.num_tokens)


@dataclass(frozen=True)
class Objective:
    """One goal.

    Attributes:
        title: In words, with the unit of the values.
        needs: Fields of ``Job`` that must be given, with the options that give them.
        needs_watts: Whether the device's rated power must be known.
        value: Job, step seconds and watts of a device, each [n] → values, [n].
    """

    title: str
    value: Callable[[Job, Floats, Floats], Floats]
    larger_is_better: bool = False
    needs: tuple[tuple[str, str], ...] = ()
    needs_watts: bool = False


def _tokens_per_second(job: Job, seconds: Floats, watts: Floats) -> Floats:
    return job.num_tokens / seconds


def _dollars_per_token(job: Job, seconds: Floats, watts: Floats) -> Floats:
    return (job.dollars_per_device_hour or 0.0) / HOUR * job.num_devices * seconds / job.num_tokens


def _joules_per_token(job: Job, seconds: Floats, watts: Floats) -> Floats:
    return watts * job.num_devices * seconds / job.num_tokens


def _time_to_train(job: Job, seconds: Floats, watts: Floats) -> Floats:
    return job.num_steps * seconds


def _devices(job: Job, seconds: Floats, watts: Floats) -> Floats:
    return np.full_like(seconds, job.num_devices)


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "time": Objective("seconds of a step", lambda job, seconds, watts: seconds),
        "tokens-per-second": Objective("tokens per second", _tokens_per_second, larger_is_better=True),
        "dollars-per-token": Objective(
            "dollars per token", _dollars_per_token, needs=(("dollars_per_device_hour", "--prices"),)
        ),
        "energy-per-token": Objective("joules per token", _joules_per_token, needs_watts=True),
        "time-to-train": Objective("seconds to train", _time_to_train, needs=(("tokens", "--tokens"),)),
        "devices": Objective(
            "devices that keep the deadline",
            _devices,
            needs=(("deadline_seconds", "--deadline"), ("tokens", "--tokens")),
        ),
    }
)


def find_objective(name: str, job: Job, device: Device) -> Objective:
    """An objective by its name.

    Raises:
        UnknownNameError: Not one of ``OBJECTIVES``.
        InputError: What it needs is not known; says which option gives it.
    """
    if name not in OBJECTIVES:
        raise UnknownNameError("objective", name, tuple(OBJECTIVES), f"Known: {', '.join(OBJECTIVES)}.")
    found = OBJECTIVES[name]
    if missing := [option for need, option in found.needs if getattr(job, need) is None]:
        raise InputError(f"the objective {name} needs {' and '.join(missing)}")
    if found.needs_watts and device.power_watts is None:
        raise InputError(
            f"the objective {name} needs the rated power of {device.name}, which is not published"
        )
    return found


def watts_of_devices(device: Device, seconds_by_cause: Mapping[str, Floats], figures: RunFigures) -> Floats:
    """Mean power of a device of each plan with its share of the server, [n]; NaN where none is published."""
    from perfcast.prediction.run.energy import device_watts

    total = np.sum([seconds_by_cause[cause] for cause in CAUSES], axis=0)
    if device.power_watts is None:
        return np.full_like(total, np.nan)
    ends = [device_watts(device, busy, figures) or 0.0 for busy in (0.0, 1.0)]
    busy = np.array(sum(seconds_by_cause[cause] for cause in ("compute", "recompute", "optimizer"))) / total
    found: Floats = ends[0] + busy * (ends[1] - ends[0])
    return found


def order_of(objective: Objective, values: Floats, seconds: Floats) -> Integers:
    """Places of plans, best first: of equal values the faster step, of equal steps the order of the space.

    Args:
        values, seconds: Of the objective and of a step, each [n].
    """
    return np.lexsort((seconds, -values if objective.larger_is_better else values))
