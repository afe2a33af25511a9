"""Published reuse histograms of embedding lookups: ``locality_stats`` of facebookresearch/dlrm_datasets.

A row of the table is one statistic of one shard: lookups (``Avg # of indices``), different rows (``Avg # of
unique cols``), and twice 16 shares by bin, first of the different rows, then of the lookups. The shares are
over all tables of the shard together; what they lack to 1 is beyond the last bin.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfcast.core.embedding.lookup import REUSE_LIMITS, ReuseHistogram
from perfcast.core.embedding.reuse import part_of_reuse, reuse_of_fractions
from perfcast.errors import InputError

_COLUMNS = ("year", "dataset", "batches", "batch_size", "stat", "bin", "value")
_LOOKUPS, _ROWS, _SHARES = "Avg # of indices", "Avg # of unique cols", "reuse_histogram_fraction"
_NUM_TABLES = re.compile(r"_t(\d+)_")
_BINS = ("(0,1]", *(f"({limit // 2},{limit}]" for limit in REUSE_LIMITS[1:]))


@dataclass(frozen=True, slots=True)
class PublishedReuse:
    """What one shard says.

    Attributes:
        num_tables, batch_size: Of the shard; one batch.
        num_lookups, num_rows: Lookups and different rows of all tables together.
        row_fractions, lookup_fractions: 16 shares each, as published.
    """

    year: int
    dataset: str
    num_tables: int
    batch_size: int
    num_lookups: float
    num_rows: float
    row_fractions: tuple[float, ...]
    lookup_fractions: tuple[float, ...]

    def of_one_table(self) -> ReuseHistogram:
        """The histogram of a table that has its equal part of every bin."""
        whole = reuse_of_fractions(self.row_fractions, self.lookup_fractions, self.num_rows, self.num_lookups)
        return part_of_reuse(whole, 1 / self.num_tables)


def read_locality(path: Path) -> tuple[PublishedReuse, ...]:
    """Every shard of a locality table, in the order of the file.

    Raises:
        InputError: Not such a table, or a shard that is not whole.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table of reuse histograms ({error})") from None
    if not rows or any(name not in rows[0] for name in _COLUMNS):
        raise InputError(f"{path}: a table of reuse histograms has the columns {', '.join(_COLUMNS)}")
    shards: defaultdict[tuple[str, str], list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        shards[row["year"], row["dataset"]].append(row)
    return tuple(_shard(path, year, name, lines) for (year, name), lines in shards.items())


def _shard(path: Path, year: str, name: str, rows: Iterable[Mapping[str, str]]) -> PublishedReuse:
    values: defaultdict[str, list[float]] = defaultdict(list)
    bins: list[str] = []
    tables = _NUM_TABLES.search(name)
    try:
        for row in rows:
            values[row["stat"]].append(float(row["value"]))
            bins += [row["bin"]] * (row["stat"] == _SHARES)
            batches, batch_size = int(row["batches"]), int(row["batch_size"])
        if tables is None or batches != 1 or bins != list(_BINS) * 2:
            raise InputError("a shard is one batch of a known number of tables with twice 16 bins")
        return PublishedReuse(
            int(year), name, int(tables[1]), batch_size, values[_LOOKUPS][0], values[_ROWS][0],
            tuple(values[_SHARES][: len(_BINS)]), tuple(values[_SHARES][len(_BINS) :]),
        )  # fmt: skip
    except (ValueError, IndexError, TypeError, InputError) as error:
        raise InputError(f"{path}: shard {name!r} is not whole ({error})") from None
