"""Finished measurements of a profile: one JSON object a line, appended as they are made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from perfcast.cost.cluster_profile import CollectiveSample
from perfcast.errors import CalibrationError
from perfcast.files.writing import write_text_atomically

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


def append_records(path: Path, records: list[Record]) -> None:
    """Add lines, flushed, so that an interrupted run has them."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(record), allow_nan=False) + "\n" for record in records)


def load_records(path: Path, setup: str) -> list[Record]:
    """The fastest measurement of each key, of this setup: disturbances only add.

    A last line that was cut off is dropped from the file, so that nothing is appended to it.

    Raises:
        CalibrationError: Another line is not a measurement.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole, _, cut_off = text.rpartition("\n")
    if cut_off:
        write_text_atomically(path, whole + "\n" if whole else "", updates=True)
    found: dict[Key, Record] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        record = _parse(line, f"{path}:{number}")
        known = found.get(record.key)
        if record.setup == setup and (known is None or record.seconds < known.seconds):
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


def count_records(path: Path) -> int:
    """Lines in the file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _parse(line: str, where: str) -> Record:
    try:
        data = json.loads(line)
        return Record(**{f.name: data[f.name] for f in fields(Record)})
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CalibrationError(
            f"{where}: not a measurement ({error!r}); start again with --restart"
        ) from None
