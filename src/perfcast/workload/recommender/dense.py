"""What every rank of a sharded recommendation model runs beside its tables, captured from the modules.

Pooled rows of all tables come in as one tensor, as an all-to-all delivers them, and their gradient goes out.
The step's nodes fall into segments, which a collective may separate:

    bottom forward, head forward, head backward, bottom backward, optimizer

The head is the interaction, the top network and the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.core.graph import Graph, Node, Phase
from perfcast.workload.recommender.model import DenseDLRM
from perfcast.workload.step import Program

SEGMENTS = ("bottom forward", "head forward", "head backward", "bottom backward", "optimizer")


class DensePart(nn.Module):
    """A ``DenseDLRM`` on pooled rows of all tables in one tensor."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = DenseDLRM(config)

    def forward(self, dense: Tensor, pooled: Tensor) -> Tensor:
        """Logits [batch] from dense [batch, features] and pooled rows [batch, tables, dim]."""
        return self.model(dense, pooled.unbind(1))  # type: ignore[no-any-return]


def build_dense_program(config: Mapping[str, Any], batch_size: int) -> Program:
    """The dense part with inputs of ``batch_size`` samples of one rank; binary cross-entropy loss."""
    labels = torch.zeros(batch_size)
    tables, dim = len(config["table_rows"]), config["embedding_dim"]

    def loss(logits: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits.float(), labels)

    pooled = torch.zeros(batch_size, tables, dim).requires_grad_()
    dense = torch.zeros(batch_size, config["dense_features"])
    return Program(DensePart(config), args=(dense, pooled), loss_function=loss, batch_size=batch_size)


def segments_of(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Indices of the nodes of every segment, in order."""
    found: dict[str, list[int]] = {name: [] for name in SEGMENTS}
    for index, node in enumerate(graph.nodes):
        found[_segment(node)].append(index)
    return {name: tuple(nodes) for name, nodes in found.items()}


def _segment(node: Node) -> str:
    if node.phase is Phase.OPTIMIZER:
        return "optimizer"
    part = "bottom" if ".bottom." in f".{node.module}." else "head"
    return f"{part} {node.phase.value}"


def parameters_of(module: nn.Module) -> dict[str, int]:
    """Parameters whose gradients each backward segment completes."""
    counts = {"bottom backward": 0, "head backward": 0}
    for name, parameter in module.named_parameters():
        counts["bottom backward" if ".bottom." in f".{name}." else "head backward"] += parameter.numel()
    return counts
