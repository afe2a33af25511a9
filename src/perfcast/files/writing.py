"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from perfcast.errors import InputError


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8 through a temporary file in the same folder and a rename.

    A reader sees the old file or the whole new one, and a failure leaves no file behind. Links are
    followed; pipes and devices (``/dev/stdout``) are written to directly, since a rename would
    replace them.

    Raises:
        InputError: The place cannot be written.
    """
    write_bytes_atomically(path, text.encode("utf-8", errors="replace"))


def write_bytes_atomically(path: str | Path, data: bytes) -> None:
    """Like ``write_text_atomically``, for bytes."""
    place = Path(path)
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            place.write_bytes(data)
        else:
            _write_and_rename(place.resolve(), data)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"cannot write '{path}': {reason[:1].lower()}{reason[1:]}. "
            f"Name a file in an existing folder that you may write to."
        ) from error


def _write_and_rename(target: Path, data: bytes) -> None:
    if target.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    temporary = target.parent / f".perfcast-{secrets.token_hex(6)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
        os.replace(temporary, target)  # noqa: PTH105 (named in full: the step that makes it atomic)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: str | None) -> None:
    """Say before the work, not after it, that a file cannot be written.

    Raises:
        InputError: The folder does not exist or is not writable, or the path is a folder.
    """
    if path is None or path == "-":
        return
    target = Path(path)
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission in {target.parent}")
