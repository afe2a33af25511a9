"""What a user's path names: a file, a folder, or nothing. No name is an error here, however long or odd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perfcast.errors import InputError
from perfcast.files.opening import Source, faults_of


def path_exists(path: str | Path) -> bool:
    """Whether anything is there, or may be: where looking is not permitted, reading says so."""
    return _asked(Path(path).exists, unknown=True)


def is_file(path: str | Path) -> bool:
    """Whether it is an ordinary file."""
    return _asked(Path(path).is_file, unknown=False)


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder."""
    return _asked(Path(path).is_dir, unknown=False)


def _asked(ask: Callable[[], bool], *, unknown: bool) -> bool:
    try:
        return ask()
    except PermissionError:
        return unknown
    except (OSError, ValueError):  # longer than the system takes; holds NUL
        return False


def places_in(folder: str | Path, *, what: str, error: type[InputError] = InputError) -> list[Path]:
    """Files and folders directly in a folder, by name.

    Raises:
        InputError: Of the kind asked for: no such folder, or none that can be looked into.
    """
    source = Source.of(folder, what, error)
    if path_exists(folder) and not is_folder(folder):
        source.refuse("it is not a folder")
    with faults_of(source):
        return sorted(Path(folder).iterdir())
