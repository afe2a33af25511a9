"""Groups of modules on graphs small enough to be followed by hand."""

from __future__ import annotations

from builders import elementwise
from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.by_module import MAX_GROUPS, OTHERS, storage_modules, timeline_by_module
from perfcast.memory_use.lifetimes import find_lifetimes
from perfcast.memory_use.liveness import estimate_memory

ANY_TYPE = TensorType((1,), DType.FP32, (1,))


def graph_of(modules: list[str], extra: tuple[Storage, ...] = (), optimizer: bool = False) -> Graph:
    """Node i of module i makes storage i, of 10^i bytes, which stays; the last node may be an optimizer's."""
    storages = tuple(Storage(10 ** min(i, 9), Category.ACTIVATION, i, None) for i in range(len(modules)))
    phases = [Phase.FORWARD] * len(modules)
    if optimizer:
        phases[-1] = Phase.OPTIMIZER
    nodes = tuple(
        Node(0, phase, module, (), (i,))
        for i, (module, phase) in enumerate(zip(modules, phases, strict=True))
    )
    everything = storages + extra
    tensors = tuple(Tensor(ANY_TYPE, i) for i in range(len(everything)))
    return Graph(nodes, (elementwise(1),), tensors, everything)


def timelines(graph: Graph) -> dict[str, tuple[int, ...]]:
    return timeline_by_module(graph, find_lifetimes(graph), storage_modules(graph))


def test_layers_go_by_number_and_other_modules_by_the_first_two_names() -> None:
    graph = graph_of(["model.embed.word", "model.layers.0.mlp.up", "model.layers.1.mlp.up", "head"])
    assert timelines(graph) == {
        "model.embed": (1, 1, 1, 1),
        "model.layers.0": (0, 10, 10, 10),
        "model.layers.1": (0, 0, 100, 100),
        "head": (0, 0, 0, 1000),
    }


def test_many_layers_become_ranges_of_one_length_where_that_divides_them() -> None:
    names = list(timelines(graph_of([f"h.{i}" for i in range(36)])))
    assert names == ["h.0–5", "h.6–11", "h.12–17", "h.18–23", "h.24–29", "h.30–35"]


def test_a_parameter_belongs_to_the_module_that_uses_it_first() -> None:
    weight = Storage(7, Category.PARAMETER, -1, None)
    graph = graph_of(["embed", "h.0"], extra=(weight,))
    nodes = (graph.nodes[0], Node(0, Phase.FORWARD, "h.0", (2,), (1,)))
    graph = Graph(nodes, graph.operations, graph.tensors, graph.storages)
    assert storage_modules(graph) == ["embed", "h.0", "h.0"]


def test_optimizer_state_and_what_the_optimizer_makes_are_a_group_of_their_own() -> None:
    state = Storage(5, Category.OPTIMIZER_STATE, -1, None)
    assert timelines(graph_of(["h.0", ""], extra=(state,), optimizer=True))["(optimizer)"] == (5, 15)


def test_small_groups_are_put_together_and_nothing_is_lost() -> None:
    graph = graph_of([f"part{i}" for i in range(30)])
    groups = timelines(graph)
    assert len(groups) == MAX_GROUPS
    assert OTHERS in groups
    total = estimate_memory(graph, 1).timeline_bytes
    assert tuple(map(sum, zip(*groups.values(), strict=True))) == total
