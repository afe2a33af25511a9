"""The deep-learning recommendation model DLRM (Naumov et al., arXiv 1906.00091)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.errors import ModelError
from perfcast.workload.step import Program


class DLRM(nn.Module):
    """Dense features through a bottom network, sparse ones through tables, dot products, a top network.

    Args:
        dense_features: Number of dense inputs.
        embedding_dim: Width of every table; the bottom network must end with it.
        bottom_mlp, top_mlp: Output widths of the layers.
        table_rows: Rows of each table.
    """

    def __init__(
        self,
        dense_features: int,
        embedding_dim: int,
        bottom_mlp: Sequence[int],
        top_mlp: Sequence[int],
        table_rows: Sequence[int],
    ) -> None:
        super().__init__()
        if bottom_mlp[-1] != embedding_dim:
            raise ModelError(f"bottom_mlp ends with {bottom_mlp[-1]}, the tables have width {embedding_dim}")
        num_features = len(table_rows) + 1
        self.bottom = _mlp(dense_features, bottom_mlp, last_is_linear=False)
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, embedding_dim, mode="sum") for rows in table_rows])
        self.top = _mlp(embedding_dim + num_features * (num_features - 1) // 2, top_mlp, last_is_linear=True)
        self.pair_rows: Tensor
        self.pair_columns: Tensor
        rows, columns = torch.tril_indices(num_features, num_features, offset=-1)
        self.register_buffer("pair_rows", rows, persistent=False)
        self.register_buffer("pair_columns", columns, persistent=False)

    def forward(self, dense: Tensor, indices: list[Tensor], offsets: list[Tensor]) -> Tensor:
        """Logits [batch] from dense [batch, features]; per table, indices [lookups] and offsets [batch]."""
        x = self.bottom(dense)
        looked_up = [table(i, o) for table, i, o in zip(self.tables, indices, offsets, strict=True)]
        features = torch.stack([x, *looked_up], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.pair_rows, self.pair_columns]
        return self.top(torch.cat([x, pairs], dim=1)).squeeze(1)  # type: ignore[no-any-return]


def _mlp(num_inputs: int, widths: Sequence[int], last_is_linear: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for position, width in enumerate(widths):
        layers.append(nn.Linear(num_inputs, width))
        if not (last_is_linear and position == len(widths) - 1):
            layers.append(nn.ReLU())
        num_inputs = width
    return nn.Sequential(*layers)


def build_dlrm_program(config: Mapping[str, Any], batch_size: int, training: bool) -> Program:
    """A DLRM of the catalog's form with inputs of ``batch_size`` samples; binary cross-entropy loss."""
    pooling = config["pooling"]
    tables = config["table_rows"]
    poolings = [pooling] * len(tables) if isinstance(pooling, int) else list(pooling)
    module = DLRM(
        config["dense_features"], config["embedding_dim"], config["bottom_mlp"], config["top_mlp"], tables
    )
    indices = [torch.randint(rows, (batch_size * p,)) for rows, p in zip(tables, poolings, strict=True)]
    offsets = [torch.arange(0, batch_size * p, p) for p in poolings]
    labels = torch.zeros(batch_size)

    def loss(logits: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits, labels)

    dense = torch.zeros(batch_size, config["dense_features"])
    note = "gradients of embedding tables are dense"
    return Program(
        module,
        args=(dense, indices, offsets),
        loss_function=loss,
        batch_size=batch_size,
        notes=(note,) if training else (),
    )
