"""The constants of a step as numbers that a fit moves, and what they do to prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Floats, Integers
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.training import FRAMEWORKS
from perfcast.evidence.validate.published.prices import PricedRun
from perfcast.frameworks.load import load_framework, load_training_profile
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.scaling import (
    CLASSES,
    StepScaling,
    class_factors,
    load_step_scaling,
    network_of,
    operation_classes,
)

#: Programs whose pace is that of a trace, since no published run of theirs waits for its host.
TRACED = ("pytorch", "fsdp")
#: What a host takes from one launch to the next, before any step was measured; a step's fixed part.
_LAUNCH_SECONDS, _FIXED_SECONDS = 20e-6, 5e-3
#: Of the host for each kernel of a replayed graph: none, but a number that has a logarithm.
_REPLAYED_SECONDS = 1e-9


@dataclass(frozen=True)
class Parameter:
    """One constant.

    Attributes:
        start: Where the fit begins and what the prior holds it to.
        spread: Standard deviation of the prior, in natural logarithms.
    """

    name: str
    start: float
    spread: float


@cache
def host_owner(framework: str) -> str:
    """The framework whose data file states what the host of a framework costs: itself, or one it is like."""
    like = load_framework(framework).like
    shares = like and load_training_profile(framework).host == load_training_profile(like).host
    return host_owner(like) if shares else framework


def parameters(dies: Sequence[str], networks: Sequence[str]) -> tuple[Parameter, ...]:
    """All constants: those shared by everything, and how far single programs, dies and networks differ.

    A program, die or network of which no measurement is seen keeps the shared value. Traces of eager programs
    show 4 to 19 µs between launches, with stacks recorded up to 60, so the shared pace is held; how closely
    was chosen on sources left out.
    """
    return (
        Parameter("launch", _LAUNCH_SECONDS, 0.4),
        *(
            Parameter(f"launch.{name}", 1.0, 0.5)
            for name in FRAMEWORKS
            if name not in TRACED and host_owner(name) == name
        ),
        Parameter("products", 1.0, 0.1),
        Parameter("products_8bit", 1.0, 0.1),
        Parameter("memory", 1.0, 0.2),
        *(Parameter(f"dies.{name}", 1.0, 0.1) for name in dies),
        Parameter("node", 1.0, 0.3),
        Parameter("network", 1.0, 0.4),
        *(Parameter(f"networks.{kind}", 1.0, 0.3) for kind in networks),
        Parameter("fixed", _FIXED_SECONDS, 1.0),
    )


def shipped_values() -> dict[str, float]:
    """The constants of the data files, under the names of a fit."""
    constants, scaling = load_step_constants(), load_step_scaling()
    values = {f"launch.{name}": seconds for name, seconds in constants.launch_seconds.items()}
    values |= {f"fixed.{name}": seconds for name, seconds in constants.fixed_seconds.items()}
    values |= dict(scaling.factors)
    values |= {f"dies.{name}": value for name, value in scaling.dies.items()}
    return values | {f"networks.{name}": value for name, value in scaling.networks.items()}


@dataclass(frozen=True, eq=False)
class Scalable:
    """One run's operations in columns, ready to be scaled.

    Attributes:
        classes: Index into ``CLASSES`` for each operation, shape [operations].
    """

    run: PricedRun
    operations: tuple[Operation, ...]
    seconds: Floats
    classes: Integers
    device: Device
    network: str

    @property
    def host(self) -> str:
        """The framework whose host's pace the run's program has."""
        return host_owner(self.run.training.framework)

    @property
    def die(self) -> str:
        """The device's die."""
        return self.device.die

    def scaled(self, values: Mapping[str, float]) -> dict[Operation, float]:
        """Seconds of each operation under some constants."""
        factors = class_factors(scaling_of(values), self.device, self.run.cluster, self.run.training)
        seconds = self.seconds * factors[self.classes]
        return dict(zip(self.operations, seconds.tolist(), strict=True))

    def launch_seconds(self, values: Mapping[str, float]) -> float:
        """What the host takes from one launch to the next; next to nothing where a graph is replayed."""
        if self.run.replays_graphs:
            return _REPLAYED_SECONDS
        framework = self.host
        if framework in TRACED:
            return load_step_constants().launch_seconds[framework]
        return values.get("launch", 1.0) * values.get(f"launch.{framework}", 1.0)

    def fixed_seconds(self, values: Mapping[str, float]) -> float:
        """What every step takes beside its operations."""
        return values.get("fixed", 0.0) or values.get(f"fixed.{self.host}", 0.0)


def scaling_of(values: Mapping[str, float]) -> StepScaling:
    """The factors among some constants, beside those that are not fitted."""

    def members(group: str) -> dict[str, float]:
        return {n.partition(".")[2]: v for n, v in values.items() if n.startswith(f"{group}.")}

    return replace(
        load_step_scaling(),
        factors={name: values[name] for name in CLASSES if name in values},
        dies=members("dies"),
        networks=members("networks"),
    )


def scalable(run: PricedRun) -> Scalable:
    """The columns of a priced run."""
    seconds = {**run.kernel_seconds, **run.communication_seconds}
    return Scalable(
        run,
        tuple(seconds),
        np.array(list(seconds.values()), dtype=np.float64),
        operation_classes(tuple(seconds), run.cluster),
        load_device(run.device),
        network_of(run.cluster),
    )
