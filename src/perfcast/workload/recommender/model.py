"""The deep-learning recommendation model DLRM (Naumov et al., arXiv 1906.00091) as modules.

Dense features go through a bottom network, sparse ones through embedding tables, all of them through an
interaction, and its result through a top network. Interactions:

    dot  products of all pairs of features, beside the dense one
    cat  all features side by side
    dcn  a low-rank cross network over all features side by side: x ← x₀ ⊙ (W(Vx) + b) + x in each layer
         (DCN-v2: Wang et al., WWW 2021; the DLRM of MLPerf Training since v3.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.errors import ModelError
from perfcast.workload.step import Program

INTERACTIONS = ("dot", "cat", "dcn")


class DenseDLRM(nn.Module):
    """All of the model but its tables: bottom network, interaction, top network.

    Args:
        config: As the catalog has it: ``dense_features``, ``embedding_dim``, ``bottom_mlp`` and ``top_mlp``
            (output widths of the layers), ``table_rows``, ``interaction``; of dcn ``cross_layers`` and
            ``cross_rank``.

    Raises:
        ModelError: Widths that do not fit, or an unknown interaction.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.bottom, self.interaction, self.top = _dense_parts(config)

    def forward(self, dense: Tensor, pooled: Sequence[Tensor]) -> Tensor:
        """Logits [batch] from dense [batch, features] and pooled rows of every table [batch, dim]."""
        return self.top(self.interaction(self.bottom(dense), pooled)).squeeze(1)  # type: ignore[no-any-return]


class DLRM(nn.Module):
    """The whole model; ``config`` as ``DenseDLRM`` takes it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.bottom, self.interaction, self.top = _dense_parts(config)
        dim = config["embedding_dim"]
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, dim, mode="sum") for rows in config["table_rows"]])

    def forward(self, dense: Tensor, indices: list[Tensor], offsets: list[Tensor]) -> Tensor:
        """Logits [batch] from dense [batch, features]; per table, indices [lookups] and offsets [batch]."""
        x = self.bottom(dense)
        pooled = [table(i, o) for table, i, o in zip(self.tables, indices, offsets, strict=True)]
        return self.top(self.interaction(x, pooled)).squeeze(1)  # type: ignore[no-any-return]


class DotInteraction(nn.Module):
    """The dense feature beside the products of all pairs of features."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.pair_rows: Tensor
        self.pair_columns: Tensor
        rows, columns = torch.tril_indices(num_features, num_features, offset=-1)
        self.register_buffer("pair_rows", rows, persistent=False)
        self.register_buffer("pair_columns", columns, persistent=False)

    def forward(self, x: Tensor, pooled: Sequence[Tensor]) -> Tensor:
        """[batch, dim + pairs]."""
        features = torch.stack([x, *pooled], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        return torch.cat([x, products[:, self.pair_rows, self.pair_columns]], dim=1)


class CatInteraction(nn.Module):
    """All features side by side."""

    def forward(self, x: Tensor, pooled: Sequence[Tensor]) -> Tensor:
        """[batch, features · dim]."""
        return torch.cat([x, *pooled], dim=1)


class CrossInteraction(nn.Module):
    """A low-rank cross network over all features side by side."""

    def __init__(self, width: int, num_layers: int, rank: int) -> None:
        super().__init__()
        if num_layers < 1 or rank < 1:
            raise ModelError(f"a cross network of {num_layers} layers of rank {rank}; both are at least 1")
        self.down = nn.ModuleList([nn.Linear(width, rank, bias=False) for _ in range(num_layers)])
        self.up = nn.ModuleList([nn.Linear(rank, width) for _ in range(num_layers)])

    def forward(self, x: Tensor, pooled: Sequence[Tensor]) -> Tensor:
        """[batch, features · dim]."""
        first = torch.cat([x, *pooled], dim=1)
        crossed = first
        for down, up in zip(self.down, self.up, strict=True):
            crossed = first * up(down(crossed)) + crossed
        return crossed


def _dense_parts(config: Mapping[str, Any]) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Bottom network, interaction and top network."""
    dim, bottom = config["embedding_dim"], config["bottom_mlp"]
    if bottom[-1] != dim:
        raise ModelError(f"bottom_mlp ends with {bottom[-1]}, the tables have width {dim}")
    interaction, width = _interaction(config, len(config["table_rows"]) + 1)
    return (
        _mlp(config["dense_features"], bottom, last_is_linear=False),
        interaction,
        _mlp(width, config["top_mlp"], last_is_linear=True),
    )


def _interaction(config: Mapping[str, Any], num_features: int) -> tuple[nn.Module, int]:
    """The module and its output's width."""
    name, dim = config.get("interaction", "dot"), config["embedding_dim"]
    if name == "dot":
        return DotInteraction(num_features), dim + num_features * (num_features - 1) // 2
    if name == "cat":
        return CatInteraction(), num_features * dim
    if name == "dcn":
        width = num_features * dim
        return CrossInteraction(width, config["cross_layers"], config["cross_rank"]), width
    raise ModelError(f"interaction {name!r} of a recommendation model; known: {', '.join(INTERACTIONS)}")


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
    module = DLRM(config)
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
