"""What one run has read and written, so that it writes over nothing that it read, and over nothing twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from perfcast.errors import InputError

Number = tuple[int, int]


class Run:
    """Files that a process opened to be read, and documents that it wrote.

    Attributes:
        read: Their paths as they were opened, made absolute.
    """

    def __init__(self) -> None:
        self.read: dict[str, Number | None] = {}
        self._written: dict[Number, str] = {}
        self._looked_at: set[str] = set()

    def check(self, path: str) -> None:
        """Say that a file cannot be written, since it was read, or holds another document of this run.

        Raises:
            InputError: It was, or does.
        """
        number = _number(path)
        if number is None:
            return
        if number in self._written:
            raise InputError(
                f"cannot write '{path}': it holds what this run wrote just before; name two files"
            )
        if number in self._numbers_read():
            raise InputError(f"cannot write '{path}': this run has read it; name another file")

    def note_written(self, path: str) -> None:
        """Remember a document."""
        number = _number(path)
        if number is not None:
            self._written[number] = path

    def _numbers_read(self) -> set[Number]:
        for path in self.read.keys() - self._looked_at:
            self.read[path] = _number(path)
            self._looked_at.add(path)
        return {number for number in self.read.values() if number is not None}


_now: Run | None = None
_is_hooked = False


def current_run() -> Run | None:
    """The run that is watched, if one is."""
    return _now


@contextmanager
def watched_run() -> Iterator[Run]:
    """A run of the command line: what is opened from here on is noted.

    Python tells every opening of a file (``sys.audit``), whoever opens it: our readers, a model's own
    program, a library that reads a config. Files that a library's C code opens by itself stay unseen, and
    so do those of other processes.
    """
    global _now, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_note)
        _is_hooked = True
    before, _now = _now, Run()
    try:
        yield _now
    finally:
        _now = before


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or _now is None:
        return
    path, mode, flags = arguments
    if not isinstance(path, str | bytes | os.PathLike) or _only_writes(mode, flags):
        return
    try:
        _now.read.setdefault(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 (called for every file)
    except (OSError, ValueError):
        return


def _only_writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return "r" not in mode and "+" not in mode
    return isinstance(flags, int) and flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) == os.O_WRONLY


def _number(path: str) -> Number | None:
    try:
        found = os.stat(path)  # noqa: PTH116 (of a text)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
