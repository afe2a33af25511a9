"""One writer at a time: a lock beside a file, which the system frees when its process ends, however it ends.

The lock is POSIX's record lock (``fcntl.lockf``): unlike one of ``flock``, it is not handed on to processes
that are forked meanwhile, which would hold it after their parent was killed, and NFS knows it. Within one
process such locks do not exclude each other, so a process remembers what it holds. The file of a lock stays
behind, since removing it would let two processes lock two files of one name.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from perfcast.errors import InputError
from perfcast.files.writing import reason_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: How long a second process waits for the first: enough for one that is about to end.
WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.05
_MOST_SAID_BYTES = 4096
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class StoreWarning(UserWarning):
    """A file of records was found damaged, or cannot be locked; the message says what became of it."""


_held: dict[str, int] = {}  # place of a lock → process that took it: a fork does not have its parent's
_guard = threading.Lock()


def lock_path(path: Path) -> Path:
    """The file of the lock of ``path``."""
    return path.parent / f".{path.name}.lock"


@contextmanager
def hold_lock(path: Path, *, elsewhere: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Be the only one that writes to ``path``, a file or a folder, which need not exist yet.

    Where the file system has no locks, a warning says so and the work goes on.

    Args:
        elsewhere: What to do to write to another place, as in 'name another folder with --output'.

    Raises:
        InputError: Another process, or another thread of this one, holds it; says who, since when, and what
            to do. Or the folder cannot be made or written.
    """
    place = lock_path(path)
    key = str(place.resolve())
    with _guard:
        if _held.get(key) == os.getpid():
            raise InputError(f"{path} is being written by this process already; wait for it, or {elsewhere}")
        _held[key] = os.getpid()
    try:
        descriptor = _acquire(path, place, elsewhere, wait_seconds)
        try:
            yield
        finally:
            os.close(descriptor)
    finally:
        with _guard:
            _held.pop(key, None)


def _acquire(path: Path, place: Path, elsewhere: str, wait_seconds: float) -> int:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write beside {path}: {reason_of(error)}; {elsewhere}") from None
    try:
        _wait(descriptor, path, place, elsewhere, wait_seconds)
        with suppress(OSError):  # who holds it is said where that can be written
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _describe_holder(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _wait(descriptor: int, path: Path, place: Path, elsewhere: str, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, "the system has no such locks")
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in _NO_LOCKS:
                warnings.warn(
                    f"{path}: its file system has no locks ({reason_of(error)}); see to it that no other "
                    "perfcast writes there meanwhile",
                    StoreWarning,
                    stacklevel=6,
                )
                return
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise InputError(f"{path} cannot be locked: {reason_of(error)}; {elsewhere}") from None
        if time.monotonic() >= deadline:
            raise InputError(f"{path} is being written by {_holder(place)}; wait for it, or {elsewhere}")
        time.sleep(_POLL_SECONDS)


def _describe_holder() -> bytes:
    said = {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
    }
    return json.dumps(said).encode()


def _holder(place: Path) -> str:
    """'process 1234 (perfcast calibrate), since 18:02:11 UTC on 2026-11-23', as its lock file says."""
    try:
        with place.open("rb") as file:
            said = json.loads(file.read(_MOST_SAID_BYTES))
        pid, host, since, command = (str(said[name]) for name in ("pid", "host", "since", "command"))
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    where = "" if host == platform.node() else f" of {host}"
    day, _, clock = since.partition("T")
    return f"process {pid}{where} ({command}), since {clock[:8]} UTC on {day}"
