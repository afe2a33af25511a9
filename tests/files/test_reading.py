from __future__ import annotations

import gzip
import lzma
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perfcast.errors import CatalogError, InputError
from perfcast.files import opening
from perfcast.files.limits import VARIABLE, limit_bytes, limited, parse_size
from perfcast.files.reading import open_unpacked, read_bytes, read_json, read_text, read_toml
from perfcast.units import GIB, MIB

READERS: tuple[Callable[..., object], ...] = (read_bytes, read_text, read_json, read_toml, open_unpacked)
WHAT = "the prices"


def refusal(read: Callable[..., object], path: str | Path) -> str:
    with pytest.raises(CatalogError) as caught:
        read(path, what=WHAT, error=CatalogError)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("read", READERS)
def test_what_is_no_file_is_refused_without_being_opened(read: Callable[..., object], tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("/dev/zero")
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    (tmp_path / "file").write_text("{}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert "it is a socket" in refusal(read, tmp_path / "socket")
    assert "it is a device" in refusal(read, link)
    assert "it is a device" in refusal(read, "/dev/null")
    assert "it is a folder" in refusal(read, tmp_path)
    assert "circle" in refusal(read, circle)
    assert "no such file" in refusal(read, tmp_path / "missing.json")
    assert "not a folder" in refusal(read, tmp_path / "file" / "x.json")
    assert "null" in refusal(read, "nul\0byte")


@pytest.mark.parametrize("read", READERS)
def test_a_name_beyond_what_the_system_takes_is_refused_and_shortened(read: Callable[..., object]) -> None:
    message = refusal(read, "n" * 3000)
    assert "longer than the system takes" in message
    assert len(message) < 400


@pytest.mark.parametrize("read", READERS)
def test_a_file_over_the_limit_is_refused(
    read: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text('a = "' + "x" * 100 + '"')
    monkeypatch.setenv(VARIABLE, "100")
    assert "more than 100 B unpacked; raise the limit (--max-file)" in refusal(read, path)
    monkeypatch.setenv(VARIABLE, "106")
    assert read_text(path, what=WHAT).startswith("a")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_what_unpacks_to_more_than_the_limit_is_given_up_there(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pack(bytes(32 * MIB)))
    assert path.stat().st_size < MIB
    with (
        limited("8MiB"),
        open_unpacked(path, what=WHAT) as file,
        pytest.raises(InputError, match=r"more than 8\.00 MiB unpacked"),
    ):
        file.read()
    assert len(read_bytes(path, what=WHAT, is_packed=True)) == 32 * MIB


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_members_one_after_another_are_read_as_one(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(pack(b"first, ") + pack(b"second"))
    assert read_bytes(path, what=WHAT, is_packed=True) == b"first, second"
    with open_unpacked(path, what=WHAT) as file:
        assert file.readline() == b"first, second"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_data_that_end_early_or_are_damaged_are_refused(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path, data = tmp_path / "x", pack(os.urandom(1000))
    path.write_bytes(data[:-20])
    with pytest.raises(InputError, match="truncated"):
        read_bytes(path, what=WHAT, is_packed=True)
    path.write_bytes(data[:200] + bytes(byte ^ 0xFF for byte in data[200:900]) + data[900:])
    with pytest.raises(InputError, match=r"damaged|truncated"):
        read_bytes(path, what=WHAT, is_packed=True)


def test_other_packings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(InputError, match="a zip archive"):
        read_bytes(path, what=WHAT, is_packed=True)


def test_a_pipe_that_is_written_to_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=('{"a": 1}',))
    writer.start()
    assert read_json(path, what=WHAT) == {"a": 1}
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "WAITING_SECONDS", 0.05)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="nothing came for"):
        read_json(path, what=WHAT)


def test_a_pipe_without_end_is_given_up_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as file:
            try:
                while True:
                    file.write(bytes(MIB))
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    with limited("4MiB"), pytest.raises(InputError, match=r"more than 4\.00 MiB"):
        read_bytes(path, what=WHAT)
    writer.join(timeout=10)
    assert not writer.is_alive()


def test_permissions_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "x.json"
    path.write_text("{}")
    monkeypatch.setattr(opening.os, "open", refuse)
    with pytest.raises(InputError, match="no permission to read it"):
        read_json(path, what=WHAT)


def test_a_file_that_vanishes_between_looking_and_opening_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    monkeypatch.setattr(opening, "_check_kind", lambda *_: path.unlink(missing_ok=True))
    with pytest.raises(InputError, match="no such file"):
        read_json(path, what=WHAT)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": "\xff"}', "not UTF-8 text .byte 0xff at 7.; save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        (b'{"a": \0 1}', "a NUL byte at 6"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    for read in (read_text, read_json, read_toml):
        with pytest.raises(InputError, match=reason):
            read(path, what=WHAT)
    assert "a" in read_text(path, what=WHAT, errors="replace")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(path, what=WHAT) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("[" * 100 + "]" * 100, "nested more than 64 deep"),
        ("[" * 100_000, "nested more than 64 deep"),
        ('{"a":' * 100_000, "nested more than 64 deep"),
        ('{"a": ' + "1" * 5000 + "}", "a whole number of thousands of digits"),
        ('{"a": ' + "1" * 400 + "}", "a: a whole number of more than 300 digits"),
        ('{"a": -' + "1" * 400 + "}", "a: a whole number of more than 300 digits"),
        ('{"a": NaN}', "a: nan is no finite number"),
        ('{"a": {"b": [1, Infinity]}}', "a.b.1: inf is no finite number"),
        ('{"a": 1e999}', "a: inf is no finite number"),
        ('{"a": "\\ud800"}', "a: a text that is no Unicode"),
        ('{"\\ud800": 1}', "is no Unicode text"),
        ("NaN", "no finite number"),
    ],
)
def test_json_beyond_bounds_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=reason) as caught:
        read_json(path, what=WHAT)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_infinities_are_taken_where_a_writer_of_configs_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"time_step_limit": [0.0, Infinity]}')
    assert read_json(path, what=WHAT, may_be_infinite=True) == {"time_step_limit": [0.0, float("inf")]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = ", "not valid TOML"),
        ("a = 1\na = 2", "not valid TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "not valid TOML|nested more than 64 deep"),
        ("[" + ".".join(["a"] * 100) + "]", "nested more than 64 deep"),
        ("a = " + "1" * 5000, "a whole number of thousands of digits"),
        ("a = " + "1" * 400, "a: a whole number of more than 300 digits"),
        ("a = inf", "a: inf is no finite number"),
        ("[t]\na = nan", "t.a: nan is no finite number"),
    ],
)
def test_toml_beyond_bounds_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=reason) as caught:
        read_toml(path, what=WHAT)
    assert str(path) in str(caught.value)


def test_the_limit_is_the_users_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert limit_bytes(MIB) == MIB
    with limited("8GiB"):
        assert limit_bytes(MIB) == 8 * GIB
        with limited("1k"):
            assert limit_bytes(MIB) == 1024
        assert limit_bytes(MIB) == 8 * GIB
    assert limit_bytes(MIB) == MIB
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(InputError, match="PERFCAST_MAX_FILE: 'much' is no size"):
        limit_bytes(MIB)


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "8 parsecs", "9" * 400, "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no size"):
        parse_size("--max-file", text)
