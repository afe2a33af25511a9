"""Columns of words: millions of rows, few different ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from perfcast.core.arrays import Floats, Integers, Objects


def encode(words: Objects) -> tuple[list[str], Integers]:
    """The different words, sorted, and for each row the index of its own."""
    return _encode(pl.Series(words.tolist(), dtype=pl.String))


def decode(series: pl.Series) -> Objects:
    """A column of strings as objects; equal ones are one object, so that millions of them cost little."""
    different, codes = _encode(series)
    return np.array(different, dtype=object)[codes]


def join_words(table: str, *columns: Objects) -> Objects:
    """'gemm_h100_sxm | h100_sxm | bf16 | vllm' of each row, shape [n]."""
    frame = pl.DataFrame({str(i): pl.Series(c.tolist(), dtype=pl.String) for i, c in enumerate(columns)})
    return decode(frame.select(pl.concat_str(pl.lit(table), pl.all(), separator=" | ").alias("s"))["s"])


def word_column(frame: pl.DataFrame, names: Sequence[str], otherwise: str = "") -> Objects:
    """The first of the named columns that exists, as words; ``otherwise`` in its gaps, and without any."""
    for name in names:
        if name in frame.columns:
            return decode(frame[name].cast(pl.String).fill_null(otherwise))
    return np.full(frame.height, otherwise, dtype=object)


def look_up(words: Objects, value: Callable[[str], float]) -> Floats:
    """``value`` of each word, asked once for each different one."""
    different, codes = encode(words)
    return np.array([value(word) for word in different], dtype=np.float64)[codes]


def _encode(series: pl.Series) -> tuple[list[str], Integers]:
    different = series.unique().sort().to_list()
    codes = series.replace_strict(different, range(len(different)), return_dtype=pl.Int64)
    return different, codes.to_numpy().astype(np.int64)
