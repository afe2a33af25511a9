"""How much of a file is read: one limit for all of them, on bytes as unpacked.

Without a limit of the user's, a kind of file has its own: what is parsed as a whole takes ten times its text
in memory, tables and arrays twice their bytes, and what is read piece by piece next to nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from perfcast.errors import QuestionError
from perfcast.units import GIB, KIB, MIB, TIB

#: The user's limit for every file, as ``perfcast --max-file`` sets it, also for processes that are started.
VARIABLE = "PERFCAST_MAX_FILE"
#: TOML is parsed in Python, at about a MiB a second.
TOML_BYTES = 16 * MIB
#: JSON, text and logs.
DOCUMENT_BYTES = 64 * MIB
#: CSV, parquet, npz: held in memory as a whole.
TABLE_BYTES = GIB
#: Recordings and lists of requests, read piece by piece.
STREAM_BYTES = 2 * GIB

_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}


def limit_bytes(usual: int) -> int:
    """Unpacked bytes beyond which a file is given up: the user's limit, or what is usual for its kind.

    Raises:
        QuestionError: The variable holds no size.
    """
    text = os.environ.get(VARIABLE)
    return parse_size(VARIABLE, text) if text else usual


@contextmanager
def limited(size: str) -> Iterator[None]:
    """Inside, no file is read beyond so many bytes, here and in processes that are started.

    Raises:
        QuestionError: It is no size.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(parse_size("--max-file", size))
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def parse_size(option: str, text: str) -> int:
    """A number of bytes, with a unit: 500MiB, 8GiB, 8G.

    Raises:
        QuestionError: It is none.
    """
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)", text.strip())
    unit = match[2].lower() if match else ""
    unit = unit + "ib" if unit in ("k", "m", "g", "t") else unit
    if match is None or unit not in _UNITS or float(match[1]) <= 0:
        raise QuestionError(f"{option}: '{text}' is no size; such as 500MiB or 8GiB")
    return max(int(float(match[1]) * _UNITS[unit]), 1)
