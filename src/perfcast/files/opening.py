"""A file of the user's, opened: an ordinary one, or a pipe that is written to; nothing that never ends."""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from perfcast.errors import InputError
from perfcast.files.limits import DOCUMENT_BYTES, limit_bytes
from perfcast.units import MIB, format_bytes

BLOCK_BYTES = 2 * MIB
#: A pipe that gives nothing for so long is not waited for any longer.
WAITING_SECONDS = 30.0
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_MOST_NAME = 200

_KINDS = (
    (stat.S_ISDIR, "it is a folder; name a file in it"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
)
_REASONS = {
    errno.ENOENT: "no such file",
    errno.ENOTDIR: "no such file: a part of its path is not a folder",
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
    errno.ENAMETOOLONG: "its name is longer than the system takes",
    errno.ELOOP: "its links lead in a circle",
    errno.EISDIR: "it is a folder; name a file in it",
}


@dataclass(frozen=True)
class Source:
    """A file that is to be read, and what is said of it where it cannot be.

    Attributes:
        what: What it is meant to be, for messages: 'the prices', 'the model config'.
        error: Kind of error that its faults are.
        most_bytes: Unpacked bytes that are read of it; None for what is usual for documents.
        limit_option: Option that raises this limit.
    """

    path: Path
    what: str
    error: type[InputError] = InputError
    most_bytes: int = DOCUMENT_BYTES
    limit_option: str = "--max-file"

    @classmethod
    def of(
        cls,
        path: str | Path,
        what: str,
        error: type[InputError] = InputError,
        usual_bytes: int = DOCUMENT_BYTES,
    ) -> Source:
        """With the limit that the user or the kind of file sets."""
        return cls(Path(path), what, error, limit_bytes(usual_bytes))

    def refusal(self, reason: str) -> InputError:
        """The error that says what cannot be read, where, and why."""
        name = str(self.path)
        short = name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…"
        return self.error(f"cannot read {self.what} '{short}': {reason}")

    def refuse(self, reason: str) -> NoReturn:
        """Raises ``refusal``."""
        raise self.refusal(reason)

    def check_size(self, num_bytes: int) -> None:
        """Raises ``refusal`` where so many bytes are more than are read."""
        if num_bytes > self.most_bytes:
            self.refuse(
                f"more than {format_bytes(self.most_bytes)} unpacked; raise the limit "
                f"({self.limit_option}) if you trust it"
            )


@contextmanager
def faults_of(source: Source) -> Iterator[None]:
    """What the system refuses inside is refused in one message."""
    try:
        yield
    except OSError as error:
        raise source.refusal(_reason(error)) from error
    except ValueError as error:  # a name that holds NUL
        raise source.refusal(str(error)) from error


def _reason(error: OSError) -> str:
    known = _REASONS.get(error.errno or 0)
    said = error.strerror or str(error) or type(error).__name__
    return known or said[:1].lower() + said[1:]


def raw_blocks(source: Source) -> Iterator[bytes]:
    """The bytes of the file as they lie on the disk, block by block.

    Raises:
        InputError: Of the source's kind: it cannot be opened, is no file, or fails while it is read.
    """
    with faults_of(source):
        descriptor = _open(source)
    try:
        has_begun = False
        while block := _read(descriptor, source, has_begun=has_begun):
            has_begun = True
            yield block
    finally:
        os.close(descriptor)


def _open(source: Source) -> int:
    """A descriptor that never waits; what is no file is not opened, since opening alone may do things."""
    _check_kind(source.path.stat().st_mode, source)
    descriptor = os.open(source.path, _FLAGS)
    try:
        _check_kind(os.fstat(descriptor).st_mode, source)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(mode: int, source: Source) -> None:
    for is_kind, reason in _KINDS:
        if is_kind(mode):
            source.refuse(reason)


def _read(descriptor: int, source: Source, *, has_begun: bool) -> bytes:
    """The next block; empty at the end. A pipe that nobody has opened for writing yet is waited for."""
    with faults_of(source):
        while True:
            try:
                block = os.read(descriptor, BLOCK_BYTES)
            except BlockingIOError:
                _wait(descriptor, source)
                continue
            if block or has_begun or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                return block
            if not _wait(descriptor, source) & select.POLLIN:
                return b""


def _wait(descriptor: int, source: Source) -> int:
    """What happens to a pipe next, as ``poll`` says it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    events = poll.poll(WAITING_SECONDS * 1000)
    if not events:
        source.refuse(f"nothing came for {WAITING_SECONDS:g} s")
    return events[0][1]
