"""The sample of measured rows that is shipped, so that every suite can be run by anyone.

Rows of tables whose licences let them be shipped (NOTICE), drawn evenly over devices, operations and
sources by a hash of each row (``docs/tools/sample.py``). Forecasts were developed on the whole tables; the
sample shows that a suite runs and what its figures look like, and is too small to be evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perfcast.errors import InputError

#: As ``--data`` names it.
NAME = "sample"
SAMPLE = Path(__file__).parent / "sample"


def folder_of(data: str) -> Path:
    """The folder or file that ``--data`` names: a path, or the shipped sample by its name.

    >>> folder_of("tables/h100").as_posix(), folder_of("sample").name
    ('tables/h100', 'sample')
    """
    return SAMPLE if data == NAME else Path(data)


def places_of(data: tuple[str, ...], fits: bool, say: Callable[[str], None]) -> tuple[str, ...]:
    """The folders and files of measured rows that are named; the shipped sample, said, where none is.

    Args:
        fits: Whether something is to be fitted to them.

    Raises:
        InputError: Something is to be fitted to the sample.
    """
    if data in ((), (NAME,)):
        if fits:
            raise InputError("the shipped sample is too small to fit anything to: --data DIR")
        say("measured: the rows that are shipped; --data DIR takes tables of yours")
    return tuple(str(folder_of(place)) for place in data or (NAME,))
