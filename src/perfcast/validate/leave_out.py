"""The learned forecaster trained without the device that it is then asked about."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from perfcast.catalog.devices import load_device, load_device_entries
from perfcast.core.kernel import KernelTable
from perfcast.cost.learned.fit import TrainingRows
from perfcast.cost.learned.store import model_names_of, save_family
from perfcast.errors import InputError
from perfcast.train.learned import collect_rows, model_order, train_model
from perfcast.validate.cases import Cases

EACH = "each"
BY = ("die", "architecture")

Say = Callable[[str], None]
Collected = Mapping[str, tuple[TrainingRows, tuple[str, ...]]]


@dataclass(frozen=True)
class LeaveOut:
    """Which devices are left out, one after the other, and what the rest is trained on.

    Attributes:
        devices: Names of the catalog, or 'each' for all that are scored.
        by: 'die' takes out every device on the same die; 'architecture' every one of the same architecture.
        train_on: Folders of measured tables.
    """

    devices: tuple[str, ...]
    train_on: tuple[Path, ...]
    by: str = "die"
    threads: int = 1

    def groups(self, present: Sequence[str]) -> dict[str, frozenset[str]]:
        """Name → dies that leave together, of ``present`` devices where each is left out.

        Raises:
            UnknownNameError: A device that the catalog does not have.
        """
        entries = load_device_entries()
        names = sorted({*present} - {""}) if EACH in self.devices else self.devices
        groups = {}
        for device in (load_device(name) for name in names):
            key = device.die if self.by == "die" else device.architecture
            dies = {e.device.die for e in entries.values() if e.device.architecture == device.architecture}
            groups[key] = frozenset({device.die} if self.by == "die" else dies)
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
        dies: Only rows of these are scored; None for all.
        left_out: Catalog names of the devices on them.
    """

    name: str
    folder: Path | None
    dies: frozenset[str] | None
    left_out: tuple[str, ...]
    description: str

    @classmethod
    def trained(cls, folder: Path | None) -> Fold:
        """All rows, by weights that exist already."""
        return cls("all rows", folder, None, (), "nothing beyond what the predictors' own training left out")

    def scores(self, device: str) -> bool:
        """Whether rows of a device, by the catalog's name, belong to this fold."""
        return self.dies is None or is_on(device, self.dies)

    def select(self, cases: Sequence[Cases]) -> list[Cases]:
        """The cases that belong to this fold."""
        if self.dies is None:
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
    leave_out: LeaveOut | None, weights: Path | None, cases: Sequence[Cases], say: Say
) -> Iterator[list[Fold]]:
    """The folds of a suite; their weights live as long as the context.

    Raises:
        InputError: Nothing to train on, or nothing to score.
    """
    if leave_out is None:
        yield [Fold.trained(weights)]
        return
    groups = leave_out.groups(_present(cases))
    groups = {name: dies for name, dies in groups.items() if any(is_on(d, dies) for d in _present(cases))}
    if not groups:
        raise InputError(f"--data has no row of {', '.join(leave_out.devices)}")
    say(f"reading what to train on: {', '.join(map(str, leave_out.train_on))}")
    collected = collect_rows(leave_out.train_on)
    with tempfile.TemporaryDirectory(prefix="perfcast-leave-out-") as place:
        yield [
            _train(Path(place), number, name, dies, collected, cases, leave_out, say)
            for number, (name, dies) in enumerate(groups.items())
        ]


def _present(cases: Sequence[Cases]) -> list[str]:
    return sorted({str(name) for part in cases for name in set(part.catalog_device.tolist())} - {""})


def _train(
    place: Path,
    number: int,
    name: str,
    dies: frozenset[str],
    collected: Collected,
    cases: Sequence[Cases],
    leave_out: LeaveOut,
    say: Say,
) -> Fold:
    entries = load_device_entries()
    left_out = tuple(key for key, entry in entries.items() if entry.device.die in dies)
    fold = Fold(name, place / f"fold{number}", dies, left_out, f"{name}: {', '.join(left_out)}")
    assert fold.folder is not None
    fold.folder.mkdir()
    wanted = models_of(fold.select(cases))
    for model in model_order(collected):
        rows = without_dies(collected[model][0], dies)
        if model not in wanted or not len(rows.seconds):
            continue
        say(f"without {name}: training {model} on {len(rows.seconds)} rows")
        fitted, record = train_model(model, rows, collected[model][1], left_out, leave_out.threads)
        save_family(fitted, model, fold.folder, asdict(record))
    return fold


def without_dies(rows: TrainingRows, dies: frozenset[str]) -> TrainingRows:
    """The rows of devices on other dies, and those devices alone."""
    stays = np.array([device.die not in dies for device in rows.devices], dtype=bool)
    kept = rows.take(stays[rows.device_index])
    number = np.cumsum(stays) - 1
    devices = tuple(d for d, stay in zip(rows.devices, stays.tolist(), strict=True) if stay)
    return TrainingRows(kept.kernels, kept.seconds, devices, number[kept.device_index].astype(np.int64))


def models_of(cases: Sequence[Cases]) -> frozenset[str]:
    """Models that the cases' kernels ask for; those of whole steps are not known beforehand."""
    tables: list[KernelTable] = [part.kernels for part in cases if part.kernels is not None]
    return frozenset(str(name) for table in tables for name in set(model_names_of(table).tolist()))
