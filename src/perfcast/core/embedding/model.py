"""A recommendation model as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfcast.core.dtype import DType
from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.errors import ModelError


@dataclass(frozen=True)
class Recommender:
    """A DLRM: dense features through a bottom network, tables, interaction, top network.

    Attributes:
        bottom_mlp, top_mlp: Output widths of the layers; the first ends with ``embedding_dim``.
        interaction: 'dot', 'cat' or 'dcn'; see ``workload.recommender``.
        cross_layers, cross_rank: Of dcn.
        tables: All of one width.
    """

    name: str
    dense_features: int
    bottom_mlp: tuple[int, ...]
    top_mlp: tuple[int, ...]
    tables: tuple[EmbeddingTable, ...]
    interaction: str = "dot"
    cross_layers: int = 0
    cross_rank: int = 0

    def __post_init__(self) -> None:
        if not self.tables or not self.bottom_mlp or not self.top_mlp:
            raise ModelError(f"{self.name}: tables, bottom_mlp and top_mlp must not be empty")
        widths = sorted({table.dim for table in self.tables} | {self.bottom_mlp[-1]})
        if len(widths) > 1:
            raise ModelError(
                f"{self.name}: tables and the bottom network's end have widths {widths}, not one"
            )

    @property
    def embedding_dim(self) -> int:
        """Width of every table."""
        return self.bottom_mlp[-1]

    def config(self) -> dict[str, Any]:
        """As the catalog has it."""
        return {
            "dense_features": self.dense_features,
            "embedding_dim": self.embedding_dim,
            "bottom_mlp": list(self.bottom_mlp),
            "top_mlp": list(self.top_mlp),
            "table_rows": [table.num_rows for table in self.tables],
            "pooling": [table.pooling for table in self.tables],
            "interaction": self.interaction,
            "cross_layers": self.cross_layers,
            "cross_rank": self.cross_rank,
        }


def recommender_from_config(name: str, config: Mapping[str, Any], dtype: DType = DType.FP32) -> Recommender:
    """A model of the catalog's form; ``pooling`` is one number for all tables, or one for each.

    Raises:
        ModelError: A key is missing, or numbers that do not fit.
    """
    try:
        rows, pooling = list(config["table_rows"]), config["pooling"]
        poolings = [pooling] * len(rows) if isinstance(pooling, int | float) else list(pooling)
        return Recommender(
            name,
            int(config["dense_features"]),
            tuple(config["bottom_mlp"]),
            tuple(config["top_mlp"]),
            _tables(rows, poolings, int(config["embedding_dim"]), dtype),
            config.get("interaction", "dot"),
            config.get("cross_layers", 0),
            config.get("cross_rank", 0),
        )
    except KeyError as error:
        raise ModelError(f"{name}: a recommendation model's config lacks {error}") from None


def _tables(
    rows: Sequence[int], poolings: Sequence[float], dim: int, dtype: DType
) -> tuple[EmbeddingTable, ...]:
    if len(rows) != len(poolings):
        raise ModelError(f"{len(rows)} tables, but pooling of {len(poolings)}")
    return tuple(
        EmbeddingTable(f"table{i}", count, dim, float(pooling), dtype)
        for i, (count, pooling) in enumerate(zip(rows, poolings, strict=True))
    )
