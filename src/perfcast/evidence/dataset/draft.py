"""What a reader is given, what it hands on, and the checks of cells that come before and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from perfcast.core.formats import FORMATS
from perfcast.core.kernel import SIZES, WORDS, KernelFamily
from perfcast.evidence.dataset.table import RawTable
from perfcast.units import TERA

#: No device holds this many elements along one dimension.
LARGEST_SIZE = TERA

#: Sizes that may be zero: no window, no padding, not causal, no chunks.
_MAY_BE_ZERO = frozenset(
    {"window", "causal", "padding_depth", "padding_height", "padding_width", "has_bias", "chunk_size"}
)

IMPOSSIBLE = "impossible value"
UNSUPPORTED = "unsupported operation"
UNKNOWN_DEVICE = "unknown device"


@dataclass(frozen=True, eq=False)
class Draft:
    """Kernels of one family, unchecked.

    Attributes:
        frame: Columns ``row``, ``device``, ``seconds`` and the family's sizes (Float64) and words (String).
    """

    family: KernelFamily
    frame: pl.DataFrame


@dataclass(frozen=True)
class Reader:
    """How one kind of table is read.

    Attributes:
        source: Citation key.
        numbers, words: Columns without which a row means nothing.
        optional_numbers, optional_words: Columns that may be absent or empty; they arrive as nulls.
        read: Frame of complete rows (``row``, ``device`` and the columns above) → drafts. Rows that
            appear in none of them are operations without a reader.
    """

    source: str
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    read: Callable[[pl.DataFrame], list[Draft]]
    optional_numbers: tuple[str, ...] = ()
    optional_words: tuple[str, ...] = ()


def draft(
    family: KernelFamily, frame: pl.DataFrame, seconds: pl.Expr, **columns: pl.Expr | float | str
) -> Draft:
    """Select a family's columns; numbers and strings stand for all rows."""
    expressions = [pl.col("row"), pl.col("device"), seconds.cast(pl.Float64).alias("seconds")]
    for names, dtype in ((SIZES[family], pl.Float64), (WORDS[family], pl.String)):
        for name in names:
            value = columns.pop(name)
            expression = value if isinstance(value, pl.Expr) else pl.lit(value)
            expressions.append(expression.cast(dtype).alias(name))
    if columns:
        raise ValueError(f"{family.value} has no column {', '.join(sorted(columns))}")
    return Draft(family, frame.select(expressions))


def prepare(raw: RawTable, reader: Reader) -> pl.DataFrame:
    """Columns of a table in the types that its reader expects, with ``row``, ``device`` and ``reason``.

    ``reason`` is null for rows to read, else 'incomplete: <column>' for an empty cell and 'impossible value'
    for a number that is none.
    """
    frame = raw.frame
    numbers, words = reader.numbers + reader.optional_numbers, reader.words + reader.optional_words
    frame = frame.with_columns(pl.lit(None).alias(c) for c in (*numbers, *words) if c not in frame.columns)
    device = next((pl.col(c) for c in ("gpu", "device") if c in raw.frame.columns), None)
    if device is None:
        device = pl.lit(raw.named_device or None)
    faults = [
        pl.when(pl.col(c).is_null()).then(pl.lit(f"incomplete: {c}")) for c in reader.numbers + reader.words
    ] + [
        pl.when(pl.col(c).cast(pl.Float64, strict=False).is_null() & pl.col(c).is_not_null()).then(
            pl.lit(IMPOSSIBLE)
        )
        for c in numbers
    ]
    return frame.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        device.cast(pl.String).str.strip_chars().str.replace_all(" ", "_").alias("device"),
        pl.coalesce(*faults, pl.lit(None, pl.String)).alias("reason"),
        *(pl.col(c).cast(pl.Float64, strict=False) for c in numbers),
        *(pl.col(c).cast(pl.String) for c in words),
    )


def find_faults(draft: Draft) -> pl.Expr:
    """The first thing that is wrong with a row of a draft, or null."""
    faults = [
        pl.when(pl.col("device").is_null() | (pl.col("device") == "")).then(pl.lit(UNKNOWN_DEVICE)),
        pl.when(pl.col("operation").is_null() | ~pl.col("dtype").is_in(list(FORMATS)).fill_null(False)).then(
            pl.lit(UNSUPPORTED)
        ),
    ]
    faults += [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"incomplete: {name}"))
        for name in ("seconds", *SIZES[draft.family], *WORDS[draft.family])
    ]
    for name in SIZES[draft.family]:
        size = pl.col(name)
        least = 0 if name in _MAY_BE_ZERO else 1
        sound = size.is_finite() & (size >= least) & (size <= LARGEST_SIZE) & (size == size.floor())
        faults.append(pl.when(~sound).then(pl.lit(IMPOSSIBLE)))
    sound = pl.col("seconds").is_finite() & (pl.col("seconds") > 0)
    faults.append(pl.when(~sound).then(pl.lit(IMPOSSIBLE)))
    return pl.coalesce(*faults, pl.lit(None, pl.String)).alias("reason")
