"""Ranks of recordings that do not say theirs, by the names of their files."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(\d+)")
#: What stands before the number of a rank in a name.
_WORDS = ("rank", "worker", "gpu", "device")


def ranks_of_names(names: Sequence[str]) -> tuple[int, ...] | None:
    """The rank in each name: ('a_rank0_17.json', 'a_rank1_23.json') is (0, 1); None where names do not tell.

    The names differ in numbers alone. The rank is the number behind a word for it, else the only one that
    counts from 0, in any order.
    """
    parts = [_NUMBER.split(name) for name in names]
    if len({tuple(own[::2]) for own in parts}) != 1:
        return None
    columns = [tuple(int(text) for text in column) for column in list(zip(*parts, strict=True))[1::2]]
    words = [text.lower().rstrip("_-.=") for text in parts[0][:-1:2]]
    apart = [place for place, column in enumerate(columns) if len(set(column)) == len(names)]
    named = [place for place in apart if words[place].endswith(_WORDS)]
    counting = [place for place in apart if sorted(columns[place]) == list(range(len(names)))]
    for found in (named, counting):
        if len({columns[place] for place in found}) == 1:
            return columns[found[0]]
    return None
