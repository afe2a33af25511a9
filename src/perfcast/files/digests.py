"""Digests of files: what a result says that it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_of(path: Path) -> str:
    """SHA-256 of a file's content.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_all(root: Path, paths: Iterable[Path]) -> str:
    """SHA-256 of the names and contents of files, whatever order they come in.

    Args:
        root: Names are told from there, so that the folder's own name does not matter.

    Raises:
        OSError: One cannot be read.
    """
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path.relative_to(root).as_posix()}\0{digest_of(path)}\n".encode())
    return found.hexdigest()
