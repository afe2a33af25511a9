"""Training Habitat's nets, and putting away the measured kernels that it scales."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import nn

from perfcast.evidence.train.loop import measured_ratios
from perfcast.evidence.train.published.direct import archive_net, direct_task
from perfcast.evidence.train.published.li2020 import table_of
from perfcast.evidence.train.published.request import (
    TrainedNet,
    TrainingRequest,
    train_net,
    write_trained,
)
from perfcast.evidence.train.published.study_rows import (
    CONVOLUTION_SIZES,
    PRODUCT_SIZES,
    VECTOR_SIZES,
    StudyRows,
)
from perfcast.published.habitat.predictor import SOURCES, Habitat, measured_rows
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.direct import WIDTH
from perfcast.published.nets.mlp import build_mlp
from perfcast.published.neusight.nets import net_of

NUM_LAYERS = 8

_TRAINED = {"linear": PRODUCT_SIZES, "bmm": PRODUCT_SIZES, "convolution": CONVOLUTION_SIZES}
_OPERATIONS = {"convolution": "conv"}


def train_habitat(request: TrainingRequest) -> dict[str, Any]:
    """Train the nets, and put away the measured rows that are scaled from device to device.

    Convolutions were not measured on AMD's devices and have no net there.

    Returns:
        The record that lies beside the weights.

    Raises:
        InputError: A table is missing, no row is left, or the folder holds another training's checkpoint.
    """
    nets: dict[str, TrainedNet] = {}
    archives: dict[str, Archive] = {}
    for name, sizes in _TRAINED.items():
        table = request.read(sizes)
        if sizes == CONVOLUTION_SIZES and not request.is_measured(table):
            continue
        rows = request.select(table.take(table.operation == _OPERATIONS.get(name, name)))
        task, scaling = direct_task(name, rows, partial(_build, NUM_LAYERS))
        nets[name] = train_net(task, request)
        archives[name] = archive_net(nets[name].outcome, scaling)
    measured = request.select(request.read(VECTOR_SIZES))
    archives[SOURCES] = archive_sources(measured)
    ratios = scaling_ratios(measured)
    return write_trained("habitat", request, nets, archives, [measured], ratios=ratios)


def _build(num_layers: int, num_inputs: int) -> nn.Module:
    return build_mlp(num_inputs, 1, WIDTH, num_layers)


def scaling_ratios(rows: StudyRows) -> dict[str, dict[str, tuple[float, float]]]:
    """5th and 95th percentile of measured / scaled, by the net that NeuSight would take.

    Each row is scaled from another device, so a device that was never measured is as uncertain as one that
    was.
    """
    scaled = Habitat({}, measured_rows(archive_sources(rows).arrays)).predict(
        table_of(rows, len(VECTOR_SIZES)), rows.devices, rows.device_index
    )
    nets = np.array([net_of(str(name)) or "" for name in rows.operation])
    found = {str(net): measured_ratios(rows.seconds[nets == net], scaled[nets == net]) for net in set(nets)}
    return {net: {"known": ratio, "unseen": ratio} for net, ratio in found.items() if net}


def archive_sources(rows: StudyRows) -> Archive:
    """Measured row kernels, as ``habitat.MeasuredRows`` holds them."""
    each = rows.row_work()[:, 0]
    arrays = {
        "operation": rows.operation.astype(np.str_),
        "device": rows.device_names().astype(np.str_),
        "shape": rows.shape,
        "traffic_bytes": each * rows.shape.prod(axis=1),
        "seconds": rows.seconds,
    }
    return Archive(arrays, {})
