"""Captured steps by key: in memory, the ones last used; as files in a folder, within a number of bytes.

Files are written whole or not at all, so that any number of processes may share a folder. A file that is
damaged, or was not written by this program, is removed and its step captured again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from perfcast.core.captured import CapturedStep
from perfcast.errors import InputError
from perfcast.files.writing import write_bytes_atomically
from perfcast.units import MIB
from perfcast.workload.kept.encoding import MOST_FILE_BYTES, DamagedError, decode, encode

#: Names the folder of files; 'off' keeps none.
FOLDER_VARIABLE = "PERFCAST_CACHE"
_OFF = ("off", "0", "no", "none", "")
#: All files together; those used longest ago go first.
MOST_FOLDER_BYTES = 512 * MIB
#: Steps in memory, and nodes, tensors and storages of all of them: some 200 MB.
_MOST_STEPS, _MOST_PARTS = 32, 2_000_000
_ENDING = ".capture"
_TEMPORARY = ".perfcast-*.tmp"
#: A temporary file that is older was left by a process that was killed.
_OLD_SECONDS = 3600.0


def captures_folder() -> Path | None:
    """The user's cache folder, or what PERFCAST_CACHE names; None where it says 'off'."""
    said = os.environ.get(FOLDER_VARIABLE)
    if said is None:
        import platformdirs

        return Path(platformdirs.user_cache_path("perfcast")) / "captures"
    return None if said.strip().lower() in _OFF else Path(said) / "captures"


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What a folder holds."""

    folder: Path
    count: int
    num_bytes: int


class Captures:
    """Steps that were captured; safe to use from several threads, which capture one after the other."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_FOLDER_BYTES) -> None:
        """
        Args:
            folder: Of files; None keeps steps in memory alone.
            most_bytes: Of all files together.
        """
        self._folder, self._most_bytes = folder, most_bytes
        self._steps: OrderedDict[str, CapturedStep] = OrderedDict()
        self._reading, self._capturing = threading.Lock(), threading.RLock()

    def step(self, key: str, capture: Callable[[], CapturedStep], *, on_disk: bool = True) -> CapturedStep:
        """The step of a key: as it was kept, else as ``capture`` gives it, which is then kept.

        Args:
            key: Everything that decides what ``capture`` gives, in words.
            on_disk: Whether a file may be read and written.
        """
        found = self._remembered(key)
        if found is not None:
            return found
        with self._capturing:
            found = self._remembered(key)
            if found is None:
                path = self._path(key) if on_disk else None
                found = None if path is None else _read(path, key)
                if found is None:
                    found = capture()
                    if path is not None:
                        self._write(path, key, found)
                self._remember(key, found)
        return found

    def _remembered(self, key: str) -> CapturedStep | None:
        with self._reading:
            found = self._steps.get(key)
            if found is not None:
                self._steps.move_to_end(key)
            return found

    def _remember(self, key: str, step: CapturedStep) -> None:
        with self._reading:
            self._steps[key] = step
            parts = sum(_parts(each) for each in self._steps.values())
            while len(self._steps) > 1 and (len(self._steps) > _MOST_STEPS or parts > _MOST_PARTS):
                parts -= _parts(self._steps.popitem(last=False)[1])

    def _path(self, key: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{blake2b(key.encode(), digest_size=20).hexdigest()}{_ENDING}"

    def _write(self, path: Path, key: str, step: CapturedStep) -> None:
        """Nothing is kept where nothing can be written."""
        data = encode(step, key)
        if len(data) > min(MOST_FILE_BYTES, self._most_bytes):
            return
        with suppress(OSError, InputError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes_atomically(path, data, updates=True)
            _prune(path.parent, self._most_bytes)


def _parts(step: CapturedStep) -> int:
    return len(step.graph.nodes) + len(step.graph.tensors) + len(step.graph.storages)


@cache
def captures_in(folder: Path | None) -> Captures:
    """The one store of this process for a folder."""
    return Captures(folder)


def _read(path: Path, key: str) -> CapturedStep | None:
    """The step of a file; None where there is none, or one that is not believed, which is then removed."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        step = decode(data, key)
    except DamagedError:
        with suppress(OSError):
            path.unlink()
        return None
    except OSError:
        return None
    with suppress(OSError):
        os.utime(path)  # used now: among the last to go
    return step


# ---- the folder ----------------------------------------------------------------------------------


def kept_files(folder: Path) -> KeptFiles:
    """How many steps a folder holds, and their bytes."""
    sizes = [size for _, size, _ in _files(folder)]
    return KeptFiles(folder, len(sizes), sum(sizes))


def clear(folder: Path) -> KeptFiles:
    """Remove all steps of a folder, and say what was removed."""
    count = num_bytes = 0
    for path, size, _ in list(_files(folder)):
        with suppress(OSError):
            path.unlink()
            count, num_bytes = count + 1, num_bytes + size
    return KeptFiles(folder, count, num_bytes)


def _prune(folder: Path, most_bytes: int) -> None:
    files = sorted(_files(folder), key=lambda file: file[2])
    total = sum(size for _, size, _ in files)
    for path, size, _ in files:
        if total <= most_bytes:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
    for path in folder.glob(_TEMPORARY):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _OLD_SECONDS:
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    """Path, bytes and time of last use of every step."""
    with suppress(OSError):
        for path in folder.glob(f"*{_ENDING}"):
            with suppress(OSError):
                state = path.stat()
                yield path, state.st_size, state.st_mtime
