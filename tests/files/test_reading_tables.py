from __future__ import annotations

import gzip
import io
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.errors import InputError
from perfcast.files.limits import limited
from perfcast.files.reading_tables import csv_entries, csv_rows, read_frame, text_lines
from perfcast.units import MIB

WHAT = "the measurements"


def write(folder: Path, data: bytes | str, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_rows_have_the_numbers_of_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, '\ufeffname,x\na,1\n\n"b\nc",2\n')
    assert list(csv_rows(path, what=WHAT)) == [(1, ["name", "x"]), (2, ["a", "1"]), (5, ["b\nc", "2"])]
    assert [entry for _, entry in csv_entries(path, what=WHAT)] == [
        {"name": "a", "x": "1"},
        {"name": "b\nc", "x": "2"},
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("a,b\n1\n", "line 2: 2 cells are named in the first line, not 1"),
        ("a,b\n1,2,3\n", "line 2: 2 cells are named in the first line, not 3"),
        ("a,a\n1,2\n", "line 1: two columns have one name"),
        ('a\n"1"2\n', "line 2: "),
        ("a\n" + "1" * 200_000 + "\n", "line 2: field larger"),
        ('a\n"' + "1\n" * 2000, "is a quote open?"),
        (b"a\n\xff\n", "line 2 is no UTF-8 text"),
        (b"a\n" + b"1" * (17 * MIB), "line 2 is longer than 16.0 MiB"),
        (gzip.compress(b"a\n1\n", mtime=0)[:-9], "truncated"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line(data: bytes | str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        list(csv_entries(write(tmp_path, data), what=WHAT))
    assert reason in str(caught.value)


def test_lines_of_packed_files_are_read(tmp_path: Path) -> None:
    assert list(text_lines(write(tmp_path, gzip.compress(b"a\nb")), what=WHAT)) == ["a\n", "b"]


def test_frames_are_read_plain_and_packed(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    text = frame.write_csv().encode()
    frame.write_parquet(tmp_path / "x.parquet")
    for path in (
        write(tmp_path, text),
        write(tmp_path, gzip.compress(text), "x.csv.gz"),
        tmp_path / "x.parquet",
    ):
        assert read_frame(path, what=WHAT).equals(frame)
    assert read_frame(tmp_path / "x.parquet", what=WHAT, columns=["b"]).columns == ["b"]
    with pytest.raises(InputError, match="it has no column 'c'"):
        read_frame(tmp_path / "x.parquet", what=WHAT, columns=["c"])


def test_types_that_later_rows_contradict_are_found(tmp_path: Path) -> None:
    frame = read_frame(write(tmp_path, "a\n" + "1\n" * 20_000 + "x\n"), what=WHAT)
    assert frame["a"].dtype == pl.String


def test_what_unpacks_beyond_the_limit_is_given_up(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"a\n" + b"1\n" * (8 * MIB)), "x.csv.gz")
    with limited("4MiB"), pytest.raises(InputError, match="more than 4.00 MiB unpacked".replace(".", r"\.")):
        read_frame(path, what=WHAT)


def test_few_bytes_that_mean_many_cells_are_refused(tmp_path: Path) -> None:
    wide = write(tmp_path, ",".join(f"c{i}" for i in range(5000)) + "\n" * 20_000)
    with limited("64MiB"), pytest.raises(InputError, match="unpacked; raise the limit"):
        read_frame(wide, what=WHAT)
    with pytest.raises(InputError, match="more than 100,000 columns"):
        read_frame(write(tmp_path, "," * 200_000 + "\n"), what=WHAT)
    pl.DataFrame({"a": [1] * 4_000_000}).write_parquet(tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").stat().st_size < MIB
    with limited("16MiB"), pytest.raises(InputError, match="unpacked; raise the limit"):
        read_frame(tmp_path / "x.parquet", what=WHAT)


def whole() -> bytes:
    file = io.BytesIO()
    pl.DataFrame({"table": ["a", "a", "b"], "bag": [0, 1, 2], "index": [7, 8, 9]}).write_parquet(file)
    return file.getvalue()


@settings(max_examples=cases(150, share=0.1))
@given(place=st.integers(0, len(whole()) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_parquet_is_read_or_refused_in_silence(
    place: int, byte: int, cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = whole()
    path = tmp_path_factory.getbasetemp() / "drawn.parquet"
    path.write_bytes(data[:place] if cut else data[:place] + bytes([byte]) + data[place + 1 :])
    with suppress(InputError):
        read_frame(path, what=WHAT)


@settings(max_examples=cases(150, share=0.1))
@given(data=st.binary(max_size=60) | st.text('a,"\n\r1é', max_size=60).map(str.encode))
def test_whatever_a_csv_holds_it_is_read_or_refused(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "drawn.csv"
    path.write_bytes(data)
    for read in (lambda: read_frame(path, what=WHAT), lambda: list(csv_entries(path, what=WHAT))):
        with suppress(InputError):
            read()
