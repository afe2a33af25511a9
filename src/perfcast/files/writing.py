"""Writing a file whole or not at all, and never over what is read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from perfcast.errors import InputError
from perfcast.files.places import STANDARD_OUTPUT
from perfcast.files.run import current_run

_PACKAGE = Path(__file__).resolve().parents[1]


def write_text_atomically(path: str | Path, text: str, *, updates: bool = False) -> None:
    """Write ``text`` as UTF-8 through a temporary file in the same folder and a rename.

    A reader sees the old file or the whole new one, also after the machine lost its power, and a failure
    leaves no file behind. Links are followed; pipes and devices (``/dev/stdout``) are written to directly,
    since a rename would replace them.

    Args:
        updates: Whether the file is one that perfcast reads and writes anew, as a profile; else it is not
            written where this run of the command line has read it, or has written it already.

    Raises:
        InputError: The place cannot be written.
    """
    write_bytes_atomically(path, text.encode("utf-8", errors="replace"), updates=updates)


def write_bytes_atomically(path: str | Path, data: bytes, *, updates: bool = False) -> None:
    """Like ``write_text_atomically``, for bytes."""
    with written_atomically(path, updates=updates) as file:
        file.write(data)


def write_fitted_text(path: str | Path, text: str) -> None:
    """Like ``write_text_atomically``, for constants that are shipped: over those of the package too.

    A fit reads what it replaces; of other files it writes over none that it read.

    Raises:
        InputError: The place cannot be written.
    """
    write_text_atomically(path, text, updates=Path(path).resolve().is_relative_to(_PACKAGE))


@contextmanager
def written_atomically(path: str | Path, *, updates: bool = False) -> Iterator[BinaryIO]:
    """A file to be written in pieces, which takes its place when all is written, and not before.

    Args:
        updates: As of ``write_text_atomically``.

    Raises:
        InputError: The place cannot be written.
    """
    place, run = Path(path), None if updates else current_run()
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            with place.open("wb") as file:
                yield file
            return
        target = place.resolve()
        if run is not None:
            run.check(str(target))
        with _renamed(target) as file:
            yield file
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"cannot write '{path}': {reason_of(error)}. "
            "Name a file in an existing folder that you may write to."
        ) from error
    if run is not None:
        run.note_written(str(target))


def reason_of(error: Exception) -> str:
    """What a system says of a place that it refuses, in small letters."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{reason[:1].lower()}{reason[1:]}"


@contextmanager
def _renamed(target: Path) -> Iterator[BinaryIO]:
    if target.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    temporary = target.parent / f".perfcast-{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)  # noqa: PTH105 (named in full: the step that makes it atomic)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: str | Path) -> Path:
    """A folder with those above it, where it does not exist yet.

    Raises:
        InputError: It cannot be made; says why.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = "a file stands in its way" if isinstance(error, FileExistsError) else reason_of(error)
        raise InputError(
            f"cannot make the folder '{path}': {reason}. Name one where you may write."
        ) from error
    return folder


def check_writable(path: str | None) -> None:
    """Say before the work, not after it, that a file cannot be written.

    Raises:
        InputError: The folder does not exist or is not writable, or the path is a folder.
    """
    if path is None or path == STANDARD_OUTPUT:
        return
    target = Path(path)
    try:
        found, above = _mode(target), _mode(target.parent)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {reason_of(error)}") from error
    if found is not None and stat.S_ISDIR(found):
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    if above is None:
        raise InputError(f"cannot write {path}: the folder {target.parent} does not exist")
    if not stat.S_ISDIR(above):
        raise InputError(f"cannot write {path}: {target.parent} is no folder")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission in {target.parent}")


def _mode(path: Path) -> int | None:
    """What stands there; None: nothing."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
