"""Casts and copies that make the same tensor again, made once.

Under autocast each of the three projections of an attention casts the same activations. PyTorch's
compiler finds equal calls (``torch._functorch.compile_utils.fx_graph_cse``) and keeps the first. Only
casts and copies are looked for: they are what programs repeat, and they compute nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor
from perfcast.workload.fuse.accesses import phase_runs, written_tensors

_REPEATABLE = frozenset({"_to_copy", "clone"})


def merge_duplicates(graph: Graph, phases: frozenset[Phase]) -> tuple[Graph, frozenset[int]]:
    """The graph in which readers of the second and later equal casts of one phase read the first's.

    Returns:
        The graph, its nodes numbered as before, and the nodes that are left without inputs and outputs.
    """
    same = _find_duplicates(graph, phases)
    if not same:
        return graph, frozenset()
    stands_for = {_result(graph, again): _result(graph, first) for again, first in same.items()}
    moved = _moved_tensors(graph, stands_for)
    return replace(
        graph,
        nodes=tuple(
            _without_operands(node) if index in same else _reading(node, moved)
            for index, node in enumerate(graph.nodes)
        ),
        tensors=tuple(
            Tensor(t.type, stands_for[t.storage]) if t.storage in stands_for else t for t in graph.tensors
        ),
        storages=_merge_storages(graph, stands_for),
    ), frozenset(same)


def _result(graph: Graph, node: int) -> int:
    return graph.tensors[graph.nodes[node].outputs[0]].storage


def _without_operands(node: Node) -> Node:
    return replace(node, inputs=(), outputs=())


def _reading(node: Node, moved: dict[int, int]) -> Node:
    if moved.keys().isdisjoint(node.inputs):
        return node
    return replace(node, inputs=tuple(moved.get(t, t) for t in node.inputs))


def _moved_tensors(graph: Graph, stands_for: dict[int, int]) -> dict[int, int]:
    """Tensors of merged storages → the equal view of the storage that stays, where it has one."""
    kept = set(stands_for.values())
    known = {t: index for index, t in enumerate(graph.tensors) if t.storage in kept}
    moved = {}
    for index, tensor in enumerate(graph.tensors):
        if tensor.storage in stands_for:
            moved[index] = known.setdefault(Tensor(tensor.type, stands_for[tensor.storage]), index)
    return moved


def _find_duplicates(graph: Graph, phases: frozenset[Phase]) -> dict[int, int]:
    """Node → the earlier node of the same phase that makes the same tensor.

    The source is one tensor that covers its storage (else two views of one type may be different
    parts), not written in between, and nothing else writes the results.
    """
    storage_of = [tensor.storage for tensor in graph.tensors]
    repeatable = [operation.name in _REPEATABLE for operation in graph.operations]
    runs = phase_runs(graph)
    written = [[storage_of[t] for t in written_tensors(graph, node)] for node in graph.nodes]
    num_writes = Counter(storage for storages in written for storage in storages)
    writer: dict[int, int] = {}
    first: dict[tuple[int, int, int, int], int] = {}
    same: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        if repeatable[node.operation] and node.phase in phases and _is_function(graph, node, num_writes):
            source = storage_of[node.inputs[0]]
            key = (node.operation, node.inputs[0], writer.get(source, -1), runs[index])
            if first.setdefault(key, index) != index:
                same[index] = first[key]
        writer.update(dict.fromkeys(written[index], index))
    return same


def _is_function(graph: Graph, node: Node, num_writes: Counter[int]) -> bool:
    """Whether the result depends on the source's values alone and stays what it is."""
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    is_whole = source.type.num_bytes >= graph.storages[source.storage].num_bytes
    is_temporary = graph.storages[target.storage].category in (Category.ACTIVATION, Category.TEMPORARY)
    return is_whole and is_temporary and num_writes[target.storage] == 1


def _merge_storages(graph: Graph, stands_for: dict[int, int]) -> tuple[Storage, ...]:
    """Storages, of which each lives as long as any that it stands for."""
    merged = list(graph.storages)
    for again, first in stands_for.items():
        mine, theirs = merged[first], graph.storages[again]
        freed = None
        if mine.freed_after is not None and theirs.freed_after is not None:
            freed = max(mine.freed_after, theirs.freed_after)
        is_saved = Category.ACTIVATION in (mine.category, theirs.category)
        category = Category.ACTIVATION if is_saved else mine.category
        merged[first] = replace(mine, freed_after=freed, category=category)
    return tuple(merged)
