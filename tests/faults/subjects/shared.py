"""What subjects have in common."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path
from typing import Any

from perfcast.files.lock import StoreWarning
from perfcast.files.records import Kind, read_records

#: Which of several processes is killed.
CHOOSE = random.Random(0)


def records_of(path: Path, kind: Kind[Any]) -> list[Any]:
    """What a file holds after a kill: at most its last line is damaged, and that one has no end."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoreWarning)
        return list(read_records(path, kind).records)


def check_never_fewer(folder: Path, number: int) -> None:
    """Of records: what one kill left, no later one takes away."""
    seen = folder / ".seen"
    before = int(seen.read_text()) if seen.exists() else 0
    assert number >= before, f"{before} records before a kill, {number} after it"
    seen.write_text(str(number))


def children_of(pid: int) -> list[int]:
    """Processes that a process started and that still run."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in found]


def it_or_a_child(pid: int) -> list[int]:
    """One of a process and those that it started."""
    if not pid:
        return []
    return [CHOOSE.choice([pid, *children_of(pid)])]


def wait_until_gone(word: str, seconds: float = 200.0) -> None:
    """Until no process is left whose command holds a word; raises AssertionError where one stays."""
    import time

    until = time.monotonic() + seconds
    while left := _commands_with(word):
        assert time.monotonic() < until, f"still running: {left}"
        time.sleep(0.05)


def _commands_with(word: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in command and int(place.parent.name) != os.getpid():
            found.append(f"{place.parent.name} {command}")
    return found
