"""Whether a compiled program runs its convolutions with channels last, whatever its memory format.

Inductor's layout optimization is on by default on NVIDIA's GPUs (torch/_inductor/config.py); this is its
decision (torch/_inductor/graph.py, ``GraphLowering.decide_layout_opt``). Weights and images are then brought
into that format by the kernels that cast them; of one that casts none, the copies of weights are not
counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import OperationKind

#: Time with channels last over time without, by kind of convolution, as PyTorch measured them.
_GROUPED, _SMALL, _FEWER_OUT, _OTHER = 1.358, 0.783, 0.725, 0.823
#: More nodes a convolution than this, and it is not worth it.
_MOST_NODES = 300
_SMALL_CHANNELS = 64


@dataclass(frozen=True, slots=True)
class _Filters:
    """One convolution's: shape [c_out, c_in / groups, *filter], and the flops of a pass."""

    shape: tuple[int, ...]
    groups: int
    flops: int

    @property
    def is_grouped(self) -> bool:
        return self.groups > 1 and self.shape[1] > 1

    @property
    def is_fewer_out(self) -> bool:
        return self.shape[0] * 2 <= self.shape[1] and self.shape[2] > 1

    @property
    def is_small(self) -> bool:
        return self.shape[0] <= _SMALL_CHANNELS and self.shape[1] <= _SMALL_CHANNELS

    @property
    def ratio(self) -> float:
        """Of inference."""
        if self.is_grouped:
            return _GROUPED
        if self.is_small:
            return _SMALL
        return _FEWER_OUT if self.is_fewer_out else _OTHER


def prefers_channels_last(graph: Graph) -> bool:
    """Whether Inductor would run the convolutions of a captured step with channels last."""
    forward = [node for node in graph.nodes if node.phase is Phase.FORWARD]
    found = [
        filters
        for node in forward
        if (filters := _filters(graph, node.operation)) is not None and not node.recomputed
    ]
    if not found or len(forward) >= _MOST_NODES * len(found):
        return False
    if any(node.phase is Phase.BACKWARD for node in graph.nodes):
        has_slow = any(each.is_grouped or each.is_fewer_out for each in found)
        return not has_slow and not all(each.is_small for each in found)
    seconds: dict[str, float] = defaultdict(float)
    for each in found:
        seconds["last"] += each.ratio * each.flops
        seconds["first"] += each.flops
    return seconds["last"] <= seconds["first"]


def _filters(graph: Graph, index: int) -> _Filters | None:
    operation = graph.operations[index]
    if operation.kind is not OperationKind.CONVOLUTION or len(operation.inputs) < 2:
        return None
    groups = operation.attribute("groups")
    return _Filters(operation.inputs[1].shape, groups if isinstance(groups, int) else 1, operation.flops)
