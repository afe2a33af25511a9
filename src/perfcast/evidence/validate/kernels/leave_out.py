"""The learned forecaster trained without the device that it is then asked about."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from perfcast.catalogs.devices import load_device, load_device_entries
from perfcast.core.machine.hardware import Device
from perfcast.core.machine.instructions import instruction_family
from perfcast.cost.learned.store import model_names_of, save_family
from perfcast.errors import InputError
from perfcast.evidence.train.learned.prepared import TrainingRows
from perfcast.evidence.train.learned.train import collect_rows, model_order, train_model, vendors_of
from perfcast.evidence.validate.kernels.cases import Cases

EACH = "each"
By = Literal["die", "architecture", "family", "vendor"]
BYS: tuple[By, ...] = get_args(By)
_KEYS: Mapping[By, Callable[[Device], str]] = {
    "die": lambda device: device.die,
    "architecture": lambda device: device.architecture,
    "family": lambda device: f"{device.vendor} {instruction_family(device)}",
    "vendor": lambda device: device.vendor,
}

Say = Callable[[str], None]
Demand = Mapping[str, set[str]]  #: Device of the catalog → models that its rows ask for.
Collected = Mapping[str, tuple[TrainingRows, tuple[str, ...]]]


@dataclass(frozen=True)
class LeaveOut:
    """Which devices are left out, one after the other, and what the rest is trained on.

    Attributes:
        devices: Names of the catalog, or 'each' for all that are scored.
        by: What leaves with a device: all on its die, of its architecture, whose matrix units take the same
            instructions, or of its vendor.
        train_on: Folders of measured tables.
    """

    devices: tuple[str, ...]
    train_on: tuple[Path, ...]
    by: By = "die"
    threads: int = 1

    def groups(self, present: Sequence[str]) -> dict[str, frozenset[str]]:
        """Name → dies that leave together, of ``present`` devices where each is left out.

        Raises:
            UnknownNameError: A device that the catalog does not have.
        """
        entries = load_device_entries()
        names = sorted({*present} - {""}) if EACH in self.devices else self.devices
        groups, key = {}, _KEYS[self.by]
        for device in (load_device(name) for name in names):
            alike = {e.device.die for e in entries.values() if key(e.device) == key(device)}
            groups[key(device)] = frozenset(alike)
        return groups

    def keeps(self, device: str) -> bool:
        """Whether rows of a device (by the catalog's name, '' for none) are scored."""
        if EACH in self.devices:
            return device != ""
        return device != "" and any(is_on(device, dies) for dies in self.groups(()).values())


@dataclass(frozen=True)
class Fold:
    """One training of the learned forecaster, and the rows that it is asked about.

    Attributes:
        folder: Its weights; None for the shipped ones.
        dies: Only rows of these are scored, and nothing learned from them; empty for all rows.
        left_out: Catalog names of the devices on them.
    """

    name: str
    folder: Path | None
    dies: frozenset[str]
    left_out: tuple[str, ...]
    description: str

    @classmethod
    def trained(cls, folder: Path | None) -> Fold:
        """All rows, by weights that exist already."""
        return cls(
            "all rows", folder, frozenset(), (), "nothing beyond what the predictors' own training left out"
        )

    def scores(self, device: str) -> bool:
        """Whether rows of a device, by the catalog's name, belong to this fold."""
        return not self.dies or is_on(device, self.dies)

    def select(self, cases: Sequence[Cases]) -> list[Cases]:
        """The cases that belong to this fold."""
        if not self.dies:
            return list(cases)
        chosen = []
        for part in cases:
            mine = np.array([self.scores(name) for name in part.catalog_device.tolist()], dtype=bool)
            if mine.any():
                chosen.append(part.take(mine))
        return chosen


def is_on(device: str, dies: frozenset[str]) -> bool:
    """Whether a device of the catalog is on one of the dies."""
    entry = load_device_entries().get(device)
    return entry is not None and entry.device.die in dies


@contextmanager
def folds_of(
    leave_out: LeaveOut | None, weights: Path | None, demand: Demand, say: Say
) -> Iterator[list[Fold]]:
    """The folds of a suite; their weights live as long as the context.

    Raises:
        InputError: Nothing to train on, or nothing to score.
    """
    if leave_out is None:
        yield [Fold.trained(weights)]
        return
    groups = {
        name: dies
        for name, dies in leave_out.groups(list(demand)).items()
        if any(is_on(device, dies) for device in demand)
    }
    if not groups:
        raise InputError(f"--data has no row of {', '.join(leave_out.devices)}")
    say(f"reading what to train on: {', '.join(map(str, leave_out.train_on))}")
    collected = collect_rows(leave_out.train_on)
    with tempfile.TemporaryDirectory(prefix="perfcast-leave-out-") as place:
        folds = [_fold(Path(place) / f"fold{i}", *group) for i, group in enumerate(groups.items())]
        for fold in folds:
            wanted = {model for device, models in demand.items() if fold.scores(device) for model in models}
            _train(fold, {k: v for k, v in collected.items() if k in wanted}, leave_out.threads, say)
        yield folds


def _fold(folder: Path, name: str, dies: frozenset[str]) -> Fold:
    left_out = tuple(key for key, entry in load_device_entries().items() if entry.device.die in dies)
    return Fold(name, folder, dies, left_out, f"{name}: {', '.join(left_out)}")


def _train(fold: Fold, collected: Collected, threads: int, say: Say) -> None:
    """Fit the models without the fold's dies, and write them into its folder."""
    assert fold.folder is not None
    fold.folder.mkdir()
    kept = {model: without_dies(collected[model][0], fold.dies) for model in model_order(collected)}
    for model, rows in kept.items():
        if not len(rows.seconds):
            continue
        say(f"without {fold.name}: training {model} on {len(rows.seconds)} rows")
        fitted, record = train_model(model, rows, collected[model][1], fold.left_out, threads)
        save_family(replace(fitted, acquainted=vendors_of(kept.values())), model, fold.folder, asdict(record))


def without_dies(rows: TrainingRows, dies: frozenset[str]) -> TrainingRows:
    """The rows of devices on other dies, and those devices alone."""
    stays = np.array([device.die not in dies for device in rows.devices], dtype=bool)
    kept = rows.take(stays[rows.device_index])
    number = np.cumsum(stays) - 1
    devices = tuple(d for d, stay in zip(rows.devices, stays.tolist(), strict=True) if stay)
    return TrainingRows(kept.kernels, kept.seconds, devices, number[kept.device_index].astype(np.int64))


def demand_of(cases: Sequence[Cases]) -> dict[str, set[str]]:
    """Which models the cases of each device of the catalog ask for."""
    demand: defaultdict[str, set[str]] = defaultdict(set)
    for part in cases:
        if part.kernels is None:
            continue
        models = model_names_of(part.kernels)
        for device, model in set(zip(part.catalog_device.tolist(), models.tolist(), strict=True)):
            if device:
                demand[device].add(str(model))
    return dict(demand)
