"""What a recorder saw, before and after folded layers are written out."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.graph import Node
from perfcast.core.operation import Operation
from perfcast.core.tensor import Storage, Tensor


@dataclass
class Recording:
    """Columns of a graph under construction.

    Attributes:
        parameters: Storage of each parameter by its dotted name (tied ones share a storage).
        gradients: Storage of each parameter's gradient after the backward.
    """

    nodes: list[Node]
    operations: list[Operation]
    tensors: list[Tensor]
    storages: list[Storage]
    parameters: dict[str, int]
    gradients: dict[str, int]
