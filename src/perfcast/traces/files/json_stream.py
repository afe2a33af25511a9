"""A JSON document that is one large array of objects, read batch by batch in bounded memory.

Both kinds of trace are an object with one long array (``traceEvents``, ``nodes``) and a little around
it; a chrome trace may also be the array alone. The bytes are cut between items without looking into
them: quotes and brackets are found by table look-up on arrays, their nesting by a running sum, and whole
items go to the parser many at a time. The document's text without the array's items is its header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Flags, Integers
from perfcast.errors import TraceError
from perfcast.units import MIB, format_bytes

#: An item, or all that stands outside the array, of more than this is refused.
_MAX_PIECE_BYTES = 64 * MIB
#: Lists of lists of tensor shapes go five deep; nothing real comes near.
_MAX_DEPTH = 100
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_KEY_BEFORE_ARRAY = re.compile(rb'"([^"\\]*)"\s*:\s*$')


@dataclass(frozen=True)
class Batch:
    """Items of the array called ``key`` ('' for a document that is an array)."""

    key: str
    items: list[object]


@dataclass(frozen=True)
class _Marks:
    """The brackets of a block that stand outside strings: positions, +1 or −1, depth after each."""

    positions: Integers
    depths: Integers
    opens: Flags


class JsonStream:
    """Iterate for batches of the first array whose key is among ``keys``; then read ``header``.

    Args:
        blocks: The document's bytes.
        name: The file, for messages.
        keys: Names of arrays at the document's top that may be streamed.
        is_truncated_allowed: Give what is whole of a document that ends early, and a warning.

    Raises:
        TraceError: While iterating: not JSON, ends early, nested beyond reason, an item beyond reason.
    """

    def __init__(
        self, blocks: Iterable[bytes], name: str, keys: frozenset[str], *, is_truncated_allowed: bool = False
    ) -> None:
        self.header: dict[str, object] = {}
        self.warnings: list[str] = []
        self._blocks, self._name, self._keys = blocks, name, keys
        self._is_truncated_allowed = is_truncated_allowed
        self._in_string = self._is_escaped = False
        self._depth = self._offset = 0  # nesting, and bytes of the document before this block
        self._outside = bytearray()  # the document without the array's items
        self._inside = bytearray()  # text of the array that is not parsed yet
        self._key: str | None = None
        self._array_depth = 0  # 0 before and after the array
        self._num_batches = 0

    def __iter__(self) -> Iterator[Batch]:
        try:
            for block in self._blocks:
                yield from self._feed(block)
        except TraceError as error:
            if not self._is_truncated_allowed or " is truncated: " not in str(error):
                raise
            self.warnings.append(f"{error}; what is whole is read")
        self._finish()

    def _feed(self, block: bytes) -> Iterator[Batch]:
        if not self._offset and block.strip():
            _check_start(block, self._name)
        marks = self._marks(block)
        start = 0
        if self._key is None:
            start = self._find_array(block, marks)
        if self._array_depth:
            start, batch = self._cut(block, marks, start)
            if batch is not None:
                yield batch
        if not self._array_depth:
            self._outside += block[start:]
            if len(self._outside) > _MAX_PIECE_BYTES:
                raise self._error(f"more than {format_bytes(_MAX_PIECE_BYTES)} outside its array of events")
        self._offset += len(block)

    def _marks(self, block: bytes) -> _Marks:
        """The block's brackets; moves the state of strings and nesting to the block's end."""
        table = _kinds()
        kinds = table[np.frombuffer(block, dtype=np.uint8)]
        positions = np.flatnonzero(kinds)
        kinds = kinds[positions]
        quotes = self._without_escaped(block, positions[kinds == 2])
        brackets = np.abs(kinds) == 1
        positions, steps = positions[brackets], kinds[brackets].astype(np.int64)
        quotes_before = np.searchsorted(quotes, positions) + self._in_string
        outside = quotes_before % 2 == 0
        positions, steps = positions[outside], steps[outside]
        depths = self._depth + np.cumsum(steps)
        self._in_string = bool((len(quotes) + self._in_string) % 2)
        if len(depths):
            self._depth = int(depths[-1])
            if depths.max() > _MAX_DEPTH:
                raise self._error(f"nested more than {_MAX_DEPTH} deep")
            if depths.min() < 0:
                raise self._error("a closing bracket too many")
        return _Marks(positions, depths, steps > 0)

    def _without_escaped(self, block: bytes, quotes: Integers) -> Integers:
        """Quotes that a backslash does not escape: an even number of backslashes stands before them."""
        data = np.frombuffer(block, dtype=np.uint8)
        escaped = []
        suspects = quotes[data[np.maximum(quotes - 1, 0)] == _BACKSLASH]
        for quote in suspects.tolist():
            run = quote - len(block[:quote].rstrip(b"\\")) if quote < 64 else _run_before(block, quote)
            if (run + (self._is_escaped and run == quote)) % 2:
                escaped.append(quote)
        if self._is_escaped and block[:1] == b'"':
            escaped.append(0)
        run = _run_before(block, len(block))
        self._is_escaped = bool((run + (self._is_escaped and run == len(block))) % 2)
        return np.setdiff1d(quotes, np.array(escaped, dtype=np.int64)) if escaped else quotes

    def _find_array(self, block: bytes, marks: _Marks) -> int:
        """Where the array's content begins in the block (0 where it does not); what is before is header."""
        data = np.frombuffer(block, dtype=np.uint8)
        squares = marks.opens & (data[marks.positions] == ord("["))
        for index in np.flatnonzero(squares & (marks.depths <= 2)).tolist():
            position, depth = int(marks.positions[index]), int(marks.depths[index])
            before = bytes(self._outside[-256:]) + block[max(0, position - 256) : position]
            key = self._key_of(before, depth)
            if key is not None:
                self._key, self._array_depth = key, depth
                self._outside += block[: position + 1]
                return position + 1
        return 0

    def _key_of(self, before: bytes, depth: int) -> str | None:
        if depth == 1:
            is_first = not before.removeprefix(b"\xef\xbb\xbf").strip()
            return "" if is_first else None
        match = _KEY_BEFORE_ARRAY.search(before)
        key = match[1].decode("utf-8", errors="replace") if match else None
        return key if key in self._keys else None

    def _cut(self, block: bytes, marks: _Marks, start: int) -> tuple[int, Batch | None]:
        """Parse the items that end in the block; the index from which the block is not the array's."""
        later = marks.positions >= start
        closes = later & ~marks.opens
        ends = np.flatnonzero(closes & (marks.depths == self._array_depth - 1))
        if len(ends):
            stop = int(marks.positions[ends[0]])
            self._inside += block[start:stop]
            self._array_depth = 0
            return stop, self._parse(bytes(self._inside))
        items = np.flatnonzero(closes & (marks.depths == self._array_depth))
        stop = int(marks.positions[items[-1]]) + 1 if len(items) else start
        text = bytes(self._inside) + block[start:stop] if len(items) else b""
        if len(items):
            self._inside.clear()
        self._inside += block[stop:]
        if len(self._inside) > _MAX_PIECE_BYTES:
            raise self._error(f"an event of more than {format_bytes(_MAX_PIECE_BYTES)}")
        return len(block), self._parse(text) if text else None

    def _parse(self, text: bytes) -> Batch | None:
        """One batch from text that holds whole items, after the first batch led by a comma."""
        text = text.strip()
        if not text:
            return None
        if self._num_batches:
            if not text.startswith(b","):
                raise self._error("a comma is missing between events")
            text = text[1:]
        self._num_batches += 1
        items = _loads(b"[" + text + b"]")
        if not isinstance(items, list):
            raise self._error(f"not JSON among its events: {items}")
        return Batch(self._key or "", items)

    def _finish(self) -> None:
        """Check that the document ended well, and read its header."""
        is_whole = not self._depth and not self._in_string and not self._array_depth
        if not bytes(self._outside).strip():
            raise TraceError(f"'{self._name}' is empty")
        _check_start(bytes(self._outside), self._name)
        if not is_whole and not self._is_truncated_allowed:
            raise TraceError(
                f"'{self._name}' is truncated: its JSON ends after {self._offset} bytes with "
                f"{self._depth} bracket{'s' if self._depth != 1 else ''} open"
            )
        if not is_whole:
            self.warnings.append(
                f"'{self._name}' is truncated after {self._offset} bytes; what is whole is read"
            )
            self._outside = bytearray(_closed(bytes(self._outside)))
        header = _loads(bytes(self._outside).removeprefix(b"\xef\xbb\xbf"))
        if isinstance(header, str):
            raise TraceError(f"'{self._name}' is not JSON: {header}")
        self.header = header if isinstance(header, dict) else {}

    def _error(self, what: str) -> TraceError:
        _check_start(bytes(self._outside[:64]) or b"[", self._name)
        return TraceError(f"'{self._name}', near byte {self._offset}: {what}")


def _kinds() -> NDArray[np.int8]:
    """For each byte: 1 opens, −1 closes, 2 is a quote, 0 else."""
    table = np.zeros(256, dtype=np.int8)
    for characters, kind in ((b"{[", 1), (b"}]", -1), (b'"', 2)):
        table[list(characters)] = kind
    return table


def _run_before(block: bytes, end: int) -> int:
    """How many backslashes stand right before ``end``."""
    start = end
    while start and block[start - 1] == _BACKSLASH:
        start -= 1
    return end - start


def _loads(text: bytes) -> object:
    """The value, or what is wrong with the text (a JSON text of one of our forms is never a string)."""
    try:
        return json.loads(text.decode("utf-8", errors="replace"))
    except RecursionError:
        return "nested too deep"
    except ValueError as error:
        return str(error)


def _closed(text: bytes) -> bytes:
    """A truncated header, ended after its array: ``{"a": 1, "traceEvents": [`` is closed by ``]}``."""
    end = text.rfind(b"[")
    opened = text[: end + 1] if end >= 0 else text
    return opened + (b"]}" if opened.lstrip().startswith(b"{") else b"]")


def _check_start(text: bytes, name: str) -> None:
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start not in (b"{", b"["):
        raise TraceError(f"'{name}' is not JSON: it starts with {text[:12]!r}")
