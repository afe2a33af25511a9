"""Training the larger nets of the NeuSight study's comparison."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from perfcast.evidence.train.loop import Progress, train
from perfcast.evidence.train.published.direct import archive_net, direct_task
from perfcast.evidence.train.published.study_rows import (
    PRODUCT_SIZES,
    TRAINING_TABLES,
    read_study_rows,
    select_devices,
)
from perfcast.evidence.train.task import fingerprint, summary
from perfcast.published.nets.larger import PART, build_larger
from perfcast.published.nets.store import write_predictor


def train_larger(
    name: str,
    data: Path,
    folder: Path,
    *,
    seed: int,
    vendor: str,
    left_out: Collection[str],
    num_epochs: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train one of ``LARGER`` into ``folder``; returns the record that lies beside the weights.

    Raises:
        InputError: A table is missing, no row is left, or ``folder`` holds another training's checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = read_study_rows(data, TRAINING_TABLES[PRODUCT_SIZES], PRODUCT_SIZES)
    rows = select_devices(table.take(table.operation == "bmm"), vendor, left_out)
    task, scaling = direct_task(PART, rows, partial(build_larger, name))
    outcome = train(task, seed, num_epochs, folder, progress)
    nets = {PART: {**summary(outcome, task), "fingerprint": fingerprint(task, seed)}}
    record = {"seed": seed, "vendor": vendor, "left_out": sorted(left_out), "num_epochs": num_epochs,
              "devices": sorted(set(rows.device_names().tolist())), "nets": nets}  # fmt: skip
    write_predictor(folder, name, {PART: archive_net(outcome, scaling)}, record)
    return record
