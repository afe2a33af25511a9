"""Which file a name is, whatever it is called: two names of one file are one place."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from perfcast.errors import InputError

#: What stands for standard output where an output is named.
STANDARD_OUTPUT = "-"
_NAMES_OF_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
#: What a place goes by: its path without links, and, where it exists, its device and number in there.
Identity = frozenset[str | tuple[int, int]]


def identity(path: str | Path) -> Identity:
    """What two names of one place have in common; '-' is what standard output is.

    Links are followed; hard links share device and number.
    """
    if str(path) == STANDARD_OUTPUT:
        return frozenset({STANDARD_OUTPUT, *_numbers_of_output()})
    try:
        resolved = os.path.realpath(path)
    except (OSError, ValueError):
        return frozenset({str(path)})
    try:
        found = os.stat(resolved)  # noqa: PTH116 (of a text)
    except (OSError, ValueError):
        return frozenset({resolved})
    return frozenset({resolved, (found.st_dev, found.st_ino)})


def is_standard_output(path: str | Path) -> bool:
    """Whether what is written there is standard output: '-', or another name of it, as '/dev/stdout'."""
    if str(path) in (STANDARD_OUTPUT, *_NAMES_OF_OUTPUT):
        return True
    try:
        found = os.stat(path)  # noqa: PTH116 (of a text)
    except (OSError, ValueError):
        return False
    is_stream = not stat.S_ISREG(found.st_mode) and not _takes_all(found)
    return is_stream and (found.st_dev, found.st_ino) in _numbers_of_output()


def check_places(
    outputs: Sequence[tuple[str, str]], inputs: Iterable[str], *, is_text_shown: bool = False
) -> None:
    """Say before the work that an output is an input, or that two outputs are one place.

    Args:
        outputs: Option and path of each; '-' is standard output.
        inputs: Texts that name files, or may: what is no file, no output can be.
        is_text_shown: Whether standard output gets the answer as text beside them.

    Raises:
        InputError: Says which, and what to do.
    """
    _check_apart(outputs, is_text_shown=is_text_shown)
    found = [(option, path, identity(path)) for option, path in outputs if not _is_sink(path)]
    for text in inputs:
        for read in named_places(text):
            own = identity(read)
            for option, path, other in found:
                if own & other:
                    raise InputError(
                        f"{option} {path}: that is the file '{read}', which is read; name another file"
                    )


def _check_apart(outputs: Sequence[tuple[str, str]], *, is_text_shown: bool) -> None:
    taken: list[tuple[str, Identity]] = []
    if is_text_shown and any(path != STANDARD_OUTPUT for _, path in outputs):
        taken.append(("the text on standard output", identity(STANDARD_OUTPUT)))
    for option, path in outputs:
        if _is_sink(path):
            continue
        own = identity(path)
        for other, theirs in taken:
            if own & theirs:
                raise InputError(
                    f"{option} {path}: {other} goes there too, and one place holds one document; name two"
                )
        taken.append((option, own))


def _numbers_of_output() -> Iterator[tuple[int, int]]:
    """Device and number of standard output; none where it is closed, or is /dev/null."""
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return
    if not _takes_all(found):
        yield (found.st_dev, found.st_ino)


def _takes_all(found: os.stat_result) -> bool:
    """Whether it is /dev/null."""
    try:
        return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116
    except OSError:
        return False


def _is_sink(path: str) -> bool:
    try:
        return _takes_all(os.stat(path))  # noqa: PTH116 (of a text)
    except (OSError, ValueError):
        return False


def named_places(text: str) -> Iterator[str]:
    """Files and folders that a text names: itself, one of a list, FILE.py:function, FILE.toml:8, KEY=FILE."""
    for part in dict.fromkeys((text, *text.split(","))):
        colons = [place.start() for place in re.finditer(":", part)]
        before, after = (part[:at] for at in colons), (part[at + 1 :] for at in colons)
        for name in (part, *before, *after, part.partition("=")[2]):
            if name and _stands(name):
                yield name


def _stands(name: str) -> bool:
    """Whether there is such a file or folder, or one that may not be looked at."""
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 (of a text)
    except OSError as error:
        return error.errno == errno.EACCES
    except ValueError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
