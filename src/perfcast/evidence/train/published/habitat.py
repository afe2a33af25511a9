"""Training Habitat's nets, and putting away the measured kernels that it scales."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.evidence.train.loop import Progress, train
from perfcast.evidence.train.published.direct import archive_net, direct_task
from perfcast.evidence.train.published.study_rows import (
    CONVOLUTION_SIZES,
    PRODUCT_SIZES,
    TRAINING_TABLES,
    VECTOR_SIZES,
    StudyRows,
    read_study_rows,
    select_devices,
)
from perfcast.evidence.train.task import fingerprint, summary
from perfcast.published.habitat.predictor import SOURCES
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.direct import WIDTH
from perfcast.published.nets.mlp import build_mlp
from perfcast.published.nets.store import write_predictor
from perfcast.published.neusight.nets import row_work

NUM_LAYERS = 8

_TRAINED = {"linear": PRODUCT_SIZES, "bmm": PRODUCT_SIZES, "convolution": CONVOLUTION_SIZES}
_OPERATIONS = {"convolution": "conv"}


def train_habitat(
    data: Path,
    folder: Path,
    *,
    seed: int,
    vendor: str,
    left_out: Collection[str],
    num_epochs: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train the nets into ``folder``; returns the record that lies beside the weights.

    Convolutions were not measured on AMD's devices and have no net there.

    Raises:
        InputError: A table is missing, no row is left, or ``folder`` holds another training's checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archives, nets = {}, {}
    build = partial(_build, NUM_LAYERS)
    for name, sizes in _TRAINED.items():
        table = read_study_rows(data, TRAINING_TABLES[sizes], sizes)
        rows = table.take(table.operation == _OPERATIONS.get(name, name))
        if name == "convolution" and all(device.vendor != vendor for device in rows.devices):
            continue
        task, scaling = direct_task(name, select_devices(rows, vendor, left_out), build)
        outcome = train(task, seed, num_epochs, folder, progress)
        archives[name] = archive_net(outcome, scaling)
        nets[name] = {**summary(outcome, task), "fingerprint": fingerprint(task, seed)}
    rows = select_devices(
        read_study_rows(data, TRAINING_TABLES[VECTOR_SIZES], VECTOR_SIZES), vendor, left_out
    )
    archives[SOURCES] = archive_sources(rows)
    record = {"seed": seed, "vendor": vendor, "left_out": sorted(left_out), "num_epochs": num_epochs,
              "devices": sorted(set(rows.device_names().tolist())), "nets": nets}  # fmt: skip
    write_predictor(folder, "habitat", archives, record)
    return record


def _build(num_layers: int, num_inputs: int) -> Any:
    return build_mlp(num_inputs, 1, WIDTH, num_layers)


def archive_sources(rows: StudyRows) -> Archive:
    """Measured row kernels, as ``habitat.MeasuredRows`` holds them."""
    bytes_each = {str(name): row_work(str(name))[0] for name in set(rows.operation)}
    each = np.array([bytes_each[str(name)] for name in rows.operation], dtype=np.float64)
    arrays = {
        "operation": rows.operation.astype(np.str_),
        "device": rows.device_names().astype(np.str_),
        "shape": rows.shape,
        "traffic_bytes": each * rows.shape.prod(axis=1),
        "seconds": rows.seconds,
    }
    return Archive(arrays, {})
