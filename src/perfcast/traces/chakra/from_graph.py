"""A forecast of one device, or any priced graph, as a Chakra trace.

Nodes run one after another on the device's stream; each also names the nodes that made what it reads. For how
long the device waits for its host stands at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Graph
from perfcast.core.tensor import TensorType
from perfcast.traces.chakra.schedule import Planned, build_chakra
from perfcast.traces.chakra.trace import ChakraAttribute, ChakraTensors, ChakraTrace, ChakraWorkload


def chakra_from_forecast(forecast: Forecast) -> ChakraWorkload:
    """The step of a forecast: one rank."""
    facts = {"model": forecast.model, "device": forecast.device, "cost_model": forecast.cost_model}
    attributes = tuple(ChakraAttribute(name, "string", value) for name, value in facts.items())
    trace = chakra_from_graph(
        forecast.graph, forecast.node_seconds, forecast.exposed_host_seconds, forecast.model, attributes
    )
    return ChakraWorkload((trace,))


def chakra_from_graph(
    graph: Graph,
    node_seconds: Sequence[float],
    exposed_host_seconds: float = 0.0,
    source: str = "graph",
    attributes: Sequence[ChakraAttribute] = (),
) -> ChakraTrace:
    """A graph with prices.

    Args:
        node_seconds: Of each node of the graph.
        exposed_host_seconds: For which the device waits for the host, in all.
    """
    ends = list(accumulate(node_seconds))
    starts = [0.0, *ends[:-1]]
    makers: dict[int, int] = {}
    planned = []
    for place, node in enumerate(graph.nodes):
        after = {makers[storage] for storage in _storages(graph, node.inputs) if storage in makers}
        if place:
            after.add(place - 1)
        makers |= dict.fromkeys(_storages(graph, node.outputs), place)
        planned.append(_planned(graph, place, starts[place], ends[place], tuple(sorted(after))))
    if exposed_host_seconds > 0:
        end = ends[-1] if ends else 0.0
        after_all = (len(planned) - 1,) if planned else ()
        planned.append(
            Planned("wait for the host", end, end + exposed_host_seconds, after_all, is_on_host=True)
        )
    return build_chakra(source, 0, planned, attributes=attributes)


def _storages(graph: Graph, tensors: Sequence[int]) -> set[int]:
    return {graph.tensors[tensor].storage for tensor in tensors}


def _planned(graph: Graph, place: int, start: float, end: float, after: tuple[int, ...]) -> Planned:
    node = graph.nodes[place]
    operation = graph.operations[node.operation]
    texts = {"module": node.module, "phase": node.phase.value, "kind": operation.kind.value}
    attributes = (
        ChakraAttribute("num_ops", "int64", operation.flops),
        ChakraAttribute("tensor_size", "uint64", operation.memory_traffic_bytes),
        *(ChakraAttribute(name, "string", text) for name, text in texts.items()),
    )
    return Planned(
        operation.name,
        start,
        end,
        after,
        inputs=_tensors(node.inputs, [graph.tensors[tensor].type for tensor in node.inputs]),
        outputs=_tensors(node.outputs, [graph.tensors[tensor].type for tensor in node.outputs]),
        attributes=attributes,
    )


def _tensors(tensors: Sequence[int], types: Sequence[TensorType]) -> ChakraTensors:
    return ChakraTensors(
        str(list(tensors)),
        str([list(type_.shape) for type_ in types]),
        str([f"Tensor({type_.dtype.label})" for type_ in types]),
    )
