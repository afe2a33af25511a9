"""Finished cells on disk: Parquet files of whole batches, written whole or not at all.

A store's folder holds one folder per job (``SweepJob.key``), with ``job.json`` saying what it is of, one
file per batch of finished cells, and ``parts.jsonl``, the files' checksums (``files.records``). A row carries
its cell's key. A cell is finished when a file holds its key: a run that is killed leaves whole files only,
and the next run computes what no file holds. A file that is damaged is named and set aside
(``NAME.parquet.damaged``), and its cells are computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import polars as pl

from perfcast.errors import InputError, PlanError
from perfcast.files.limits import TABLE_BYTES
from perfcast.files.lock import StoreWarning
from perfcast.files.reading import read_bytes
from perfcast.files.reading_tables import read_frame
from perfcast.files.records import Kind, Plain, RecordFile, open_records, set_aside
from perfcast.files.writing import make_folder, write_bytes_atomically, write_text_atomically
from perfcast.searches.sweep.cells import CELL_COLUMNS, KEY, RESULT_COLUMNS, Cell, Row, SearchCell, SweepJob

JOB_FILE = "job.json"
_PARTS_FILE = "parts.jsonl"
_TYPES: Mapping[type, type[pl.DataType]] = {
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
    bool: pl.Boolean,
}


def part_schema(job: SweepJob) -> dict[str, type[pl.DataType]]:
    """Columns of a part: the cell's key and values, the row's place and outcome, the search's values.

    Raises:
        ValueError: The search has a column of a reserved name.
    """
    own = {KEY: str, **CELL_COLUMNS, **RESULT_COLUMNS}
    if taken := own.keys() & job.columns.keys():
        raise ValueError(f"columns {sorted(taken)} are the sweep's own; rename the search's")
    return {name: _TYPES[kind] for name, kind in {**own, **job.columns}.items()}


def search_part(search: SearchCell, job: SweepJob, keys: Sequence[str], cells: Sequence[Cell]) -> bytes:
    """Search some cells and return their part of the store, as Parquet.

    A cell without a plan has one row, whose outcome says why.

    Raises:
        InputError: A cell that cannot be searched for another reason; names the cell.
        ValueError: A search's row has other columns than the job says.
    """
    rows: list[Row] = []
    for key, cell in zip(keys, cells, strict=True):
        rows += _search_rows(search, job, key, cell)
    table = pl.DataFrame(rows, schema=part_schema(job), orient="row", strict=True)
    return write_table(table)


def _search_rows(search: SearchCell, job: SweepJob, key: str, cell: Cell) -> list[Row]:
    own: Row = {KEY: key, **asdict(cell)}
    empty: Row = dict.fromkeys(job.columns)
    try:
        found, outcome = search(cell), "nothing found"
    except PlanError as error:
        found, outcome = [], str(error)
    except InputError as error:
        raise InputError(f"{cell}: {error}") from error
    for row in found:
        if row.keys() != job.columns.keys():
            raise ValueError(f"{cell}: the search gave {sorted(row)}, the job says {sorted(job.columns)}")
    if not found:
        return [{**own, "place": 0, "outcome": outcome, **empty}]
    return [{**own, "place": place, "outcome": "", **row} for place, row in enumerate(found, 1)]


def write_table(table: pl.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file; equal tables give equal bytes."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


@dataclass(frozen=True)
class SweepStore:
    """The finished cells of one job; made by ``open_store``, which keeps other writers out.

    Attributes:
        folder: Where the parts are.
        job: What they are of.
        parts: Checksums of the files.
        finished: Keys of the finished cells; grows with ``add``.
    """

    folder: Path
    job: SweepJob
    parts: RecordFile[tuple[str, str]]
    finished: set[str] = field(default_factory=set)

    def add(self, keys: Sequence[str], part: bytes) -> None:
        """Keep a batch of finished cells.

        Raises:
            InputError: The folder cannot be written.
        """
        name = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()[:32]
        path = self.folder / f"{name}.parquet"
        write_bytes_atomically(path, part, updates=True)
        self.parts.append({"part": path.name, "sha256": hashlib.sha256(part).hexdigest()})
        self.finished.update(keys)

    def read(self, keys: Sequence[str]) -> pl.DataFrame:
        """The rows of some cells, in the order of ``keys`` and then of their places.

        Raises:
            KeyError: A cell that is not finished.
        """
        if missing := [key for key in keys if key not in self.finished]:
            raise KeyError(f"{len(missing)} cells are not finished, such as {missing[0]}")
        schema = part_schema(self.job)
        parts = [_read_part(path, None) for path in _list_parts(self.folder)]
        kept = pl.concat([pl.DataFrame(schema=schema), *parts]).unique([KEY, "place"], keep="any")
        number = "number of the cell"  # no search has a column of this name
        order = pl.DataFrame({KEY: keys, number: range(len(keys))}, schema={KEY: pl.String, number: pl.Int64})
        return order.join(kept, on=KEY, how="inner").sort(number, "place").drop(number, KEY)


@contextmanager
def open_store(folder: Path, job: SweepJob) -> Iterator[SweepStore]:
    """Open the folder of a job, made where there is none; one process at a time.

    Raises:
        InputError: It cannot be written, or another sweep writes to it.
    """
    own = make_folder(folder / job.key)
    kind = Kind("parts of a sweep", 1, _parse_part, {"job": job.key}, "name another folder")
    with open_records(own / _PARTS_FILE, kind) as parts:
        for left_behind in own.glob(".perfcast-*.tmp"):
            left_behind.unlink(missing_ok=True)
        about = {"settings": job.settings, "columns": job.described_columns, "versions": job.versions}
        write_text_atomically(own / JOB_FILE, json.dumps(about, indent=1) + "\n", updates=True)
        yield SweepStore(own, job, parts, _find_finished(own, parts))


def _parse_part(data: Plain) -> tuple[str, str]:
    return str(data["part"]), str(data["sha256"])


def _find_finished(folder: Path, parts: RecordFile[tuple[str, str]]) -> set[str]:
    """Keys in files that are whole; others are set aside.

    A file without a checksum was left by a run that was killed between the two, or by an older version: it
    is taken where it can be read, and gets one.
    """
    known = dict(parts.records)
    finished: set[str] = set()
    for path in _list_parts(folder):
        found = hashlib.sha256(
            read_bytes(path, what="a part of a sweep", usual_bytes=TABLE_BYTES)
        ).hexdigest()
        try:
            if known.get(path.name, found) != found:
                raise InputError(f"{path}: its checksum is another")
            finished.update(_read_part(path, [KEY])[KEY])
        except InputError as error:
            place = set_aside(path, "damaged")
            kept = f"It is kept as {place.name}" if place else "It is gone"
            warnings.warn(f"{error}. {kept}, and its cells are computed again", StoreWarning, stacklevel=5)
        else:
            if path.name not in known:
                parts.append({"part": path.name, "sha256": found})
    return finished


def _list_parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _read_part(path: Path, columns: list[str] | None) -> pl.DataFrame:
    return read_frame(path, what="a part of a sweep", columns=columns)
