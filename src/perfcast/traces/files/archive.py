"""The files inside a trace file: plain, gzip, tar and tar.gz, read block by block under a limit.

Nothing is ever unpacked to disk. The limit counts unpacked bytes, so that a small file that unpacks to
terabytes is given up at the limit, in constant memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perfcast.errors import TraceError
from perfcast.units import GIB, MIB, format_bytes

#: Unpacked bytes read of one file, unless the user asks for more.
DEFAULT_MAX_BYTES = 2 * GIB
_BLOCK_BYTES = 2 * MIB
_TAR_BLOCK_BYTES = 512
#: A tar entry that only describes the next one is at most this long; file names are short.
_MAX_TAR_NOTE_BYTES = MIB
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ\x00": "packed by xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


@dataclass(frozen=True)
class Member:
    """One file: ``name`` for messages, ``blocks`` its bytes, to be consumed before the next member."""

    name: str
    blocks: Iterator[bytes]


def open_members(path: str | Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[Member]:
    """The files in ``path``: itself, or each file of a tar archive, unpacked as they are read.

    Args:
        path: A file, plain or packed by gzip, or a tar archive of either kind.
        max_bytes: Unpacked bytes beyond which reading is given up.

    Raises:
        TraceError: It cannot be opened, is packed in another way, damaged, truncated or over the limit.
    """
    place = Path(path)
    try:
        file = place.open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"cannot read '{path}': {reason[:1].lower()}{reason[1:]}") from error
    with file:
        yield from _members(file, place.name, max_bytes)


def _members(file: BinaryIO, name: str, max_bytes: int) -> Iterator[Member]:
    source = _Source(_limited(_unpacked(file, name), name, max_bytes))
    start = source.peek(_TAR_BLOCK_BYTES)
    if start[257:262] == b"ustar":
        yield from _tar_members(source, name)
    else:
        yield Member(name, source.rest())


def _raw_blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        while block := file.read(_BLOCK_BYTES):
            yield block
    except OSError as error:
        raise TraceError(f"cannot read '{name}': {error.strerror or error}") from error


def _unpacked(file: BinaryIO, name: str) -> Iterator[bytes]:
    blocks = _raw_blocks(file, name)
    first = next(blocks, b"")
    for magic, what in _UNREADABLE.items():
        if first.startswith(magic):
            raise TraceError(f"'{name}' is {what}: unpack it first (JSON, gzip and tar are read)")
    if not first.startswith(b"\x1f\x8b"):
        yield first
        yield from blocks
        return
    yield from _gunzip(first, blocks, name)


def _gunzip(first: bytes, blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Unpack gzip, also of several members one after another.

    What could be unpacked of a truncated file is given before the error is raised.
    """
    packed: bytes | None = first
    unpacker, unpacked_bytes = zlib.decompressobj(wbits=31), 0
    while packed is not None:
        try:
            block = unpacker.decompress(packed, _BLOCK_BYTES)
        except zlib.error as error:
            raise TraceError(
                f"'{name}' is damaged: its gzip data make no sense "
                f"after {unpacked_bytes} unpacked bytes ({error})"
            ) from error
        unpacked_bytes += len(block)
        if block:
            yield block
        packed = unpacker.unconsumed_tail
        if unpacker.eof:
            packed = unpacker.unused_data.lstrip(b"\0") or next(blocks, b"").lstrip(b"\0")
            if not packed:
                return
            unpacker = zlib.decompressobj(wbits=31)
        elif not packed and not block:
            packed = next(blocks, None)
    raise TraceError(f"'{name}' is truncated: its gzip data end early, after {unpacked_bytes} unpacked bytes")


def _limited(blocks: Iterator[bytes], name: str, max_bytes: int) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if total > max_bytes:
            raise TraceError(
                f"'{name}' unpacks to more than {format_bytes(max_bytes)}; "
                "raise the limit (--max-bytes) if you trust it"
            )
        yield block


class _Source:
    """Bytes that arrive in blocks, asked for in other portions."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._buffer = b""

    def peek(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer at the end, without consuming them."""
        while len(self._buffer) < count and (block := next(self._blocks, b"")):
            self._buffer += block
        return self._buffer[:count]

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes, fewer at the end."""
        data = self.peek(count)
        self._buffer = self._buffer[count:]
        return data

    def pieces(self, count: int) -> Iterator[bytes]:
        """The next ``count`` bytes block by block; fewer where the data end."""
        while count > 0 and (piece := self.take(min(count, _BLOCK_BYTES))):
            count -= len(piece)
            yield piece

    def rest(self) -> Iterator[bytes]:
        """Everything that is left."""
        buffer, self._buffer = self._buffer, b""
        if buffer:
            yield buffer
        yield from self._blocks


def _tar_members(source: _Source, name: str) -> Iterator[Member]:
    """The regular files of a tar archive in its order (POSIX ustar headers; long-name notes are skipped)."""
    while len(header := source.take(_TAR_BLOCK_BYTES)) == _TAR_BLOCK_BYTES and header.strip(b"\0"):
        member, size, kind = _tar_header(header, name)
        padding = -size % _TAR_BLOCK_BYTES
        if kind in (b"0", b"\0") and not member.rpartition("/")[2].startswith("."):
            pieces = _whole(source.pieces(size), size, f"{name}:{member}")
            yield Member(f"{name}:{member}", pieces)
            for _ in pieces:
                pass
        elif kind in (b"L", b"K", b"x", b"g") and size > _MAX_TAR_NOTE_BYTES:
            raise TraceError(f"'{name}' is damaged: a tar entry's description of {size} bytes")
        else:
            for _ in source.pieces(size):
                pass
        source.take(padding)


def _tar_header(header: bytes, name: str) -> tuple[str, int, bytes]:
    """Name, size in bytes and kind of an entry."""
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    try:
        size = int(header[124:136].strip(b"\0 ") or b"0", 8)
        is_sound = int(header[148:156].strip(b"\0 ") or b"0", 8) == checksum
    except ValueError:
        size, is_sound = 0, False
    if not is_sound or size < 0:
        raise TraceError(f"'{name}' is damaged: a tar header that makes no sense")
    return header[:100].rstrip(b"\0").decode("utf-8", errors="replace"), size, header[156:157]


def _whole(pieces: Iterator[bytes], size: int, name: str) -> Iterator[bytes]:
    found = 0
    for piece in pieces:
        found += len(piece)
        yield piece
    if found < size:
        raise TraceError(f"'{name}' is truncated: {found} of {size} bytes are there")
