"""Embedding tables and where they lie: what recommendation forecasts and sharding share."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.report.document import Column, Table, words

MAX_TABLES = 40
#: Of figures; lookups backward are a darker shade of those forward.
LOOKUP_BACKWARD = "#8f7a17"


def placement_table(tables: Sequence[EmbeddingTable], placements: Sequence[TablePlacement]) -> Table:
    """Tables with where they lie, the largest first."""
    pairs = sorted(zip(tables, placements, strict=True), key=lambda pair: -pair[0].weight_bytes)
    return Table(
        columns=(
            Column("Table", folds=False, most_width=32),
            Column("Rows", "count"),
            Column("Columns"),
            Column("Lookups of a sample", "g", short="Lookups"),
            Column("Weights", "B", only="page"),
            Column("Sharding", folds=False),
            Column("Ranks"),
        ),
        rows=tuple(
            (
                one.name,
                one.num_rows,
                one.dim,
                one.pooling,
                one.weight_bytes,
                words(placement.kind.value),
                describe_ranks(placement),
            )
            for one, placement in pairs
        ),
        things="tables, the largest first",
        most_rows=MAX_TABLES,
    )


def describe_kinds(placements: Sequence[TablePlacement]) -> str:
    """How many tables are sharded which way."""
    counts = {kind: sum(placement.kind is kind for placement in placements) for kind in ShardingKind}
    return ", ".join(f"{count} {words(kind.value)}" for kind, count in counts.items() if count)


def describe_ranks(placement: TablePlacement) -> str:
    """'all', or the ranks in the order of the slices."""
    if placement.kind is ShardingKind.DATA_PARALLEL:
        return "all"
    return " ".join(map(str, placement.ranks))
