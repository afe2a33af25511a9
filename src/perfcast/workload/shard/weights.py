"""The parameters of a captured graph: which parts of the model use each, and when its gradient is ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.tensor import Category, TensorType
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.state import parameters_of
from perfcast.workload.shard.tensor import Cutting


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter as one part of the model uses it.

    Attributes:
        storage: Of the parameter; parts that share it name the same.
        type: What a rank holds, as a flat tensor.
        ready: The node that makes its gradient of this part ready; None in a forward alone, or for one that
            is not trained.
    """

    storage: int
    part: int
    type: TensorType
    ready: int | None

    @property
    def num_bytes(self) -> int:
        """Bytes that a rank holds."""
        return self.type.num_bytes


def find_weights(cutting: Cutting, parts: Parts) -> tuple[Weight, ...]:
    """Every parameter once for each part that uses it in the forward, in the program's order."""
    graph = cutting.graph
    owners = parameters_of(graph)
    users: dict[tuple[int, int], set[str]] = {}
    views: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        for tensor in node.inputs if node.phase is Phase.FORWARD else ():
            storage = graph.tensors[tensor].storage
            owner = owners.get(storage)
            if owner is None:
                continue
            if storage == owner:
                views.setdefault(owner, tensor)
            users.setdefault((owner, parts.of_node[index]), set()).add(node.module)
    ready = _ready_nodes(graph, parts)
    found = []
    for (storage, part), modules in users.items():
        dtype = graph.tensors[views[storage]].type.dtype
        local = TensorType((_count(cutting.local_bytes(storage), dtype),), dtype, (1,))
        size = _count(graph.storages[storage].num_bytes, dtype)
        found.append(Weight(storage, part, local, _ready(graph, ready, size, part, modules)))
    return tuple(found)


def _count(num_bytes: int, dtype: DType) -> int:
    """Elements."""
    return num_bytes * 8 // dtype.bytes_of(8)


Made = dict[tuple[int, str, int], list[tuple[int, int]]]


def _ready_nodes(graph: Graph, parts: Parts) -> Made:
    """(part, module, elements) → (node, storage) of what the backward makes there."""
    made: Made = {}
    for index, node in enumerate(graph.nodes):
        if node.phase is Phase.BACKWARD and not node.recomputed:
            for tensor in node.outputs:
                entry = graph.tensors[tensor]
                key = (parts.of_node[index], node.module, entry.type.num_elements)
                made.setdefault(key, []).append((index, entry.storage))
    return made


def _ready(graph: Graph, made: Made, size: int, part: int, modules: set[str]) -> int | None:
    """The last node of these modules that makes as many elements: a gradient, or part of a shared one."""
    found = [entry for module in modules for entry in made.get((part, module, size), ())]
    final = [index for index, storage in found if graph.storages[storage].category == Category.GRADIENT]
    return max(final or [index for index, _ in found], default=None)


def shared_weights(weights: Sequence[Weight]) -> dict[int, list[Weight]]:
    """Storage → uses, of parameters that several parts use."""
    uses: dict[int, list[Weight]] = {}
    for weight in weights:
        uses.setdefault(weight.storage, []).append(weight)
    return {storage: found for storage, found in uses.items() if len(found) > 1}


def distinct(weights: Sequence[Weight]) -> list[Weight]:
    """Each parameter once."""
    return list({weight.storage: weight for weight in weights}.values())


def ready_weights(weights: Sequence[Weight]) -> list[Weight]:
    """Those that have a gradient; of a shared one, the use whose gradient is ready last."""
    last: dict[int, Weight] = {}
    for weight in weights:
        known = last.get(weight.storage)
        if weight.ready is not None and (known is None or weight.ready > (known.ready or 0)):
            last[weight.storage] = weight
    return list(last.values())
