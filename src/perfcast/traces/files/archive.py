"""The files inside a trace file: alone, or in a tar archive, plain or packed, read block by block.

Nothing is ever unpacked to disk. The limit counts unpacked bytes (``files.unpacking``), so that a small file
that unpacks to terabytes is given up at the limit, in constant memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.files.limits import STREAM_BYTES, limit_bytes
from perfcast.files.opening import BLOCK_BYTES, Source
from perfcast.files.unpacking import unpacked_blocks
from perfcast.units import MIB

#: Unpacked bytes read of one file, unless the user asks for more.
DEFAULT_MAX_BYTES = STREAM_BYTES
_TAR_BLOCK_BYTES = 512
#: A tar entry that only describes the next one is at most this long; file names are short.
_MAX_TAR_NOTE_BYTES = MIB


@dataclass(frozen=True)
class Member:
    """One file: ``name`` for messages, ``blocks`` its bytes, to be consumed before the next member."""

    name: str
    blocks: Iterator[bytes]


def open_members(path: str | Path, max_bytes: int = DEFAULT_MAX_BYTES) -> Iterator[Member]:
    """The files in ``path``: itself, or each file of a tar archive, unpacked as they are read.

    Args:
        path: A file, plain or packed by gzip or xz, or a tar archive of any of these.
        max_bytes: Unpacked bytes beyond which reading is given up.

    Raises:
        TraceError: It cannot be opened, is packed in another way, damaged, truncated or over the limit.
    """
    most_bytes = limit_bytes(max_bytes) if max_bytes == DEFAULT_MAX_BYTES else max_bytes
    source = Source(Path(path), "the trace", TraceError, most_bytes, limit_option="--max-bytes")
    unpacked, name = _Source(unpacked_blocks(source)), source.path.name
    start = unpacked.peek(_TAR_BLOCK_BYTES)
    if start[257:262] == b"ustar":
        yield from _tar_members(unpacked, name)
    else:
        yield Member(name, unpacked.rest())


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
        while count > 0 and (piece := self.take(min(count, BLOCK_BYTES))):
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
