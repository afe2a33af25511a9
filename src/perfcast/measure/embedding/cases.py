"""Which embedding lookups are measured: tables, batches and distributions of indices, drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.catalogs.reuse import load_reuse
from perfcast.core.arrays import Integers
from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.core.embedding.reuse import rescaled_reuse
from perfcast.errors import InputError, UnknownNameError
from perfcast.units import MIB
from perfcast.workload.recommender.indices import draw_from_reuse, draw_uniform, draw_zipf

#: Distributions of indices: ``zipf-S`` with exponent S, ``reuse-NAME`` with a histogram of the catalog.
DISTRIBUTIONS = (
    "uniform",
    "zipf-0.6",
    "zipf-0.9",
    "zipf-1.05",
    "zipf-1.2",
    "zipf-1.5",
    "reuse-dlrm-2021",
    "reuse-dlrm-2022",
)

#: Left out of every fit, with whole tables, so that an error says what a new workload will see.
HELD_OUT_DISTRIBUTIONS = ("zipf-0.6", "zipf-1.05", "reuse-dlrm-2022")
#: Where a measured case stands: of which of table and distribution a fit may know.
GROUPS = ("fit", "new tables", "new distributions", "new tables and distributions")

_DIMS = (8, 16, 32, 64, 96, 128, 256)
_POOLINGS = (1, 2, 4, 8, 16, 32, 64)
_BATCHES = (128, 256, 512, 1024, 2048, 4096)
_NUM_TABLES = (1, 1, 2, 3, 4, 6, 8)
_LEAST_ROWS, _MOST_ROWS = 300, 3_000_000
#: Of all tables of a case together, so that a case fits anywhere and takes a tenth of a second.
_MOST_WEIGHT_BYTES = 256 * MIB
_MOST_READ_BYTES = 12 * MIB


@dataclass(frozen=True, slots=True)
class EmbeddingCase:
    """Tables that one program looks up one after the other in every step.

    Attributes:
        distributions: Of the indices of each table, names of ``DISTRIBUTIONS`` or like them.
        seed: Of the indices.
    """

    tables: tuple[EmbeddingTable, ...]
    distributions: tuple[str, ...]
    batch_size: int
    seed: int

    @property
    def read_bytes(self) -> float:
        """Bytes of rows read in a forward."""
        return sum(t.pooling * self.batch_size * t.dtype.bytes_of(t.dim) for t in self.tables)


def draw_cases(
    tables: Sequence[EmbeddingTable], distributions: Sequence[str], count: int, seed: int
) -> tuple[EmbeddingCase, ...]:
    """Cases of one to eight of the tables, a distribution each, within the limits of bytes.

    Raises:
        InputError: No tables, or tables too large to measure.
    """
    if not tables or not distributions:
        raise InputError("cases are drawn from at least one table and one distribution")
    rng = np.random.default_rng(seed)
    cases: list[EmbeddingCase] = []
    for _ in range(1000 * count):
        number = min(int(rng.choice(_NUM_TABLES)), len(tables))
        chosen = [tables[i] for i in rng.choice(len(tables), number, replace=False)]
        names = [distributions[i] for i in rng.integers(0, len(distributions), number)]
        case = EmbeddingCase(tuple(chosen), tuple(names), int(rng.choice(_BATCHES)), int(rng.integers(2**31)))
        weights = sum(table.weight_bytes for table in chosen)
        if weights <= _MOST_WEIGHT_BYTES and case.read_bytes <= _MOST_READ_BYTES:
            cases.append(case)
        if len(cases) == count:
            return tuple(cases)
    raise InputError("the tables are too large to be measured")


def design_cases(
    num_fit: int = 700, num_held_out: int = 50, seed: int = 0
) -> Mapping[str, tuple[EmbeddingCase, ...]]:
    """Cases by group of ``GROUPS``: the first shares neither table nor distribution with the last.

    Args:
        num_fit, num_held_out: Cases of the first group, and of each of the others.
    """
    known, new = draw_tables(120, seed), draw_tables(60, seed + 1, "held")
    seen = tuple(name for name in DISTRIBUTIONS if name not in HELD_OUT_DISTRIBUTIONS)
    parts = ((known, seen), (new, seen), (known, HELD_OUT_DISTRIBUTIONS), (new, HELD_OUT_DISTRIBUTIONS))
    counts = (num_fit, num_held_out, num_held_out, num_held_out)
    return {
        group: draw_cases(tables, names, count, seed + 2 + i)
        for i, (group, (tables, names), count) in enumerate(zip(GROUPS, parts, counts, strict=True))
        if count
    }


def draw_tables(count: int, seed: int, prefix: str = "table") -> tuple[EmbeddingTable, ...]:
    """Tables of rows drawn evenly in the logarithm, dims and poolings of the usual sizes."""
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.uniform(np.log(_LEAST_ROWS), np.log(_MOST_ROWS), count)).astype(np.int64)
    tables: list[EmbeddingTable] = []
    for i in range(count):
        pooling = float(rng.choice(_POOLINGS))
        deviation = float(rng.choice((0.0, 1.0))) * pooling
        dim = int(rng.choice(_DIMS))
        tables.append(EmbeddingTable(f"{prefix}{i}", int(rows[i]), dim, pooling, pooling_deviation=deviation))
    return tuple(tables)


def draw_indices(distribution: str, num_rows: int, num_lookups: int, rng: np.random.Generator) -> Integers:
    """Indices of one batch, shape [lookups].

    Raises:
        UnknownNameError: Not a distribution.
    """
    kind, _, argument = distribution.partition("-")
    if distribution == "uniform":
        return draw_uniform(num_rows, num_lookups, rng)
    if kind == "zipf" and _is_number(argument):
        return draw_zipf(num_rows, num_lookups, float(argument), rng)
    if kind == "reuse":
        reuse = rescaled_reuse(load_reuse(argument).reuse, num_lookups, num_rows)
        if reuse.num_rows < num_rows:
            return draw_from_reuse(reuse, num_rows, rng)
        # A table smaller than the rows that its traffic would touch has all of them in use.
        return draw_uniform(num_rows, num_lookups, rng)
    hint = "Use uniform, zipf-S with an exponent S, or reuse-NAME with a histogram of the catalog."
    raise UnknownNameError("distribution of indices", distribution, DISTRIBUTIONS, hint)


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
