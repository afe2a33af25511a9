"""Columns of words: millions of rows, few different ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray


def encode(words: NDArray[np.object_]) -> tuple[list[str], NDArray[np.int64]]:
    """The different words, sorted, and for each row the index of its own."""
    return _encode(pl.Series(words.tolist(), dtype=pl.String))


def decode(series: pl.Series) -> NDArray[np.object_]:
    """A column of strings as objects; equal ones are one object, so that millions of them cost little."""
    different, codes = _encode(series)
    return np.array(different, dtype=object)[codes]


def look_up(words: NDArray[np.object_], value: Callable[[str], float]) -> NDArray[np.float64]:
    """``value`` of each word, asked once for each different one."""
    different, codes = encode(words)
    return np.array([value(word) for word in different], dtype=np.float64)[codes]


def _encode(series: pl.Series) -> tuple[list[str], NDArray[np.int64]]:
    different = series.unique().sort().to_list()
    codes = series.replace_strict(different, range(len(different)), return_dtype=pl.Int64)
    return different, codes.to_numpy().astype(np.int64)
