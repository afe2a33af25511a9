"""Samples of indices: how often tables are looked up, and which rows again and again, in real batches.

    .npz       for each table two arrays of whole numbers: NAME.indices, and NAME.offsets, where each bag
               begins in them (as for ``torch.nn.EmbeddingBag``, with or without the last end)
    .parquet   columns ``table``, ``bag`` (numbered from 0) and ``index``; bags without lookups have no row

Neither can hold code. Numbers are checked before they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Integers
from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.core.embedding.reuse import count_reuse
from perfcast.errors import InputError
from perfcast.files.limits import TABLE_BYTES, limit_bytes
from perfcast.files.reading_arrays import read_arrays
from perfcast.files.reading_tables import read_frame

#: Indices, and lookups of each bag.
Sample = tuple[Integers, Integers]

_WHAT = "the samples of indices"


def apply_samples(
    tables: Sequence[EmbeddingTable], samples: Mapping[str, Sample]
) -> tuple[EmbeddingTable, ...]:
    """Tables with the pooling and the reuse that were counted; those without a sample stay as they are.

    Raises:
        InputError: A sample of no table, or an index beyond its table.
    """
    unknown = sorted(samples.keys() - {table.name for table in tables})
    if unknown:
        raise InputError(f"indices of a table {unknown[0]!r}, which is not among the tables")
    return tuple(
        _counted(table, *samples[table.name]) if table.name in samples else table for table in tables
    )


def _counted(table: EmbeddingTable, indices: Integers, lengths: Integers) -> EmbeddingTable:
    if len(indices) and (indices.min() < 0 or indices.max() >= table.num_rows):
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise InputError(f"indices of table {table.name!r}: {worst} is no row of its {table.num_rows:,}")
    return replace(
        table,
        pooling=float(lengths.mean()) if len(lengths) else 0.0,
        pooling_deviation=float(lengths.std()) if len(lengths) else 0.0,
        reuse=count_reuse(indices) if len(indices) else None,
    )


def load_samples(path: str | Path) -> dict[str, Sample]:
    """Indices by table.

    Raises:
        InputError: A file that cannot be read, or arrays that are no bags of indices.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return _load_arrays(Path(path))
    if suffix == ".parquet":
        return _load_rows(Path(path))
    raise InputError(f"{path}: samples of indices are read from .npz or .parquet")


def _load_arrays(path: Path) -> dict[str, Sample]:
    arrays = read_arrays(path, what=_WHAT)
    samples = {}
    for name in arrays:
        table, dot, part = name.rpartition(".")
        if not dot or part not in ("indices", "offsets"):
            raise InputError(f"{path}: array {name!r} is neither NAME.indices nor NAME.offsets")
        if part == "indices":
            if f"{table}.offsets" not in arrays:
                raise InputError(f"{path}: table {table!r} has indices, but no {table}.offsets")
            samples[table] = _bags(f"{path}: table {table!r}", arrays[name], arrays[f"{table}.offsets"])
    return samples


def _bags(place: str, indices: NDArray[np.generic], offsets: NDArray[np.generic]) -> Sample:
    for kind, values in (("indices", indices), ("offsets", offsets)):
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise InputError(
                f"{place}: {kind} are one row of whole numbers, not {values.dtype} {values.shape}"
            )
    starts = offsets.astype(np.int64)
    ends = np.append(starts, len(indices))
    if len(starts) > 1 and starts[-1] == len(indices):
        ends = starts
    if not len(starts) or starts[0] != 0 or (np.diff(ends) < 0).any():
        raise InputError(f"{place}: offsets rise from 0 to at most {len(indices)}, its number of indices")
    return indices.astype(np.int64), np.diff(ends)


def _load_rows(path: Path) -> dict[str, Sample]:
    import polars

    wanted = {"table": polars.String, "bag": polars.Int64, "index": polars.Int64}
    try:
        frame = read_frame(path, what=_WHAT, columns=list(wanted)).cast(dict(wanted), strict=True)  # type: ignore[arg-type]
    except polars.exceptions.PolarsError as error:
        raise InputError(f"{path}: cannot be read as columns table, bag, index ({error})") from None
    if dict(frame.schema) != wanted:  # what polars leaves as it is: records, lists
        raise InputError(f"{path}: columns table, bag and index are texts and whole numbers")
    if frame.null_count().sum_horizontal().item() or (frame["bag"] < 0).any():
        raise InputError(f"{path}: every row names a table, a bag from 0 and an index")
    last = frame["bag"].max()
    num_bags = int(last) + 1 if isinstance(last, int) else 0
    if num_bags * frame["table"].n_unique() > limit_bytes(TABLE_BYTES) // 8:
        raise InputError(f"{path}: a bag of number {num_bags - 1}; bags are numbered from 0")
    samples = {}
    for (name,), part in frame.group_by("table", maintain_order=True):
        lengths = np.bincount(part["bag"].to_numpy(), minlength=num_bags).astype(np.int64)
        samples[str(name)] = (part["index"].to_numpy().astype(np.int64), lengths)
    return samples
