"""Finished cells on disk: Parquet files of whole batches, written whole or not at all.

A store's folder holds one folder per job (``SweepJob.key``), with ``job.json`` saying what it is of and one
file per batch of finished cells. A row carries its cell's key. A cell is finished when a file holds its key:
a run that is killed leaves whole files only, and the next run computes what no file holds.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import polars as pl

from perfcast.errors import InputError, PlanError
from perfcast.files.writing import write_bytes_atomically, write_text_atomically
from perfcast.searches.sweep.cells import CELL_COLUMNS, KEY, RESULT_COLUMNS, Cell, Row, SearchCell, SweepJob

JOB_FILE = "job.json"
_LOCK_FILE = "lock"
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
        finished: Keys of the finished cells; grows with ``add``.
    """

    folder: Path
    job: SweepJob
    finished: set[str] = field(default_factory=set)

    def add(self, keys: Sequence[str], part: bytes) -> None:
        """Keep a batch of finished cells.

        Raises:
            InputError: The folder cannot be written.
        """
        name = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()[:32]
        write_bytes_atomically(self.folder / f"{name}.parquet", part, updates=True)
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
        InputError: It cannot be written, another sweep writes to it, or one of its files is damaged.
    """
    own = folder / job.key
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{own}: cannot be made ({error.strerror}); name a folder of your own") from None
    with _locked(own):
        for left_behind in own.glob(".perfcast-*.tmp"):
            left_behind.unlink(missing_ok=True)
        about = {"settings": job.settings, "columns": job.described_columns, "versions": job.versions}
        write_text_atomically(own / JOB_FILE, json.dumps(about, indent=1) + "\n", updates=True)
        finished: set[str] = set()
        for path in _list_parts(own):
            finished.update(_read_part(path, [KEY])[KEY])
        yield SweepStore(own, job, finished)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system frees it when the process ends, however it ends."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK_FILE)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InputError(
            f"{folder}: another sweep writes to it; wait for it or name another folder"
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


def _list_parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _read_part(path: Path, columns: list[str] | None) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, columns=columns, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); delete it, and its cells are computed again"
        ) from None
