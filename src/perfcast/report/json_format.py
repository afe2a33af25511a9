"""Plain data as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfcast.files import write_text_atomically

SCHEMA_VERSION = "1"
STABLE_DIGITS = 12


def write_json(data: Mapping[str, Any], path: str | Path) -> None:
    """Write an answer to ``path``, or to standard output alone where it is ``-``.

    Figures have ``STABLE_DIGITS`` significant digits; counts that are whole numbers have all.

    Raises:
        InputError: The place cannot be written.
        ValueError: A number is not finite; nothing is written.
    """
    write_exact_json(_with_stable_digits(data), path)


def write_exact_json(data: Mapping[str, Any], path: str | Path, *, indent: int | None = 2) -> None:
    """Write what programs read back (timelines, fitted figures) with every digit; else as ``write_json``.

    Args:
        indent: Blanks of a level; None writes one line, a third as long.

    Raises:
        InputError: The place cannot be written.
        ValueError: A number is not finite; nothing is written.
    """
    text = json.dumps(data, indent=indent, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text_atomically(path, text)


def _with_stable_digits(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{STABLE_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _with_stable_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_stable_digits(item) for item in value]
    return value
