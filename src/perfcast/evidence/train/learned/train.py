"""Train the learned forecaster on folders of measured kernels."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.devices import find_device_name, load_device_entries
from perfcast.core.kernel import encode_words, join_kernel_tables
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.cost.learned.scalars import index_segments
from perfcast.cost.learned.store import (
    MODEL_NAMES,
    WEIGHTS,
    family_of,
    model_names_of,
    read_content,
    save_family,
)
from perfcast.errors import CalibrationError, InputError
from perfcast.evidence.dataset.measurements import Measurements, tidy
from perfcast.evidence.dataset.quality import judge
from perfcast.evidence.dataset.table import read_tables
from perfcast.evidence.train.learned.fit import fit_family
from perfcast.evidence.train.learned.prepared import TrainingRows
from perfcast.files.lock import hold_lock
from perfcast.files.writing import make_folder, write_bytes_atomically

VERSION = 2
#: Of ``perfcast train vision``.
FITTED_TO_STEPS = ("convolution_narrow",)

#: Rows of one device and segment that are used; more change nothing but the time.
MOST_ROWS: Mapping[str, int] = {
    "product_wide": 6000,
    "product_narrow": 9000,
    "convolution": 5000,
    "attention": 5000,
    "experts": 5000,
    "rows": 2500,
    "scan": 3000,
}


@dataclass(frozen=True)
class ModelRecord:
    """How one model came to be; stored with it.

    Attributes:
        version: Of physics and training: a model of another one is trained again.
        seconds: That the training took; not in the file, so that the same rows give the same bytes.
    """

    model: str
    version: int
    num_rows: int
    devices: tuple[str, ...]
    tables: tuple[str, ...]
    left_out: tuple[str, ...]
    fingerprint: str
    seconds: float = 0.0


def collect_rows(
    folders: Sequence[Path],
    left_out_dies: frozenset[str] = frozenset(),
    use: Callable[[str], bool] | None = None,
) -> dict[str, tuple[TrainingRows, tuple[str, ...]]]:
    """Trustworthy measurements by model, with the tables they came from.

    Args:
        left_out_dies: No row of a device with such a die is used.
        use: Which tables, by stem; all by default.

    Raises:
        InputError: Nothing is left to train on.
    """
    devices = {name: entry.device for name, entry in load_device_entries().items()}
    parts: defaultdict[str, list[Measurements]] = defaultdict(list)
    for folder in folders:
        for raw in read_tables(folder, use):
            for measured in tidy(raw, find_device_name)[0]:
                kept = measured.take(np.flatnonzero(judge(measured, devices) == ""))
                dies = np.array([devices[str(name)].die for name in kept.catalog_device], dtype=object)
                kept = kept.take(np.flatnonzero(~np.isin(dies.astype(str), sorted(left_out_dies))))
                for model, some in split_models(kept):
                    parts[model].append(thin(some, MOST_ROWS[model]))
    if not parts:
        raise InputError(f"no measured kernels in {', '.join(str(folder) for folder in folders)}")
    return {
        model: (_training_rows(parts[model], devices), tuple(p.table for p in parts[model]))
        for model in parts
    }


def split_models(measured: Measurements) -> list[tuple[str, Measurements]]:
    """Measurements of one family by the model that prices them."""
    names = model_names_of(measured.kernels)
    return [(str(name), measured.take(np.flatnonzero(names == name))) for name in sorted(set(names.tolist()))]


def thin(measured: Measurements, most: int) -> Measurements:
    """At most ``most`` rows of each device and segment, drawn evenly with a fixed seed."""
    _, segment = index_segments(measured.kernels)
    _, device = encode_words(measured.catalog_device)
    group = device * (segment.max(initial=0) + 1) + segment
    shuffled = np.random.default_rng(0).permutation(len(group))
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    sorted_group = group[order]
    first = np.searchsorted(sorted_group, sorted_group)
    return measured.take(np.sort(order[np.arange(len(order)) - first < most]))


def _training_rows(parts: Sequence[Measurements], devices: Mapping[str, Device]) -> TrainingRows:
    names = np.concatenate([part.catalog_device for part in parts]).astype(str)
    present, index = np.unique(names, return_inverse=True)
    return TrainingRows(
        kernels=join_kernel_tables([part.kernels for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        devices=tuple(devices[name] for name in present.tolist()),
        device_index=index.astype(np.int64),
    )


def train_model(
    model: str, rows: TrainingRows, tables: Sequence[str], left_out: Sequence[str], threads: int = 1
) -> tuple[FittedFamily, ModelRecord]:
    """Fit one model."""
    began = time.perf_counter()
    fitted = fit_family(family_of(model), rows, threads)
    used = sorted({rows.devices[i].name for i in np.unique(rows.device_index).tolist()})
    record = ModelRecord(
        model, VERSION, len(rows.seconds), tuple(used), tuple(sorted(set(tables))), tuple(left_out),
        fingerprint_of(rows), round(time.perf_counter() - began, 1),
    )  # fmt: skip
    return fitted, record


def train_all(
    folders: Sequence[Path],
    output: Path,
    left_out: Sequence[str] = (),
    threads: int = 1,
    restart: bool = False,
    report: Callable[[str, ModelRecord | None], None] = lambda model, record: None,
) -> list[ModelRecord]:
    """Train every model that the data allow into ``output``; finished ones of the same rows are kept.

    Args:
        left_out: Catalog names; everything on their dies is left out.
        report: Called with a model's name when it starts (record None) and when it is done.

    Raises:
        InputError: Nothing to train on, another process trains into ``output``, or it cannot be written.
    """
    with hold_lock(output, elsewhere="name another folder with --output"):
        return _train_all(folders, output, left_out, threads, restart, report)


def _train_all(
    folders: Sequence[Path],
    output: Path,
    left_out: Sequence[str],
    threads: int,
    restart: bool,
    report: Callable[[str, ModelRecord | None], None],
) -> list[ModelRecord]:
    collected = collect_rows(folders, dies_of(left_out))
    _carry_over(output)
    acquainted = vendors_of([rows for rows, _ in collected.values()])
    records = []
    for model in model_order(collected):
        rows, tables = collected[model]
        fingerprint = fingerprint_of(rows)
        finished = None if restart else _finished(model, output, fingerprint)
        if finished is None:
            report(model, None)
            fitted, finished = train_model(model, rows, tables, left_out, threads)
            stored = {name: value for name, value in asdict(finished).items() if name != "seconds"}
            save_family(replace(fitted, acquainted=acquainted), model, output, stored)
        report(model, finished)
        records.append(finished)
    return records


def _carry_over(output: Path) -> None:
    """Models that whole steps are behind, not tables of kernels: as they are shipped."""
    make_folder(output)
    for name in FITTED_TO_STEPS:
        content = (WEIGHTS / f"{name}.json.gz").read_bytes()
        write_bytes_atomically(output / f"{name}.json.gz", content, updates=True)


def vendors_of(parts: Iterable[TrainingRows]) -> frozenset[str]:
    """Of whose devices some kernel was measured."""
    return frozenset(device.vendor for rows in parts for device in rows.devices)


def fingerprint_of(rows: TrainingRows) -> str:
    """Digest of measurements and devices: the same rows train the same model."""
    digest = hashlib.sha256(rows.seconds.tobytes() + rows.device_index.tobytes())
    digest.update(" ".join(device.name for device in rows.devices).encode())
    for name in sorted(rows.kernels.columns):
        column = rows.kernels.columns[name]
        digest.update(column.tobytes() if column.dtype.kind == "f" else "|".join(column.tolist()).encode())
    return digest.hexdigest()[:16]


def _finished(model: str, output: Path, fingerprint: str) -> ModelRecord | None:
    try:
        record = read_content(model, output)["record"]
    except CalibrationError:
        return None
    if record.get("fingerprint") != fingerprint or record.get("version") != VERSION:
        return None
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    return ModelRecord(**values)


def dies_of(names: Sequence[str]) -> frozenset[str]:
    """Dies of devices by name: siblings on one die leave together."""
    entries = load_device_entries()
    return frozenset(entries[name].device.die for name in names)


def model_order(models: Mapping[str, object]) -> list[str]:
    """Models in the order in which they are trained and reported."""
    return [name for name in MODEL_NAMES if name in models]
