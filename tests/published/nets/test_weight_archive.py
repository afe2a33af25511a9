"""Archives of weights: round trips, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfcast.errors import InputError
from perfcast.published.nets.archive import Archive, read_archive, write_archive


def test_what_is_written_is_read(tmp_path: Path):
    arrays = {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "words": np.array(["a", "bc"])}
    write_archive(tmp_path / "a.npz", Archive(arrays, {"epoch": 3, "died_at": None}))
    read = read_archive(tmp_path / "a.npz")
    assert read.notes == {"epoch": 3, "died_at": None}
    assert all(np.array_equal(read.arrays[k], arrays[k]) for k in arrays)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_a_missing_or_broken_archive_is_a_clear_error(tmp_path: Path, content: bytes | None):
    path = tmp_path / "a.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz"):
        read_archive(path)


def test_pickles_are_not_read(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InputError):
        read_archive(tmp_path / "a.npz")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere"):
        write_archive(tmp_path / "nowhere" / "a.npz", Archive({}, {}))
