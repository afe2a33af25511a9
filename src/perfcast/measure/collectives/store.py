"""Finished measurements of a profile, appended as they are made (``files.records``)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from perfcast.cost.cluster_profile import CollectiveSample, fit_axes
from perfcast.cost.collective_fit.choose import LEAST_SIZES
from perfcast.files.records import Kind, Plain, RecordFile, read_records

#: Axis, collective, size wanted.
Key = tuple[str, str, int]

_SLOWER_THAN_LARGER = 1.05
_SLOWER_THAN_NEIGHBOURS = 1.15


@dataclass(frozen=True, slots=True)
class Record:
    """One size of one collective along one axis.

    Attributes:
        setup: Backend, mesh and version of PyTorch; measurements of another setup do not count.
        axis, collective, wanted_bytes: Its name.
        axis_size, size_bytes, seconds: What was found; ``size_bytes`` is the full buffer as sent.
        spread: Largest over smallest of the rounds that count, less one.
        num_disturbed: Rounds set aside.
        replaces: Whether what was measured of the same key before counts no more.
    """

    setup: str
    axis: str
    collective: str
    wanted_bytes: int
    axis_size: int
    size_bytes: int
    seconds: float
    spread: float
    num_disturbed: int
    replaces: bool = False

    @property
    def key(self) -> Key:
        """What it is a measurement of."""
        return (self.axis, self.collective, self.wanted_bytes)

    def sample(self) -> CollectiveSample:
        """As the fit takes it."""
        return CollectiveSample(self.axis, self.axis_size, self.collective, self.size_bytes, self.seconds)


def measurements_path(profile_path: Path) -> Path:
    """Beside the profile that is made of them."""
    return profile_path.with_name(profile_path.name + ".measurements.jsonl")


def _parse(data: Plain) -> Record:
    record = Record(**{f.name: data[f.name] for f in fields(Record) if f.name in data})
    if not (math.isfinite(record.seconds) and record.seconds > 0 and record.size_bytes > 0):
        raise ValueError(f"{record.key}: measured {record.seconds!r} s")
    return record


#: A file of measurements of collectives.
KIND = Kind("collectives", 1, _parse, elsewhere="name another profile with --output")


def append_records(file: RecordFile[Record], records: Sequence[Record]) -> None:
    """Add what was measured: when this returns an interrupted run has it."""
    file.append(*map(asdict, records))


def load_records(path: Path, setup: str) -> list[Record]:
    """What counts of a file, also while it is written to (``that_count``).

    Raises:
        InputError: It cannot be read, or is another kind of file.
    """
    return that_count(read_records(path, KIND).records, setup)


def that_count(records: Iterable[Record], setup: str) -> list[Record]:
    """Of this setup, the fastest of each key, from the last that replaces others: disturbances only add."""
    found: dict[Key, Record] = {}
    for record in records:
        known = found.get(record.key)
        is_better = known is None or record.replaces or record.seconds < known.seconds
        if record.setup == setup and is_better:
            found[record.key] = record
    return list(found.values())


def doubtful(records: list[Record]) -> list[Key]:
    """What is worth a second look, smallest first.

    Messages that took longer than larger ones, or much longer than the line between their neighbours.
    """
    sweeps: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda r: r.key):
        sweeps.setdefault((record.axis, record.collective), []).append(record)
    return [key for sweep in sweeps.values() for key in _doubtful_of(sweep)]


def _doubtful_of(sweep: list[Record]) -> list[Key]:
    found = []
    for i, record in enumerate(sweep):
        larger = min((r.seconds for r in sweep[i + 1 :]), default=float("inf"))
        is_doubtful = record.seconds > _SLOWER_THAN_LARGER * larger
        if 0 < i < len(sweep) - 1:
            before, after = sweep[i - 1], sweep[i + 1]
            share = (record.size_bytes - before.size_bytes) / (after.size_bytes - before.size_bytes)
            between = before.seconds + share * (after.seconds - before.seconds)
            is_doubtful = is_doubtful or record.seconds > _SLOWER_THAN_NEIGHBOURS * between
        if is_doubtful:
            found.append(record.key)
    return found


def refused_keys(records: Sequence[Record]) -> list[Key]:
    """All of what makes no curve though sizes enough were measured, smallest first."""
    refused = {(each.axis, each.collective) for each in fit_axes(r.sample() for r in records).refused}
    sweeps = Counter(record.key[:2] for record in records if record.key[:2] in refused)
    return sorted(record.key for record in records if sweeps[record.key[:2]] >= LEAST_SIZES)
