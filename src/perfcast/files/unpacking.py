"""The bytes inside a file: plain, gzip or xz, block by block under a limit on what was unpacked."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfcast.files.opening import BLOCK_BYTES, Source, raw_blocks
from perfcast.units import MIB

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
#: xz -9 needs 65 MiB; a file may ask for 4 GiB.
_MOST_XZ_MEMORY = 256 * MIB
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "packed by bzip2",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


def unpacked_blocks(source: Source) -> Iterator[bytes]:
    """The unpacked bytes of a file.

    What could be unpacked of a truncated file is given before the error is raised.

    Raises:
        InputError: Of the source's kind: it cannot be opened, is packed in another way, damaged, truncated,
            or over its limit.
    """
    total = 0
    for block in _unpacked(source):
        total += len(block)
        source.check_size(total)
        yield block


def _unpacked(source: Source) -> Iterator[bytes]:
    blocks = raw_blocks(source)
    first = next(blocks, b"")
    for magic, what in _UNREADABLE.items():
        if first.startswith(magic):
            source.refuse(f"it is {what}: unpack it first (plain, gzip and xz are read)")
    if first.startswith(_GZIP):
        yield from _gunzip(first, blocks, source)
    elif first.startswith(_XZ):
        yield from _unxz(first, blocks, source)
    else:
        yield first
        yield from blocks


def _gunzip(first: bytes, blocks: Iterator[bytes], source: Source) -> Iterator[bytes]:
    """Unpack gzip, also of several members one after another."""
    packed: bytes | None = first
    unpacker, unpacked_bytes = zlib.decompressobj(wbits=31), 0
    while packed is not None:
        try:
            block = unpacker.decompress(packed, BLOCK_BYTES)
        except zlib.error as error:
            raise source.refusal(_damage("gzip", unpacked_bytes, error)) from error
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
    source.refuse(f"it is truncated: its gzip data end early, after {unpacked_bytes} unpacked bytes")


def _unxz(first: bytes, blocks: Iterator[bytes], source: Source) -> Iterator[bytes]:
    """Unpack xz, also of several streams one after another (zeros may stand between them)."""
    packed, unpacked_bytes = first, 0
    while packed:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_XZ_MEMORY)
        while not unpacker.eof:
            try:
                block = unpacker.decompress(packed, BLOCK_BYTES)
            except lzma.LZMAError as error:
                raise source.refusal(_damage("xz", unpacked_bytes, error)) from error
            unpacked_bytes += len(block)
            if block:
                yield block
            packed = b""
            if unpacker.needs_input and not unpacker.eof:
                packed = next(blocks, b"")
                if not packed:
                    source.refuse(
                        f"it is truncated: its xz data end early, after {unpacked_bytes} unpacked bytes"
                    )
        packed = unpacker.unused_data.lstrip(b"\0") or next(blocks, b"").lstrip(b"\0")


def _damage(kind: str, unpacked_bytes: int, error: Exception) -> str:
    return f"it is damaged: its {kind} data make no sense after {unpacked_bytes} unpacked bytes ({error})"


class Blocks(io.RawIOBase):
    """Blocks of bytes as a file that is read once, from its beginning."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As much as is at hand; 0 at the end."""
        place = memoryview(buffer)
        if not self._left:
            self._left = memoryview(next(self._blocks, b""))
        count = min(len(place), len(self._left))
        place[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
