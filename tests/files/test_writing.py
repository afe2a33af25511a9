from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.files.writing import write_text_atomically


def test_a_file_is_written_whole_and_no_temporary_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")
    write_text_atomically(target, "12 µs")
    assert target.read_text(encoding="utf-8") == "12 µs"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("place", ["missing/x.json", ".", "file/x.json", "n" * 300, "nul\0byte"])
def test_an_unwritable_place_is_one_clear_error_and_leaves_no_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot write '.*': .*\. Name a file") as caught:
        write_text_atomically(tmp_path / place, "text")
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_rename_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    target = tmp_path / "x.txt"
    target.write_text("old")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InputError, match="permission denied"):
        write_text_atomically(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder" / "real.txt")
    write_text_atomically(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "folder" / "real.txt").read_text() == "text"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text_atomically(pipe, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
