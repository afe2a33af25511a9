"""A plain sharding of a recommendation model's tables, where none is given.

Small tables are copied to all ranks; tables of more than a rank's fair share are cut by rows over at most
eight neighbours, since each sends sums of the whole width; the others are dealt out whole. The largest
by bytes read comes first, each goes to the ranks that have the least so far and have room. The fastest
sharding is a search of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.errors import PlanError
from perfcast.units import MIB

#: Tables up to this size are copied: their gradients add little to the dense part's all-reduce.
_COPIED_BYTES = 1 * MIB
_MOST_ROW_SHARDS = 8


def plain_sharding(
    tables: Sequence[EmbeddingTable], world_size: int, capacity_bytes: float
) -> tuple[TablePlacement, ...]:
    """A placement of every table.

    Args:
        capacity_bytes: What a rank has for weights and the state of their optimizer.

    Raises:
        PlanError: The tables do not fit.
    """
    total = sum(table.weight_bytes for table in tables)
    if total > capacity_bytes * world_size:
        raise PlanError(
            f"tables of {total} bytes do not fit on {world_size} devices with {capacity_bytes:.0f} each"
        )
    everyone = tuple(range(world_size))
    ranks = _Ranks([capacity_bytes] * world_size, [0.0] * world_size)
    placements: dict[int, TablePlacement] = {}
    for i in sorted(range(len(tables)), key=lambda i: (-_read_bytes(tables[i]), -tables[i].weight_bytes, i)):
        table = tables[i]
        shards = min(world_size, _MOST_ROW_SHARDS)
        if world_size > 1 and table.weight_bytes <= _COPIED_BYTES:
            placements[i] = TablePlacement(ShardingKind.DATA_PARALLEL, everyone)
        elif table.weight_bytes > total / world_size and table.num_rows >= shards > 1:
            placements[i] = TablePlacement(ShardingKind.ROW_WISE, ranks.take(table, shards))
        else:
            placements[i] = TablePlacement(ShardingKind.TABLE_WISE, ranks.take(table, 1))
    return tuple(placements[i] for i in range(len(tables)))


@dataclass
class _Ranks:
    """What every rank has left and has to read so far."""

    free_bytes: list[float]
    read_bytes: list[float]

    def take(self, table: EmbeddingTable, count: int) -> tuple[int, ...]:
        """Give a table's parts to the ``count`` neighbours with the least to read that have room."""
        part, read = table.weight_bytes / count, _read_bytes(table) / count
        world = len(self.free_bytes)
        groups = [range(first, first + count) for first in range(0, world - count + 1, count)]
        groups = [group for group in groups if all(self.free_bytes[rank] >= part for rank in group)]
        if not groups:
            raise PlanError(f"table {table.name!r} of {table.weight_bytes} bytes fits on no {count} devices")
        chosen = min(groups, key=lambda group: (max(self.read_bytes[rank] for rank in group), group.start))
        for rank in chosen:
            self.free_bytes[rank] -= part
            self.read_bytes[rank] += read
        return tuple(chosen)


def _read_bytes(table: EmbeddingTable) -> float:
    """Bytes that one sample reads: rows read and the pooled row written."""
    return (table.pooling + 1) * table.dtype.bytes_of(table.dim)
