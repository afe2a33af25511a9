"""Whole steps, run for real and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from perfcast.measure.timer import Samples
from perfcast.workload.step import (
    OptimizerChoice,
    Program,
    build_optimizer,
    run_forward,
    run_forward_backward,
    run_training_step,
)

#: What PyTorch does on a processor by default: foreach is for accelerators, fused only on request.
CPU_OPTIMIZER = OptimizerChoice("adamw", "loop")

_LEAST_WARM_UPS = 3
_MOST_SPENT = 20


@dataclass(frozen=True)
class StepTime:
    """Median over repeats, and the quartiles around it; disturbed repeats are counted apart."""

    seconds: float
    lower_quartile_seconds: float
    upper_quartile_seconds: float
    repeats: int
    num_disturbed: int = 0


def step_of(
    program: Program, training: bool, optimizer: OptimizerChoice = CPU_OPTIMIZER
) -> Callable[[], None]:
    """A call that runs one step of the program."""
    program.module.train(training)
    if not training:
        return lambda: _forward(program)
    if optimizer.name == "none":
        return lambda: _forward_backward(program)
    chosen = build_optimizer(optimizer, program.module)
    return lambda: run_training_step(program, chosen)


def _forward(program: Program) -> None:
    run_forward(program)


def _forward_backward(program: Program) -> None:
    run_forward_backward(program)
    program.module.zero_grad(set_to_none=True)


def measure_step(
    step: Callable[[], None],
    least_seconds: float = 1.5,
    least_repeats: int = 7,
    most_repeats: int = 300,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], None] = lambda: None,
) -> StepTime:
    """Warm up, then run until both limits are met by undisturbed repeats; the median of these.

    On a machine that never is quiet it stops after twenty times ``least_seconds``; see ``timer``.
    """
    for _ in range(_LEAST_WARM_UPS):
        step()
    synchronize()
    samples = Samples()
    spent, count = 0.0, 0
    while count < most_repeats and spent < _MOST_SPENT * least_seconds:
        start = clock()
        step()
        synchronize()
        seconds = clock() - start
        samples.add(seconds)
        spent += seconds
        count += 1
        if spent >= least_seconds and len(samples.quiet) >= least_repeats:
            break
    return step_time_of(samples)


def step_time_of(samples: Samples) -> StepTime:
    """Median and quartiles of the undisturbed samples."""
    chosen = samples.quiet
    low, middle, high = statistics.quantiles(chosen, n=4) if len(chosen) > 1 else (chosen[0],) * 3
    return StepTime(middle, low, high, len(chosen), samples.num_disturbed)
