"""A workload: nodes in the order in which the program issues them.

A step of a large model has tens of thousands of nodes but some hundred different operations; a
node holds the index of its operation, so that each different one is priced once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from perfcast.core.operation import MATRIX_KINDS, Operation
from perfcast.core.tensor import Storage, Tensor


class Phase(Enum):
    """Part of a step in which a node runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Node:
    """One issue of an operation.

    Attributes:
        operation: Index into ``Graph.operations``.
        phase: Part of the step.
        module: Dotted path of the module that asked for it; '' for the root.
        inputs, outputs: Indices into ``Graph.tensors``.
        recomputed: Whether it repeats forward work during the backward (activation checkpointing).
        stream: Device stream; 0 is the compute stream.
        num_views: Operators that the program ran since the node before and that launch nothing (views,
            metadata); they cost the host alone.
        num_calls: Modules that the program entered since the node before.
    """

    operation: int
    phase: Phase
    module: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    recomputed: bool = False
    stream: int = 0
    num_views: int = 0
    num_calls: int = 0

    def elsewhere(self, module: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Node:
        """The same issue by another module on other tensors; ``replace`` takes five times as long."""
        kept = self.recomputed, self.stream, self.num_views, self.num_calls
        return Node(self.operation, self.phase, module, inputs, outputs, *kept)


@dataclass(frozen=True)
class Graph:
    """Nodes, the operations that they issue, and the tensors and storages that they touch.

    Attributes:
        nodes: In program order.
        operations: Without repeats.
        tensors, storages: Referenced by index.
        parameter_count: Distinct parameters of the model (tied ones once).
        notes: Assumptions made while building, for the reader of the result.
    """

    nodes: tuple[Node, ...] = field(repr=False)
    operations: tuple[Operation, ...] = field(repr=False)
    tensors: tuple[Tensor, ...] = field(repr=False)
    storages: tuple[Storage, ...] = field(repr=False)
    parameter_count: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def flops(self) -> int:
        """Model flops: products, convolutions and attention, each once (no recomputation)."""
        return sum(
            count * self.operations[index].flops
            for (index, recomputed), count in self._counts().items()
            if not recomputed and self.operations[index].kind in MATRIX_KINDS
        )

    @property
    def recompute_flops(self) -> int:
        """Flops that repeat earlier work: checkpointed forwards and the insides of flash backward."""
        total = 0
        for (index, recomputed), count in self._counts().items():
            operation = self.operations[index]
            if operation.kind in MATRIX_KINDS:
                total += count * (operation.recompute_flops + (operation.flops if recomputed else 0))
        return total

    def _counts(self) -> Counter[tuple[int, bool]]:
        return Counter((node.operation, node.recomputed) for node in self.nodes)
