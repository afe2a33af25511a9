"""Which perfcast this is: what every file that it writes says."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def perfcast_version() -> str:
    """Version of the installed package; ``unknown`` when run from a bare source tree."""
    try:
        return metadata.version("perfcast")
    except metadata.PackageNotFoundError:
        return "unknown"
