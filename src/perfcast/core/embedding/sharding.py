"""What a sharding gives every rank: lookups, memory, and what ranks send each other.

Every rank has an equal part of the batch's samples. Under

    table-wise     a rank has a whole table and looks it up for all samples;
    column-wise    a rank has some columns of all rows: like a table of its own, with the same indices;
    row-wise       a rank has a block of rows, looks up the indices that fall on it for all samples, and the
                   ranks' partial sums are added up;
    data-parallel  every rank has the table and looks it up for its own samples.

Indices travel to where rows lie (one number a lookup, one length a bag), pooled rows back; backwards
gradients of pooled rows go the way of the indices. Row blocks are taken to be equally popular, since rows are
hashed. (TorchRec: Ivchenko et al., RecSys 2022.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.embedding.lookup import EmbeddingLookup, EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.embedding.reuse import part_of_reuse, rescaled_reuse
from perfcast.errors import InputError

Tables = Sequence[EmbeddingTable]
Placements = Sequence[TablePlacement]


def check_sharding(tables: Tables, placements: Placements, world_size: int, global_batch_size: int) -> None:
    """Whether a sharding can be followed.

    Raises:
        InputError: Another number of placements than tables, a rank that is not there, fewer rows or columns
            than shards, a data-parallel table that is not on all ranks, a batch that ranks cannot share.
    """
    if len(tables) != len(placements):
        raise InputError(f"{len(tables)} tables with {len(placements)} placements")
    if world_size < 1 or global_batch_size % world_size or global_batch_size < world_size:
        raise InputError(f"a batch of {global_batch_size} does not share among {world_size} ranks")
    for table, place in zip(tables, placements, strict=True):
        if max(place.ranks) >= world_size:
            raise InputError(f"table {table.name!r} lies on rank {max(place.ranks)} of {world_size}")
        sizes = {ShardingKind.ROW_WISE: table.num_rows, ShardingKind.COLUMN_WISE: table.dim}
        if len(place.ranks) > sizes.get(place.kind, world_size):
            raise InputError(f"table {table.name!r} is too small for {len(place.ranks)} shards")
        if place.kind is ShardingKind.DATA_PARALLEL and len(place.ranks) != world_size:
            raise InputError(f"the data-parallel table {table.name!r} lies on {list(place.ranks)} only")


def shard_table(
    table: EmbeddingTable, placement: TablePlacement, global_batch_size: int, world_size: int
) -> tuple[tuple[int, EmbeddingLookup], ...]:
    """Every shard as (rank, what that rank looks up in it)."""
    count = len(placement.ranks)
    lookups = global_batch_size * table.pooling
    reuse = None if table.reuse is None else rescaled_reuse(table.reuse, lookups, table.num_rows)
    whole = EmbeddingLookup(
        table.num_rows, table.dim, global_batch_size, table.pooling, table.dtype, reuse=reuse
    )
    if placement.kind is ShardingKind.TABLE_WISE:
        return ((placement.ranks[0], whole),)
    if placement.kind is ShardingKind.DATA_PARALLEL:
        local = global_batch_size // world_size
        few = None if reuse is None else rescaled_reuse(reuse, local * table.pooling, table.num_rows)
        return tuple((rank, replace(whole, batch_size=local, reuse=few)) for rank in placement.ranks)
    if placement.kind is ShardingKind.COLUMN_WISE:
        widths = split_evenly(table.dim, count)
        return tuple(
            (rank, replace(whole, dim=width)) for rank, width in zip(placement.ranks, widths, strict=True)
        )
    rows = split_evenly(table.num_rows, count)
    return tuple(
        (rank, _row_shard(whole, size, size / table.num_rows))
        for rank, size in zip(placement.ranks, rows, strict=True)
    )


def _row_shard(whole: EmbeddingLookup, num_rows: int, share: float) -> EmbeddingLookup:
    reuse = None if whole.reuse is None else part_of_reuse(whole.reuse, share)
    return replace(whole, num_rows=num_rows, pooling=whole.pooling * share, reuse=reuse)


def shard_lookups(
    tables: Tables, placements: Placements, world_size: int, global_batch_size: int
) -> tuple[tuple[EmbeddingLookup, ...], ...]:
    """What every rank looks up, in the order of the tables.

    Raises:
        InputError: A sharding that cannot be followed.
    """
    check_sharding(tables, placements, world_size, global_batch_size)
    ranks: list[list[EmbeddingLookup]] = [[] for _ in range(world_size)]
    for table, place in zip(tables, placements, strict=True):
        for rank, lookup in shard_table(table, place, global_batch_size, world_size):
            ranks[rank].append(lookup)
    return tuple(map(tuple, ranks))


def weight_bytes_of_ranks(tables: Tables, placements: Placements, world_size: int) -> Floats:
    """Bytes of the tables' weights on each rank, shape [ranks]."""
    held = np.zeros(world_size)
    for table, place in zip(tables, placements, strict=True):
        is_whole = place.kind in (ShardingKind.TABLE_WISE, ShardingKind.DATA_PARALLEL)
        np.add.at(held, list(place.ranks), table.weight_bytes / (1 if is_whole else len(place.ranks)))
    return held


def index_bytes_between(
    tables: Tables,
    placements: Placements,
    world_size: int,
    global_batch_size: int,
    index_dtype: DType = DType.INT64,
) -> Floats:
    """Bytes of indices and lengths that rank r (row) sends rank q (column) in the forward, shape [n, n]."""
    local = global_batch_size / world_size
    received = np.zeros(world_size)
    length_bytes = index_dtype.bits / 8
    for table, place in zip(tables, placements, strict=True):
        if place.kind is ShardingKind.DATA_PARALLEL:
            continue
        share = 1 / len(place.ranks) if place.kind is ShardingKind.ROW_WISE else 1.0
        for rank in set(place.ranks):
            received[rank] += local * (table.pooling * share + 1) * length_bytes
    return np.broadcast_to(received, (world_size, world_size)).copy()


def pooled_bytes_between(
    tables: Tables,
    placements: Placements,
    world_size: int,
    global_batch_size: int,
    pooled_dtype: DType = DType.FP32,
) -> Floats:
    """Bytes of pooled rows that rank r (row) sends rank q (column) in the forward, shape [n, n].

    Backwards gradients of the same bytes go from q to r. A row-wise table's ranks send partial sums, each of
    the whole width.
    """
    local = global_batch_size / world_size
    sent = np.zeros(world_size)
    for table, place in zip(tables, placements, strict=True):
        if place.kind is ShardingKind.DATA_PARALLEL:
            continue
        share = 1.0 if place.kind is not ShardingKind.COLUMN_WISE else 1 / len(place.ranks)
        np.add.at(sent, list(place.ranks), local * table.dim * share * pooled_dtype.bits / 8)
    return np.broadcast_to(sent[:, None], (world_size, world_size)).copy()


def split_evenly(total: int, parts: int) -> list[int]:
    """Whole numbers that differ by at most one and sum to ``total``."""
    return [total // parts + (i < total % parts) for i in range(parts)]
