"""What a run has read, it does not write over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.files.run import watched_run
from perfcast.files.writing import write_bytes_atomically, write_fitted_text, write_text_atomically


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("measured")
    os.link(path, tmp_path / "hard.csv")
    return path


@pytest.mark.parametrize("name", ["table.csv", "hard.csv"])
@pytest.mark.parametrize("write", [write_text_atomically, write_fitted_text])
def test_a_file_that_was_read_stays(table: Path, name: str, write):
    with watched_run():
        assert table.read_text() == "measured"
        with pytest.raises(InputError, match="this run has read it"):
            write(table.parent / name, "new")
    assert table.read_text() == "measured"
    write(table, "new")
    assert table.read_text() == "new"


def test_reading_by_numbers_of_the_system_is_seen_too(table: Path):
    with watched_run():
        os.close(os.open(table, os.O_RDONLY))
        with pytest.raises(InputError, match="this run has read it"):
            write_bytes_atomically(table, b"new")


def test_two_documents_of_a_run_are_two_files(table: Path):
    with watched_run():
        write_text_atomically(table, "one")
        with pytest.raises(InputError, match="what this run wrote just before"):
            write_text_atomically(table, "two")
    with watched_run():
        write_text_atomically(table, "three")
    assert table.read_text() == "three"


def test_a_file_that_perfcast_keeps_is_written_anew(table: Path):
    with watched_run():
        table.read_text()
        for text in ("one", "two"):
            write_text_atomically(table, text, updates=True)
    assert table.read_text() == "two"
