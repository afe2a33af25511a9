"""Kernels in columns: many calls of one family, each by the sizes that decide its time.

A table of measurements and a captured graph both end up here, so that one predictor prices both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats, Integers

Column = NDArray[Any]


class KernelFamily(Enum):
    """Kernels that share their sizes; the value names them in files."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    EXPERTS = "experts"
    ROWS = "rows"
    SCAN = "scan"

    __hash__ = object.__hash__


#: Sizes of each family, all float64. A product is C[m, n] = A[m, k] · B[k, n], ``batch`` times. Attention
#: counts queries and keys of one sequence (a decode step has one query); ``window`` 0 is no window;
#: ``causal`` is 0 or 1. Convolutions are ordinary ones (``core.convolution``), with sizes of each axis; of
#: fewer than three, the outer ones are 1. Experts: ``tensor_parallel`` and ``expert_parallel`` split
#: ``inter_size`` and ``num_experts``, which are the whole model's. Rows: ``num_rows`` times ``row_length``
#: elements, with the bytes that the kernel must read and write. Scan: state-space and linear attention.
SIZES: Mapping[KernelFamily, tuple[str, ...]] = {
    KernelFamily.PRODUCT: ("batch", "m", "n", "k"),
    KernelFamily.CONVOLUTION: (
        "batch", "c_in", "c_out", "groups", "input_depth", "input_height", "input_width", "filter_depth",
        "filter_height", "filter_width", "stride_depth", "stride_height", "stride_width", "padding_depth",
        "padding_height", "padding_width", "dilation_depth", "dilation_height", "dilation_width", "has_bias",
    ),
    KernelFamily.ATTENTION: (
        "batch", "num_queries", "num_keys", "num_heads", "num_kv_heads", "head_size", "value_head_size",
        "window", "causal",
    ),
    KernelFamily.EXPERTS: (
        "num_tokens", "hidden_size", "inter_size", "experts_per_token", "num_experts", "tensor_parallel",
        "expert_parallel",
    ),
    KernelFamily.ROWS: ("num_rows", "row_length", "read_bytes", "written_bytes"),
    KernelFamily.SCAN: (
        "batch", "sequence_length", "model_size", "conv_size", "num_key_heads", "key_head_size",
        "num_value_heads", "value_head_size", "state_size", "num_groups", "chunk_size",
    ),
}  # fmt: skip

#: Words of each family, all strings. ``operation`` is the kernel ('linear', 'bmm', 'context', 'softmax',
#: …), ``dtype`` the arithmetic's format by its measured name ('bf16', 'fp8_block', 'int4_wo', …).
WORDS: Mapping[KernelFamily, tuple[str, ...]] = {
    KernelFamily.PRODUCT: ("operation", "layout", "dtype", "framework"),
    KernelFamily.CONVOLUTION: ("operation", "memory_format", "dtype", "framework"),
    KernelFamily.ATTENTION: ("operation", "dtype", "kv_dtype", "framework"),
    KernelFamily.EXPERTS: ("operation", "distribution", "dtype", "framework"),
    KernelFamily.ROWS: ("operation", "dtype", "framework"),
    KernelFamily.SCAN: ("operation", "phase", "dtype", "framework"),
}


@dataclass(frozen=True, eq=False)
class KernelTable:
    """Calls of one family; ``columns`` holds exactly its ``SIZES`` and ``WORDS``, shape [n] each.

    ``is_cold``: kernels of a model's step, whose weights come from memory each time; a benchmark that
    repeats one kernel finds them in the cache.

    Raises:
        ValueError: A column is missing, superfluous or of another length.
    """

    family: KernelFamily
    columns: Mapping[str, Column]
    is_cold: bool = False

    def __post_init__(self) -> None:
        wanted = {*SIZES[self.family], *WORDS[self.family]}
        if wanted != self.columns.keys():
            raise ValueError(f"{self.family.value}: columns differ by {sorted(wanted ^ self.columns.keys())}")
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"{self.family.value}: columns differ in length")

    def __len__(self) -> int:
        return len(self.columns["operation"])

    def size(self, name: str) -> Floats:
        """A column of sizes."""
        return self.columns[name]

    def word(self, name: str) -> Column:
        """A column of words."""
        return self.columns[name]

    def take(self, index: Column) -> KernelTable:
        """The rows that ``index`` (integers or a mask) selects."""
        columns = {name: column[index] for name, column in self.columns.items()}
        return KernelTable(self.family, columns, self.is_cold)


def build_kernel_table(family: KernelFamily, count: int, /, **columns: object) -> KernelTable:
    """A table from arrays or single values, which are repeated ``count`` times."""
    built: dict[str, Column] = {}
    for name in SIZES[family]:
        built[name] = np.broadcast_to(np.asarray(columns.pop(name), dtype=np.float64), (count,))
    for name in WORDS[family]:
        built[name] = np.broadcast_to(np.asarray(columns.pop(name), dtype=object), (count,))
    if columns:
        raise ValueError(f"{family.value} has no column {', '.join(sorted(columns))}")
    return KernelTable(family, built)


def encode_words(words: Column) -> tuple[list[str], Integers]:
    """The different words in order, and the position of each of n words among them, shape [n]."""
    every = words.tolist()
    names = sorted(set(every))
    position = {name: index for index, name in enumerate(names)}
    return names, np.fromiter(map(position.__getitem__, every), np.int64, len(every))


def join_kernel_tables(tables: Sequence[KernelTable]) -> KernelTable:
    """Tables of one family, one after the other.

    Raises:
        ValueError: No table, or several families.
    """
    families = {table.family for table in tables}
    if len(families) != 1:
        raise ValueError(f"expected tables of one family, found {sorted(f.value for f in families)}")
    if len({table.is_cold for table in tables}) != 1:
        raise ValueError("expected tables that are all cold or all not")
    names = tables[0].columns
    return KernelTable(
        families.pop(),
        {name: np.concatenate([table.columns[name] for table in tables]) for name in names},
        tables[0].is_cold,
    )
