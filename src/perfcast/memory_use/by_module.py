"""Which part of a model the bytes belong to.

A storage belongs to the module whose operation makes it; what was there before the step to the module that
uses it first (a parameter to its own). Modules are put into a dozen groups: repeated layers by number, in
ranges where there are many; others by the first two names of their path; the small ones together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from itertools import groupby

import numpy as np

from perfcast.core.graph import Graph, Phase
from perfcast.core.tensor import Category
from perfcast.memory_use.lifetimes import Lifetimes

OPTIMIZER = "(optimizer)"
MODEL = "(model)"
OTHERS = "(other modules)"
#: Ranges of layers, and groups in all.
MAX_LAYER_GROUPS = 8
MAX_GROUPS = 13

_Layer = tuple[str, int]


def storage_modules(graph: Graph) -> list[str]:
    """Dotted path of the module of each storage; '' for the root, and for what no node touches."""
    first: dict[int, str] = {}
    storage_of = [tensor.storage for tensor in graph.tensors]
    for node in graph.nodes:
        for tensor in (*node.inputs, *node.outputs):
            first.setdefault(storage_of[tensor], node.module)
    return [
        graph.nodes[storage.created_by].module if storage.created_by >= 0 else first.get(index, "")
        for index, storage in enumerate(graph.storages)
    ]


def timeline_by_module(graph: Graph, lifetimes: Lifetimes, modules: list[str]) -> dict[str, tuple[int, ...]]:
    """Bytes held at each node by group of modules, in the order in which the program reaches the groups.

    Args:
        modules: Of each storage (``storage_modules``).

    Returns:
        The groups' timelines; their sum is what is held in all.
    """
    labels = _labels(graph, modules)
    names = list(dict.fromkeys(labels[i] for i in _order_of_use(graph, lifetimes)))
    column = np.array([names.index(label) for label in labels], dtype=np.int64)
    timelines = {name: lifetimes.held(column == i) for i, name in enumerate(names)}
    held = {name: timeline for name, timeline in timelines.items() if timeline.any()}
    largest = sorted(held, key=lambda name: -int(held[name].max()))
    small = set(largest[MAX_GROUPS - 1 :] if len(largest) > MAX_GROUPS else [])
    result = {name: tuple(t.tolist()) for name, t in held.items() if name not in small}
    if small:
        result[OTHERS] = tuple(np.sum([held[name] for name in small], axis=0).tolist())
    return result


def _labels(graph: Graph, modules: list[str]) -> list[str]:
    layers = {layer for path in modules if (layer := _layer_of(path))}
    ranges = _ranges(layers)
    labels = []
    for storage, path in zip(graph.storages, modules, strict=True):
        node = graph.nodes[storage.created_by] if storage.created_by >= 0 else None
        layer = _layer_of(path)
        if storage.category == Category.OPTIMIZER_STATE or (node and node.phase is Phase.OPTIMIZER):
            labels.append(OPTIMIZER)
        elif layer:
            labels.append(ranges[layer])
        else:
            labels.append(".".join(path.split(".")[:2]) or MODEL)
    return labels


def _order_of_use(graph: Graph, lifetimes: Lifetimes) -> list[int]:
    """Storages by the node that touches them first; what none touches comes first."""
    first = np.full(len(graph.storages), -1, dtype=np.int64)
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        for tensor in (*node.inputs, *node.outputs):
            first[graph.tensors[tensor].storage] = index
    order: list[int] = np.argsort(np.maximum(first, lifetimes.created), kind="stable").tolist()
    return order


@lru_cache(maxsize=4096)
def _layer_of(path: str) -> _Layer | None:
    """(path of the list, number) of the outermost numbered module around."""
    parts = path.split(".")
    for position, part in enumerate(parts):
        if position and part.isdigit():
            return ".".join(parts[:position]), int(part)
    return None


def _ranges(layers: Collection[_Layer]) -> dict[_Layer, str]:
    """For each layer the name of its range, such as ``h.0–3``; lists are cut evenly."""
    size = _range_size(Counter(container for container, _ in layers).values())
    names: dict[_Layer, str] = {}
    for container, members in groupby(sorted(layers), key=lambda layer: layer[0]):
        numbers = [number for _, number in members]
        for start in range(0, len(numbers), size):
            chunk = numbers[start : start + size]
            text = str(chunk[0]) if len(chunk) == 1 else f"{chunk[0]}–{chunk[-1]}"
            names.update({(container, number): f"{container}.{text}" for number in chunk})
    return names


def _range_size(counts: Collection[int]) -> int:
    """Layers of a range: few enough ranges, and if possible ranges of one length."""
    least = -(-sum(counts) // MAX_LAYER_GROUPS)
    even = [size for size in range(least, 2 * least) if all(count % size == 0 for count in counts)]
    return next(iter(even), least)
