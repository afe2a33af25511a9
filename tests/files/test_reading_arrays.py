from __future__ import annotations

import io
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.errors import InputError
from perfcast.files.limits import limited
from perfcast.files.reading_arrays import read_arrays

WHAT = "the weights"


def header(text: str) -> bytes:
    packed = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(packed)) + packed


def archive(path: Path, *entries: tuple[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, data in entries:
            file.writestr(name, data)
    return path


def test_what_numpy_writes_is_read(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "c": np.array(True),
        "d": np.zeros((0, 4), dtype=np.uint8),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", **arrays)
        found = read_arrays(tmp_path / "x.npz", what=WHAT)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}",
        "{'descr': " + "[" * 200 + "]" * 200 + ", 'fortran_order': False, 'shape': (1,)}",
        "{" * 9000,
        "no header",
    ],
)
def test_a_header_that_lies_is_refused_before_anything_is_made(text: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", ("a.npy", header(text) + bytes(8)))
    with pytest.raises(InputError, match=r"cannot read the weights .*no archive of arrays"):
        read_arrays(path, what=WHAT)


def test_an_archive_that_unpacks_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(10**6))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    with limited("1MiB"), pytest.raises(InputError, match="unpacked; raise the limit"):
        read_arrays(tmp_path / "x.npz", what=WHAT)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x93NUMPY", b"hello" * 100])
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(InputError, match="no archive of arrays"):
        read_arrays(tmp_path / "x.npz", what=WHAT)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    good = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}") + bytes(8)
    with pytest.raises(InputError, match="one name"):
        read_arrays(archive(tmp_path / "x.npz", ("a.npy", good), ("a", good)), what=WHAT)


def whole() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.arange(20.0), b=np.arange(4))
    return file.getvalue()


@settings(max_examples=cases(100, share=0.1))
@given(place=st.integers(0, len(whole()) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_archive_is_read_or_refused(
    place: int, byte: int, cut: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = whole()
    path = tmp_path_factory.getbasetemp() / "drawn.npz"
    path.write_bytes(data[:place] if cut else data[:place] + bytes([byte]) + data[place + 1 :])
    with suppress(InputError):
        assert sum(array.nbytes for array in read_arrays(path, what=WHAT).values()) <= len(data)
