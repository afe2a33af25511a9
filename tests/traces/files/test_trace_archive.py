from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from perfcast.errors import TraceError
from perfcast.traces.files.archive import open_members


def contents(path: Path, max_bytes: int = 10**6) -> dict[str, bytes]:
    return {member.name: b"".join(member.blocks) for member in open_members(path, max_bytes)}


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def put(folder: Path, data: bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_plain_file_and_a_packed_one_give_the_same_bytes(tmp_path: Path):
    assert contents(put(tmp_path, b"{}", "a")) == {"a": b"{}"}
    assert contents(put(tmp_path, gzip.compress(b"{}"), "b")) == {"b": b"{}"}


def test_gzip_of_several_members_is_read_to_its_end(tmp_path: Path):
    assert contents(put(tmp_path, gzip.compress(b"one ") + gzip.compress(b"two"))) == {"file": b"one two"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_gives_its_files_and_leaves_out_hidden_ones(tmp_path: Path, mode: str):
    path = put(
        tmp_path, tar({"ranks/0.json": b"a" * 700, "ranks/._0.json": b"\0\5", "ranks/1.json": b"b"}, mode)
    )
    assert contents(path) == {"file:ranks/0.json": b"a" * 700, "file:ranks/1.json": b"b"}


def test_members_need_not_be_read_whole(tmp_path: Path):
    path = put(tmp_path, tar({"0": b"a" * 5000, "1": b"b"}))
    assert [member.name for member in open_members(path)] == ["file:0", "file:1"]


def test_a_bomb_is_given_up_at_the_limit(tmp_path: Path):
    path = put(tmp_path, gzip.compress(b"[" + b" " * 50_000_000))
    with pytest.raises(TraceError, match=r"more than 977 KiB.*--max-bytes"):
        contents(path)


def test_truncated_gzip_says_where_it_ends(tmp_path: Path):
    packed = gzip.compress(bytes(range(256)) * 100)
    with pytest.raises(TraceError, match="truncated: its gzip data end early, after"):
        contents(put(tmp_path, packed[:-200]))


def test_damaged_gzip_is_refused(tmp_path: Path):
    packed = bytearray(gzip.compress(b"0123456789" * 100))
    packed[15] ^= 0xFF
    with pytest.raises(TraceError, match=r"damaged|truncated"):
        contents(put(tmp_path, bytes(packed)))


def test_a_truncated_tar_is_refused(tmp_path: Path):
    whole = tar({"0": b"a" * 5000}, "w")
    with pytest.raises(TraceError, match="truncated: 1488 of 5000 bytes"):
        contents(put(tmp_path, whole[:2000]))


def test_a_tar_header_that_lies_is_refused(tmp_path: Path):
    whole = bytearray(tar({"0": b"a"}, "w"))
    whole[130] ^= 1
    with pytest.raises(TraceError, match="header that makes no sense"):
        contents(put(tmp_path, bytes(whole)))


@pytest.mark.parametrize(
    ("magic", "what"), [(b"PK\x03\x04", "zip"), (b"BZh9", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd")]
)
def test_other_packings_are_named(tmp_path: Path, magic: bytes, what: str):
    with pytest.raises(TraceError, match=f"{what}.*unpack it first"):
        contents(put(tmp_path, magic + b"\0" * 100))


def test_a_missing_file_is_an_error_and_so_is_a_folder(tmp_path: Path):
    with pytest.raises(TraceError, match="cannot read"):
        contents(tmp_path / "none")
    with pytest.raises(TraceError, match="cannot read"):
        contents(tmp_path)
