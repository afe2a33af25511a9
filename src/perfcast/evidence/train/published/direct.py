"""Training of nets that answer a kernel's latency straight from its sizes and the device's figures.

Loss: mean |t − p| / t, as ``published.nets.direct`` says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.train.published.study_rows import StudyRows
from perfcast.evidence.train.task import Outcome, Recipe, Task, relative_error
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.direct import Scaling, direct_inputs
from perfcast.units import MILLI

if TYPE_CHECKING:
    from torch import Tensor, nn

LEARNING_RATE, BATCH_SIZE = 5e-5, 128


def fit_scaling(inputs: Floats) -> Scaling:
    """Mean and deviation of training inputs [n, f]; an input that never varies is only shifted."""
    deviation = inputs.std(axis=0)
    return Scaling(inputs.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


def direct_task(name: str, rows: StudyRows, build: Callable[[int], nn.Module]) -> tuple[Task, Scaling]:
    """What a net is to learn from measured rows; ``build`` takes the number of inputs."""
    figures = collect_study_figures(rows.devices, rows.device_index)
    inputs = direct_inputs(rows.shape, figures)
    scaling = fit_scaling(inputs)
    task = Task(
        name=name,
        build=partial(build, inputs.shape[1]),
        inputs=scaling.apply(inputs).astype(np.float32),
        context=np.zeros((len(rows), 0), dtype=np.float32),
        seconds=rows.seconds.astype(np.float32),
        answer=_milliseconds,
        loss=relative_error,
        recipe=Recipe(LEARNING_RATE, BATCH_SIZE),
    )
    return task, scaling


def _milliseconds(outputs: Tensor, context: Tensor) -> Tensor:
    return outputs[:, 0] * MILLI


def archive_net(outcome: Outcome, scaling: Scaling) -> Archive:
    """Weights and scaling, for the predictor's folder."""
    arrays: dict[str, Any] = {f"net.{name}": value for name, value in outcome.weights.items()}
    return Archive({**arrays, "mean": scaling.mean, "deviation": scaling.deviation}, {})
