"""Files of records: what a long run found, a line each, appended as it is found.

A file is JSON lines. The first line is a header that says what the file is of; it is there, whole, before any
record is. Each line ends with a checksum of itself that begins with that of the header, so that a line proves
that it is whole and that it belongs to this file::

    {"perfcast": "records", "kind": "calibration", "version": 1, "asked": {}, "crc": "5f0c11d2"}
    {"key": "copy n=4096", "seconds": 1.2e-05, "crc": "9a3b77e0"}

One process writes at a time (``lock``): two calibrations of one machine would disturb each other's times even
if their lines never mixed. Reading needs no lock. What is not whole is never believed and never thrown away:
opening a file for writing moves such lines to ``FILE.damaged`` beside it, says so, and keeps all others. A
kill loses at most the line that was being written. Files of older versions, without header and checksums, are
read, and get both when they are next written to.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from perfcast.errors import InputError, PerfcastError
from perfcast.files.limits import TABLE_BYTES
from perfcast.files.lock import WAIT_SECONDS, StoreWarning, hold_lock
from perfcast.files.reading import read_bytes
from perfcast.files.writing import reason_of, write_bytes_atomically

T = TypeVar("T")
#: Plain data of a record.
Plain = Mapping[str, Any]

_CHECKSUM = "crc"
_MARK = "perfcast"
_MARK_VALUE = "records"
_SUFFIX_LENGTH = len(b', "crc": "00000000"}')
_MOST_NAMED = 5
#: What of ``fsync`` means that data are not kept; a file system that cannot do it says another.
_LOST = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
_UNREADABLE = (PerfcastError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What a file of records holds.

    Attributes:
        name: In a word or two, as in 'calibration'.
        version: Of the records' form.
        parse: Plain data → record; raises ValueError, KeyError, TypeError or one of ours where it is none.
        asked: What all records of a file were made for; a file of another is refused.
        elsewhere: What to do to write to another file, as in 'name another with --output'.
    """

    name: str
    version: int
    parse: Callable[[Plain], T]
    asked: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: str = "name another file"

    @property
    def header(self) -> dict[str, Any]:
        """The first line, without its checksum."""
        return {
            _MARK: _MARK_VALUE,
            "kind": self.name,
            "version": self.version,
            "asked": json.loads(json.dumps(self.asked)),
        }


@dataclass(frozen=True)
class Damage:
    """A line that is no whole record.

    Attributes:
        line: Counted from 1.
        text: As it stands in the file, without the line's end.
        is_cut_off: Whether it is the last one and has no end: what a kill leaves.
    """

    line: int
    text: bytes
    is_cut_off: bool = False


@dataclass(frozen=True)
class Contents(Generic[T]):
    """What a file holds: records in the order in which they were found, and what is damaged."""

    records: tuple[T, ...] = ()
    damaged: tuple[Damage, ...] = ()


class RecordFile(Generic[T]):
    """A file that this process writes to; made by ``open_records``."""

    def __init__(self, path: Path, kind: Kind[T], found: Contents[T]) -> None:
        self.path = path
        self._kind = kind
        self._seed = _checksum(_body(kind.header))
        self._records = list(found.records)
        #: What was damaged when it was opened.
        self.damaged = found.damaged

    @property
    def records(self) -> tuple[T, ...]:
        """All that it holds."""
        return tuple(self._records)

    def append(self, *records: Plain) -> None:
        """Add records: when this returns they are on the disk.

        Raises:
            InputError: They cannot be written (a full disk); what was there before is kept, whole.
            ValueError: One cannot be a record: it is not JSON, or the kind refuses it.
        """
        if not records:
            return
        parsed = [self._kind.parse(json.loads(_body(record))) for record in records]
        lines = b"".join(_line(record, self._seed) for record in records)
        try:
            _append(self.path, lines)
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {reason_of(error)}. The {len(self._records)} records that "
                "it holds are kept: make room, and the same command goes on from there"
            ) from error
        self._records += parsed


@contextmanager
def open_records(
    path: Path, kind: Kind[T], *, restart: bool = False, wait_seconds: float = WAIT_SECONDS
) -> Iterator[RecordFile[T]]:
    """Open a file to add to it, made where there is none; one process at a time.

    Args:
        restart: Begin anew; the file that is there is kept beside, as ``FILE.old`` (``.old-2``, …).

    Raises:
        InputError: Another process writes to it, it cannot be written, or it is of another kind, version or
            question; it is then left as it is.
    """
    with hold_lock(path, elsewhere=kind.elsewhere, wait_seconds=wait_seconds):
        if restart:
            set_aside(path)
        data = _read(path)
        found = _decode(data, path, kind)
        if found.damaged:
            _keep_damaged(path, found.damaged)
        whole = _encode(data, found, kind)
        if whole != data:
            write_bytes_atomically(path, whole, updates=True)
        yield RecordFile(path, kind, found)


def read_records(path: Path, kind: Kind[T]) -> Contents[T]:
    """What a file holds, also while another process adds to it; nothing where there is no file.

    A last line without an end is left out, since it may just be being written; other damage is named in a
    warning.

    Raises:
        InputError: It cannot be read, or is of another kind, version or question.
    """
    found = _decode(_read(path), path, kind)
    lasting = tuple(damage for damage in found.damaged if not damage.is_cut_off)
    if lasting:
        _warn(f"{path}: {_name_lines(lasting)} damaged and left out")
    return Contents(found.records, lasting)


def count_lines(path: Path) -> int:
    """How many records a file may hold, without reading them; none where there is no file."""
    data = _read(path)
    return data.count(b"\n") - data.startswith(b'{"%s": "%s"' % (_MARK.encode(), _MARK_VALUE.encode()))


def set_aside(path: Path, ending: str = "old") -> Path | None:
    """Rename a file to ``FILE.old``, or ``.old-2`` and so on where there is one; None where there is no file.

    Raises:
        InputError: It cannot be renamed.
    """
    if not os.path.lexists(path):
        return None
    number, place = 2, path.with_name(f"{path.name}.{ending}")
    while os.path.lexists(place):
        number, place = number + 1, path.with_name(f"{path.name}.{ending}-{number}")
    try:
        path.rename(place)
    except OSError as error:
        raise InputError(f"cannot rename {path} to {place.name}: {reason_of(error)}") from None
    return place


# ---- lines -------------------------------------------------------------------------------------


def _body(record: Plain) -> bytes:
    if _CHECKSUM in record:
        raise ValueError(f"a record cannot have a '{_CHECKSUM}': it is the line's own")
    return json.dumps(dict(record), allow_nan=False).encode()


def _checksum(body: bytes, seed: int = 0) -> int:
    return zlib.crc32(body, seed)


def _line(record: Plain, seed: int = 0) -> bytes:
    body = _body(record)
    comma = b", " if len(body) > len(b"{}") else b""
    return body[:-1] + comma + b'"%s": "%08x"}\n' % (_CHECKSUM.encode(), _checksum(body, seed))


def _split_checksum(line: bytes) -> tuple[bytes, int] | None:
    """A line's body and the checksum that it ends with; None where it ends with none."""
    suffix = line[-_SUFFIX_LENGTH:]
    if not (suffix.startswith(b', "%s": "' % _CHECKSUM.encode()) and suffix.endswith(b'"}')):
        return None
    try:
        return line[:-_SUFFIX_LENGTH] + b"}", int(suffix[-10:-2], 16)
    except ValueError:
        return None


# ---- reading -----------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    return (
        read_bytes(path, what="a file of records", usual_bytes=TABLE_BYTES) if os.path.lexists(path) else b""
    )


def _decode(data: bytes, path: Path, kind: Kind[T]) -> Contents[T]:
    lines = data.split(b"\n")
    cut_off = lines.pop()
    has_header = bool(lines) and _check_header(lines[0], path, kind)
    is_checked = has_header or any(_split_checksum(line) for line in [*lines, cut_off])
    seed = _checksum(_body(kind.header)) if is_checked else None
    records: list[T] = []
    damaged: list[Damage] = []
    first = 1 if has_header else 0
    for number, line in enumerate([*lines[first:], cut_off], start=first + 1):
        if not line.strip():
            continue
        found, rest = _salvage(line, kind, seed)
        records += found
        if rest:
            damaged.append(Damage(number, rest, is_cut_off=number > len(lines)))
    return Contents(tuple(records), tuple(damaged))


def _check_header(line: bytes, path: Path, kind: Kind[T]) -> bool:
    """Whether a line is a whole header, of this kind.

    Raises:
        InputError: It is another's.
    """
    parts = _split_checksum(line)
    if parts is None or _checksum(parts[0]) != parts[1]:
        return False
    header, wanted = json.loads(parts[0]), kind.header
    if header.get(_MARK) != _MARK_VALUE:
        return False
    for name in ("kind", "version", "asked"):
        if header.get(name) != wanted[name]:
            raise InputError(
                f"{path} holds records of another {'question' if name == 'asked' else name}: "
                f"{json.dumps(header.get(name))}, not {json.dumps(wanted[name])}. It is left as it is: "
                f"{kind.elsewhere}, or move it away"
            )
    return True


def _salvage(line: bytes, kind: Kind[T], seed: int | None) -> tuple[list[T], bytes]:
    """The record of a line, and what of it is none.

    A line that was cut off and written on has a whole record at its end: older versions left such lines.
    """
    start = 0
    while start >= 0:
        record = _parse(line[start:], kind, seed)
        if record is not None:
            return [record], line[:start]
        start = line.find(b'{"', start + 1)
    return [], line


def _parse(line: bytes, kind: Kind[T], seed: int | None) -> T | None:
    if seed is not None:
        parts = _split_checksum(line)
        if parts is None or _checksum(parts[0], seed) != parts[1]:
            return None
        line = parts[0]
    try:
        data = json.loads(line, parse_constant=_refuse_constant)
        return kind.parse(data) if isinstance(data, dict) else None
    except _UNREADABLE:
        return None


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of a record")


# ---- writing -----------------------------------------------------------------------------------


def _encode(data: bytes, found: Contents[T], kind: Kind[T]) -> bytes:
    """The file as it should be: the header, and all whole lines with their checksums."""
    header = _line(kind.header)
    if data.startswith(header) and not found.damaged and data.endswith(b"\n"):
        return data
    seed = _checksum(_body(kind.header))
    damaged = {damage.line: damage.text for damage in found.damaged}
    lines = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        whole = line[len(damaged.get(number, b"")) :]
        if whole.strip() and whole + b"\n" != header:
            parts = _split_checksum(whole)
            lines.append(_line(json.loads(parts[0] if parts else whole), seed))
    return header + b"".join(lines)


def _append(path: Path, data: bytes) -> None:
    """Add to the end of a file and to the disk, all or nothing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            _sync(descriptor)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _LOST:
            raise


def _keep_damaged(path: Path, damaged: tuple[Damage, ...]) -> None:
    """Copy damaged lines to the file beside, once, and say so."""
    place = path.with_name(f"{path.name}.damaged")
    kept = _read(place)
    known = set(kept.split(b"\n"))
    new = b"".join(damage.text + b"\n" for damage in damaged if damage.text not in known)
    if new:
        write_bytes_atomically(place, kept + new, updates=True)
    _warn(
        f"{path}: {_name_lines(damaged)} damaged; kept in {place.name}, and all others are used. What is "
        "missing is found anew"
    )


def _name_lines(damaged: tuple[Damage, ...]) -> str:
    """'line 7, which was cut off, is'; 'lines 3, 7 are'."""
    named = [str(damage.line) for damage in damaged[:_MOST_NAMED]]
    if len(damaged) > _MOST_NAMED:
        named.append(f"and {len(damaged) - _MOST_NAMED} more")
    if len(damaged) > 1:
        return f"lines {', '.join(named)} are"
    return f"line {named[0]} was cut off and is" if damaged[0].is_cut_off else f"line {named[0]} is"


def _warn(message: str) -> None:
    warnings.warn(message, StoreWarning, stacklevel=3)
