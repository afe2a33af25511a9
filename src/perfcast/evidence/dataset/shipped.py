"""The sample of measured rows that is shipped, so that every suite can be run by anyone.

Rows of tables whose licences let them be shipped (NOTICE), drawn evenly over devices, operations and sources by a hash of
each row (``docs/tools/sample.py``). Forecasts were developed on the whole tables; the sample shows that a suite runs and
what its figures look like, and is too small to be evidence.
"""

from __future__ import annotations

from pathlib import Path

#: As ``--data`` names it.
NAME = "sample"
SAMPLE = Path(__file__).parent / "sample"


def folder_of(data: str) -> Path:
    """The folder or file that ``--data`` names: a path, or the shipped sample by its name.

    >>> folder_of("tables/h100").as_posix(), folder_of("sample").name
    ('tables/h100', 'sample')
    """
    return SAMPLE if data == NAME else Path(data)
