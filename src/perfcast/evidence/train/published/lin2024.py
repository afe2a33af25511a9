"""Training the kernel regressors of Lin et al., and what they miss on sizes left out.

Of every family and device, a fifth of the different sizes is left out of training and of the choice of an
epoch; errors are of these rows. (The study keeps the net with the least error on its test rows.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.evidence.train.loop import measured_ratios
from perfcast.evidence.train.published.direct import archive_net, fit_scaling
from perfcast.evidence.train.published.li2020 import table_of
from perfcast.evidence.train.published.request import TrainedNet, TrainingRequest, train_net, write_trained
from perfcast.evidence.train.published.study_rows import (
    CONVOLUTION_SIZES,
    PRODUCT_SIZES,
    VECTOR_SIZES,
    StudyRows,
)
from perfcast.evidence.train.task import Recipe, Task
from perfcast.published.multi_gpu_2024.iteration import geometric_mean_error
from perfcast.published.multi_gpu_2024.memory_bound import MEASURED
from perfcast.published.multi_gpu_2024.predictor import NAME, Lin2024
from perfcast.published.multi_gpu_2024.regressors import (
    FAMILIES,
    NUM_LAYERS,
    WIDTH,
    Regressor,
    features_of_shapes,
    part_name,
)
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.direct import Scaling
from perfcast.units import MILLI

if TYPE_CHECKING:
    from torch import Tensor, nn

LEARNING_RATE, BATCH_SIZE = 5e-4, 64
_LEFT_OUT = 0.2
_TIMES_LEAST = 5.0
#: Of the measured times of a net: what a kernel takes that does almost nothing.
_LEAST_QUANTILE = 0.01
_SIZES = {"product": PRODUCT_SIZES, "convolution": CONVOLUTION_SIZES, "layer_norm": VECTOR_SIZES}
#: Kernels of ``published.kernels.graph`` by what prices them here.
_KERNELS = {"linear": "product", "bmm": "product", "convolution": "convolution", "ln": "layer_norm"}
_CONSTANTS = "memory_bound"


def train_lin2024(request: TrainingRequest) -> dict[str, Any]:
    """Train a net for each family and device.

    Returns:
        The record that lies beside the weights; 'scores' has errors on left-out sizes by family and device.

    Raises:
        InputError: A table is missing, no row is left, or the folder holds another training's checkpoint.
    """
    nets: dict[str, TrainedNet] = {}
    archives: dict[str, Archive] = {}
    scores: dict[str, dict[str, Any]] = {}
    ratios: dict[str, list[Floats]] = {}
    floors: dict[str, float] = {}
    for family, sizes in _SIZES.items():
        table = request.read(sizes)
        if not request.is_measured(table):
            continue
        rows = request.select(table.take(np.isin(table.operation, FAMILIES[family])))
        for device in np.unique(rows.device_names().astype(str)).tolist():
            mine = rows.take(rows.device_names() == device)
            part = part_name(family, device)
            nets[part], archives[part], own = _train(family, part, mine, request)
            predicted = Regressor(nets[part].outcome.weights, own.scaling).predict(own.inputs)
            floors[part] = float(np.quantile(mine.seconds, _LEAST_QUANTILE))
            scores.setdefault(family, {})[device] = score(predicted, own.seconds)
            ratios.setdefault(family, []).append(np.stack([own.seconds, predicted]))
    measured = request.select(request.read(VECTOR_SIZES))
    scores[_CONSTANTS], both = _score_constants(measured)
    ratios[_CONSTANTS] = [both]
    errors = _errors_of_kernels(ratios)
    return write_trained(
        NAME,
        request,
        nets,
        archives,
        [measured],
        scores=scores,
        errors_of_kernels=errors,
        launch_floors=floors,
    )


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """Rows that a net has not seen: its features, how it scales them, and what was measured."""

    inputs: Floats
    scaling: Scaling
    seconds: Floats


def _train(
    family: str, part: str, rows: StudyRows, request: TrainingRequest
) -> tuple[TrainedNet, Archive, _LeftOut]:
    inputs, kept = features_of_shapes(family, rows.shape), ~left_out(rows.shape, request.seed)
    scaling = fit_scaling(inputs[kept])
    task = Task(
        name=part,
        build=partial(_build, inputs.shape[1]),
        inputs=scaling.apply(inputs[kept]).astype(np.float32),
        context=np.zeros((int(kept.sum()), 0), dtype=np.float32),
        seconds=rows.seconds[kept].astype(np.float32),
        answer=_seconds,
        loss=_squared_logarithm,
        recipe=Recipe(LEARNING_RATE, BATCH_SIZE),
    )
    net = train_net(task, request)
    return net, archive_net(net.outcome, scaling), _LeftOut(inputs[~kept], scaling, rows.seconds[~kept])


def left_out(shape: Floats, seed: int) -> Flags:
    """Rows whose sizes are left out, shape [n]: all rows of equal sizes alike."""
    different, index = np.unique(shape, axis=0, return_inverse=True)
    chosen = np.random.default_rng(seed).random(len(different)) < _LEFT_OUT
    return np.asarray(chosen[index.reshape(-1)], dtype=np.bool_)


def score(predicted: Floats, measured: Floats) -> dict[str, float]:
    """The study's errors: geometric mean (with its 0.0004) and mean of |p - t| / t."""
    errors = np.abs(predicted - measured) / measured
    return {
        "gmae": geometric_mean_error(predicted.tolist(), measured.tolist()),
        "mape": float(errors.mean()),
        "rows": len(errors),
    }


def _score_constants(rows: StudyRows) -> tuple[dict[str, Any], Floats]:
    """Errors of the constants by operator, and measured with predicted seconds, shape [2, n].

    Small kernels of these tables take what the host takes to launch them; those count that are longer.
    """
    rows = rows.take(np.isin(rows.operation, list(MEASURED)))
    rows = rows.take(_beyond_launch(rows))
    kernels = table_of(rows, len(VECTOR_SIZES))
    predicted = Lin2024({}).predict(kernels, rows.devices, rows.device_index)
    found = {
        str(name): score(predicted[rows.operation == name], rows.seconds[rows.operation == name])
        for name in sorted(set(rows.operation.tolist()))
    }
    return found, np.stack([rows.seconds, predicted])


def _beyond_launch(rows: StudyRows) -> Flags:
    """Rows that take several times the least of their operator and device, shape [n]."""
    pairs = np.char.add(rows.operation.astype(str), rows.device_names().astype(str))
    least = {name: rows.seconds[pairs == name].min() for name in np.unique(pairs).tolist()}
    floors = np.array([least[name] for name in pairs.tolist()])
    return np.asarray(rows.seconds > _TIMES_LEAST * floors, dtype=np.bool_)


def _errors_of_kernels(both: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float]]:
    """5 and 95 % of measured / predicted by the kernels of graphs."""
    kernels = {**_KERNELS, "vec": _CONSTANTS, "softmax": _CONSTANTS}
    ratios = {family: measured_ratios(*np.concatenate(list(parts), axis=1)) for family, parts in both.items()}
    return {
        kernel: {"ratio_low": ratios[family][0], "ratio_high": ratios[family][1]}
        for kernel, family in kernels.items()
        if family in ratios
    }


def _build(num_inputs: int) -> nn.Module:
    from perfcast.published.nets.mlp import build_mlp

    return build_mlp(num_inputs, 1, WIDTH, NUM_LAYERS)


def _seconds(outputs: Tensor, context: Tensor) -> Tensor:
    return outputs[:, 0].exp() * MILLI


def _squared_logarithm(predicted: Tensor, measured: Tensor) -> Tensor:
    return (predicted.log() - measured.log()).square().mean()
