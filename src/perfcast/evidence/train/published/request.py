"""What a published predictor is to be trained on, and where to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.evidence.train.loop import Progress, train
from perfcast.evidence.train.published.study_rows import (
    TRAINING_TABLES,
    StudyRows,
    read_study_rows,
    select_devices,
)
from perfcast.evidence.train.task import Outcome, Task, fingerprint, summary
from perfcast.files.writing import make_folder
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.store import write_predictor


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """One training of one predictor.

    Attributes:
        data: Folder of the measured tables.
        folder: Where checkpoints, weights and record go.
        vendor: Whose devices are learned from.
        left_out: Catalog names of devices whose rows are neither trained on nor looked up.
    """

    data: Path
    folder: Path
    seed: int
    vendor: str
    left_out: Collection[str]
    num_epochs: int
    progress: Progress | None = None

    def read(self, sizes: tuple[str, ...]) -> StudyRows:
        """All rows of the table with these sizes, whatever the device.

        Raises:
            InputError: The table is missing or lacks a column.
        """
        return read_study_rows(self.data, TRAINING_TABLES[sizes], sizes)

    def is_measured(self, rows: StudyRows) -> bool:
        """Whether devices of the vendor are among the rows: convolutions were not measured on AMD's."""
        return any(device.vendor == self.vendor for device in rows.devices)

    def select(self, rows: StudyRows) -> StudyRows:
        """The rows of the vendor's devices without those left out.

        Raises:
            InputError: No row is left.
        """
        return select_devices(rows, self.vendor, self.left_out)


@dataclass(frozen=True, eq=False)
class TrainedNet:
    """A trained net and what the record says of it."""

    outcome: Outcome
    record: Mapping[str, Any]


def train_net(task: Task, request: TrainingRequest) -> TrainedNet:
    """Train one net of a predictor, from its checkpoint if there is one.

    Raises:
        InputError: The folder holds another training's checkpoint.
    """
    make_folder(request.folder)
    outcome = train(task, request.seed, request.num_epochs, request.folder, request.progress)
    return TrainedNet(outcome, {**summary(outcome, task), "fingerprint": fingerprint(task, request.seed)})


def write_trained(
    name: str,
    request: TrainingRequest,
    nets: Mapping[str, TrainedNet],
    archives: Mapping[str, Archive],
    rows: Iterable[StudyRows],
    **notes: object,
) -> dict[str, Any]:
    """Write a predictor of nets; returns the record that lies beside the weights.

    Args:
        rows: What was trained on.
        notes: Further entries of the record.
    """
    record = {
        "seed": request.seed,
        "vendor": request.vendor,
        "left_out": sorted(request.left_out),
        "num_epochs": request.num_epochs,
        "devices": sorted({name for part in rows for name in part.device_names().tolist()}),
        **notes,
        "nets": {part: net.record for part, net in nets.items()},
    }
    write_predictor(request.folder, name, archives, record)
    return record
