"""Rows of whole numbers that are equal: each different one once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.core.arrays import Flags, Integers

_LARGEST_CODE = 2**62


def different_rows(columns: Sequence[Integers | Flags]) -> tuple[Integers, Integers]:
    """First row of each different one, shape [k], and the number of every row's, shape [n].

    >>> different_rows([np.array([4, 4, 4]), np.array([1, 2, 1])])
    (array([0, 1]), array([0, 1, 0]))
    """
    count = len(columns[0])
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    codes, size = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        values = column.astype(np.int64)
        low, high = int(values.min()), int(values.max())
        if low == high:
            continue
        if size * (high - low + 1) >= _LARGEST_CODE:
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            size = int(codes.max()) + 1
        codes = codes * (high - low + 1) + (values - low)
        size *= high - low + 1
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first.astype(np.int64), place.reshape(-1).astype(np.int64)
