"""Tables of a user's: CSV row by row, and whole frames of CSV or parquet."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from perfcast.errors import InputError
from perfcast.files.limits import STREAM_BYTES, TABLE_BYTES
from perfcast.files.opening import Source
from perfcast.files.reading import open_unpacked, read_bytes
from perfcast.units import MIB, format_bytes

if TYPE_CHECKING:
    import polars as pl

#: A line of a table or a list is at most this long.
MOST_LINE_BYTES = 16 * MIB
_MOST_LINES_OF_ROW = 1000
_MOST_COLUMNS = 100_000
_BYTES_OF_CELL = 8
_ROWS_TO_INFER_TYPES = 10_000


def text_lines(
    path: str | Path, *, what: str, error: type[InputError] = InputError, usual_bytes: int = STREAM_BYTES
) -> Iterator[str]:
    """Lines of UTF-8 with their ends, one after the other, of a plain, gzip or xz file.

    Raises:
        InputError: Of the kind asked for: it cannot be read, is no text, or has a line of more than 16 MiB.
    """
    source = Source.of(path, what, error, usual_bytes)
    with open_unpacked(path, what=what, error=error, usual_bytes=usual_bytes) as file:
        yield from _decoded(file, source)


def _decoded(file: BinaryIO, source: Source) -> Iterator[str]:
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            source.refuse(f"line {number} is longer than {format_bytes(MOST_LINE_BYTES)}")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise source.refusal(f"line {number} is no UTF-8 text; save it as UTF-8") from None


def csv_rows(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = STREAM_BYTES,
    is_strict: bool = True,
) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file with the number of their last line; empty lines are left out.

    Args:
        is_strict: Whether what stands behind a closing quote is refused.

    Raises:
        InputError: Of the kind asked for: it cannot be read, or is no CSV; says which line.
    """
    lines = _Counted(text_lines(path, what=what, error=error, usual_bytes=usual_bytes), path, error)
    reader = csv.reader(lines, strict=is_strict)
    try:
        for row in reader:
            lines.num_of_row = 0
            if row:
                yield reader.line_num, row
    except csv.Error as fault:
        raise error(f"{path}, line {reader.line_num}: {fault}") from None


class _Counted:
    """Lines, of which one row has not too many: a quote that is never closed would take all that follow."""

    def __init__(self, lines: Iterator[str], path: str | Path, error: type[InputError]) -> None:
        self.num_of_row = 0
        self._lines, self._path, self._error = lines, path, error

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.num_of_row += 1
        if self.num_of_row > _MOST_LINES_OF_ROW:
            raise self._error(
                f"{self._path}: a row of more than {_MOST_LINES_OF_ROW} lines; is a quote open?"
            )
        return next(self._lines)


def csv_entries(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = STREAM_BYTES,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a CSV file by the names in its first line, with the number of their last line.

    Raises:
        InputError: Of the kind asked for: it cannot be read, is no CSV, a name stands twice, or a row has
            another number of cells; says which line.
    """
    rows = csv_rows(path, what=what, error=error, usual_bytes=usual_bytes)
    first, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        raise error(f"{path}, line {first}: two columns have one name")
    for line, cells in rows:
        if len(cells) != len(names):
            raise error(
                f"{path}, line {line}: {len(names)} cells are named in the first line, not {len(cells)}"
            )
        yield line, dict(zip(names, cells, strict=True))


def read_frame(
    path: str | Path,
    *,
    what: str,
    error: type[InputError] = InputError,
    usual_bytes: int = TABLE_BYTES,
    columns: list[str] | None = None,
) -> pl.DataFrame:
    """The table of a .parquet, or else of a CSV file (plain, gzip or xz); types of CSV are found by looking.

    Args:
        columns: Of parquet, those that are read; None for all.

    Raises:
        InputError: Of the kind asked for: it cannot be read, or is damaged, or is over its limit as unpacked.
    """
    source = Source.of(path, what, error, usual_bytes)
    is_parquet = source.path.suffix == ".parquet"
    data = read_bytes(path, what=what, error=error, usual_bytes=usual_bytes, is_packed=not is_parquet)
    with _faults_of_polars(source):
        return _read_parquet(data, columns, source) if is_parquet else _read_csv(data, source)


def _read_parquet(data: bytes, columns: list[str] | None, source: Source) -> pl.DataFrame:
    import polars as pl

    names = list(pl.read_parquet_schema(io.BytesIO(data)))
    missing = [name for name in columns or () if name not in names]
    if missing:
        source.refuse(f"it has no column {missing[0]!r}")
    num_rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
    source.check_size(num_rows * len(columns or names) * _BYTES_OF_CELL)
    return pl.read_parquet(io.BytesIO(data), columns=columns)


def _read_csv(data: bytes, source: Source) -> pl.DataFrame:
    import polars as pl

    num_columns = data[:MOST_LINE_BYTES].partition(b"\n")[0].count(b",") + 1
    if num_columns > _MOST_COLUMNS:
        source.refuse(f"more than {_MOST_COLUMNS:,} columns")
    source.check_size(num_columns * data.count(b"\n") * _BYTES_OF_CELL)
    try:
        return pl.read_csv(data, infer_schema_length=_ROWS_TO_INFER_TYPES)
    except pl.exceptions.ComputeError:  # a later row does not fit the type that the first ones suggest
        return pl.read_csv(data, infer_schema_length=None)


@contextmanager
def _faults_of_polars(source: Source) -> Iterator[None]:
    """Whatever polars runs into becomes a refusal, panics of its compiled code among it.

    Those are no ``Exception`` in Python, and are written to the standard error before they are raised.
    """
    try:
        with _without_standard_error():
            yield
    except InputError:
        raise
    except BaseException as fault:
        if not isinstance(fault, Exception) and type(fault).__name__ != "PanicException":
            raise
        reason = (str(fault).splitlines() or [type(fault).__name__])[0][:200]
        raise source.refusal(f"it is no such table, or is damaged ({reason})") from None


@contextmanager
def _without_standard_error() -> Iterator[None]:
    """What compiled code writes there while a file is read is thrown away."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
