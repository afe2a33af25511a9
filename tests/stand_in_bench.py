"""A bench without hardware: times that a made-up device takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.load import estimate_measured
from perfcast.cost.learned.corrections.measured import MeasuredKernels
from perfcast.measure.few.bench import Timed
from perfcast.measure.few.cases import FewCase


def forecast(cases: Sequence[FewCase], device: Device) -> np.ndarray:
    """What is forecast of cases without any measurement."""
    kernels = tuple(case.kernel(1.0, device.vendor, is_cold=not case.is_warm) for case in cases)
    return estimate_measured(MeasuredKernels(device.name, kernels), device)[0]


@dataclass
class StandInBench:
    """``factor`` times the forecast, for every case that ``fails`` does not name.

    Attributes:
        interrupt_after: Groups after which somebody presses Ctrl-C.
        loads: What the load takes, one after the other; the last stays.
    """

    device: Device
    factor: Callable[[FewCase], float] = lambda case: 1.0
    processor: str = "NVIDIA GeForce RTX 4090"
    setup: str = "torch 2, CUDA 13"
    fails: tuple[str, ...] = ()
    interrupt_after: int = 1000
    loads: list[float] = field(default_factory=lambda: [1e-3])
    timed: list[str] = field(default_factory=list)

    def time(self, cases: Sequence[FewCase]) -> list[Timed]:
        if self.interrupt_after == 0:
            raise KeyboardInterrupt
        self.interrupt_after -= 1
        self.timed += [case.name for case in cases]
        return [
            Timed(None, reason="no such kernel")
            if case.name in self.fails
            else Timed(self.factor(case) * float(seconds), is_cold=not case.is_warm)
            for case, seconds in zip(cases, forecast(cases, self.device), strict=True)
        ]

    def load_seconds(self) -> float:
        return self.loads.pop(0) if len(self.loads) > 1 else self.loads[0]
