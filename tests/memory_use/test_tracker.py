"""The peak as run on the processor, against PyTorch's own memory tracker on the same real step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch

from perfcast.core.forecast.device import MemoryForecast
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import OptimizerChoice, Program, build_optimizer, run_training_step
from small_models import TRAINING_PROGRAMS

OPTIMIZER = OptimizerChoice("adamw", "loop")


def tracked_peak_bytes(build: Callable[[], Program]) -> int:
    """Peak that the tracker sees in the second of two real steps."""
    from torch.distributed._tools.mem_tracker import MemTracker

    program = build()
    program.module.train()
    optimizer = build_optimizer(OPTIMIZER, program.module)
    run_training_step(program, optimizer)
    tracker = MemTracker()
    tracker.track_external(program.module, optimizer, *tensors_of(program))
    with tracker:
        run_training_step(program, optimizer)
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


@cache
def captured_memory(name: str) -> MemoryForecast:
    """Memory of the captured step; each program is captured once for all tests."""
    options = CaptureOptions(for_accelerator=False, optimizer=OPTIMIZER)
    return estimate_memory(capture(TRAINING_PROGRAMS[name], options)[0], 0)


def tensors_of(program: Program) -> Iterator[torch.Tensor]:
    closure = getattr(program.loss_function, "__closure__", None) or ()
    held = [cell.cell_contents for cell in closure]
    for leaf in torch.utils._pytree.tree_leaves((program.args, dict(program.kwargs), held)):
        if isinstance(leaf, torch.Tensor):
            yield leaf


@pytest.mark.filterwarnings("ignore:Module is None")
@pytest.mark.parametrize("name", TRAINING_PROGRAMS)
def test_the_peak_as_run_equals_the_trackers_to_the_byte(name: str) -> None:
    assert captured_memory(name).peak_bytes == tracked_peak_bytes(TRAINING_PROGRAMS[name])


def test_most_of_these_steps_peak_in_the_backward_not_in_the_optimizer() -> None:
    """Otherwise the test above would say little about activations."""
    phases = [captured_memory(name).peak_phase for name in TRAINING_PROGRAMS]
    assert phases.count("optimizer") <= len(phases) // 3
