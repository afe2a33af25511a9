"""NeuSight's forecasts of training on several GPUs (Lee, Phanishayee, Mahajan, ASPLOS 2025).

From prices of the model on one device, by the study's published code (sitar-lab/NeuSight:
neusight/Prediction/predictor.py, aggregator.py; neusight/Tracing/parse.py). One link carries everything:
half of NVLink's rate in both directions, of which 72 % are reached; GB are taken for GiB. b bytes take

    all-reduce among n devices: (n - 1) · b / link        send and receive: b / link

* data parallel: gradients of a module are reduced when its backward has ended, one after another, beside the
  rest of the backward; the step is the forward and the later of both.
* tensor parallel: linear layers are cut in columns and rows, the head's by the vocabulary, as are heads; two
  all-reduces a layer and pass and one of the embedding; everything is added up.
* pipeline parallel: one micro-batch; all stages one after the other, and 3·stages - 1 messages.

Two faults of the published code are left out: with tensor parallelism its second product of attention has the
shape of the first (which has as many flops), and its softmax's backward rows as long as there are heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.collective import message_bytes
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import TensorType
from perfcast.core.work import Call, StepWork
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.published.comparison import print_part
from perfcast.units import GIB, GIGA

LINK_UTILIZATION = 0.72


def study_link(cluster: Cluster) -> float:
    """Bytes per second that the study reckons with between devices of a server."""
    return cluster.levels[0].link.bytes_per_second / GIGA * GIB * LINK_UTILIZATION


def all_reduce_seconds(num_bytes: float, num_ranks: int, link_bytes_per_second: float) -> float:
    """A ring whose chunks are whole messages: n - 1 of them one after another."""
    return (num_ranks - 1) * num_bytes / link_bytes_per_second


def forecast_distributed(
    graph: Graph, plan: Plan, cost_model: CostModel, device: Device, cluster: Cluster
) -> float:
    """Seconds of a forward and a backward.

    Args:
        graph: One replica's step on one device, without an optimizer.
        plan: Data, tensor or pipeline parallelism alone.

    Raises:
        PlanError: Another plan, or one that cannot cut the graph.
    """
    link = study_link(cluster)
    degrees = (plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel)
    if sum(degree > 1 for degree in degrees) != 1 or plan.num_micro_batches != 1:
        raise PlanError(
            f"dp={plan.data_parallel}, tp={plan.tensor_parallel}, pp={plan.pipeline_parallel} with "
            f"{plan.num_micro_batches} micro-batches: the study forecasts one kind of parallelism alone, "
            "and a single micro-batch"
        )
    if plan.tensor_parallel > 1:
        return _tensor_parallel(graph, plan, cost_model, device, link)
    estimates = cost_model.estimate(graph.operations, device)
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    seconds: Floats = estimates.seconds[index]
    if plan.pipeline_parallel > 1:
        return float(seconds.sum()) + _messages_seconds(graph, plan, link)
    return _data_parallel(graph, seconds, plan.data_parallel, link)


# ---- data parallel ------------------------------------------------------------------------------


def _data_parallel(graph: Graph, seconds: Floats, num_ranks: int, link: float) -> float:
    is_backward = np.array([node.phase is Phase.BACKWARD for node in graph.nodes], dtype=bool)
    compute = np.cumsum(np.where(is_backward, seconds, 0.0))
    ended = 0.0
    for node, num_bytes in gradients(graph):
        ended = max(ended, float(compute[node])) + all_reduce_seconds(num_bytes, num_ranks, link)
    return float(seconds[~is_backward].sum()) + max(ended, float(compute[-1]))


def gradients(graph: Graph) -> list[tuple[int, int]]:
    """(node behind whose backward it is ready, bytes) of what is reduced, in that order.

    Of norms and linear layers the weights and biases of a module together; of the embedding of words, as the
    published code has it, not the table but one sequence of its output; of positions nothing.
    """
    from perfcast.workload.shard.parts import find_parts
    from perfcast.workload.shard.tensor import cut_graph
    from perfcast.workload.shard.weights import find_weights

    parts = find_parts(graph)
    outputs = _embedding_outputs(graph)
    words = {storage for storage, (_, rows) in outputs.items() if rows == max(r for _, r in outputs.values())}
    found: list[tuple[int, int]] = []
    for weight in find_weights(cut_graph(graph, parts, 1), parts):
        if weight.ready is None:
            continue
        is_table = weight.storage in outputs and weight.part == 0
        if is_table and weight.storage in words:
            found.append((weight.ready, outputs[weight.storage][0].num_bytes))
        elif not is_table:
            found.append((weight.ready, weight.num_bytes))
    return sorted(found)


def _embedding_outputs(graph: Graph) -> dict[int, tuple[TensorType, int]]:
    """Table → what it gives for one sequence, and its rows."""
    found = {}
    for node in graph.nodes:
        kind = graph.operations[node.operation].kind
        if node.phase is Phase.FORWARD and kind is OperationKind.EMBEDDING:
            output = graph.tensors[node.outputs[0]].type
            table = graph.tensors[node.inputs[0]]
            one = TensorType(output.shape[1:], output.dtype)
            found[table.storage] = (one, table.type.shape[0])
    return found


# ---- pipeline parallel --------------------------------------------------------------------------


def _messages_seconds(graph: Graph, plan: Plan, link: float) -> float:
    """Forwards: two for each hop and one on the last stage; backwards: one for each stage."""
    from perfcast.workload.shard import shard_graph

    boundary = shard_graph(graph, plan).boundary
    assert boundary is not None
    return (3 * plan.pipeline_parallel - 1) * message_bytes(boundary) / link


# ---- tensor parallel ----------------------------------------------------------------------------


def _tensor_parallel(graph: Graph, plan: Plan, cost_model: CostModel, device: Device, link: float) -> float:
    from perfcast.workload.shard import shard_graph

    work = shard_graph(graph, plan)
    vocabulary = max((rows for _, rows in _embedding_outputs(graph).values()), default=0)
    local = {o: _cut_head(o, vocabulary, plan.tensor_parallel) for o in work.operations()}
    kernels = [o for o in local.values() if o.kind is not OperationKind.COLLECTIVE]
    prices = dict(zip(kernels, cost_model.estimate(kernels, device).seconds.tolist(), strict=True))
    return sum(
        count * _call_seconds(local[call.operation], prices, plan, link) for call, count in _calls(work)
    )


def _calls(work: StepWork) -> Iterator[tuple[Call, int]]:
    """All calls of the one stage, and how often each runs."""
    for run in work.stages[0].chunks[0]:
        layer = work.layers[run.layer]
        yield from ((call, call.count * run.count) for call in (*layer.forward, *layer.backward))


def _call_seconds(operation: Operation, prices: Mapping[Operation, float], plan: Plan, link: float) -> float:
    if operation.kind is OperationKind.COLLECTIVE:
        return all_reduce_seconds(message_bytes(operation), plan.tensor_parallel, link)
    return prices[operation]


def _cut_head(operation: Operation, vocabulary: int, num_ranks: int) -> Operation:
    """The head's products with their part of the vocabulary, whether or not it divides."""
    sizes = dict(operation.attributes)
    names = [name for name in ("m", "n", "k") if sizes.get(name) == vocabulary]
    if operation.kind is not OperationKind.MATMUL or not names or not vocabulary:
        return operation
    sizes |= dict.fromkeys(names, vocabulary // num_ranks)
    return replace(
        operation,
        flops=operation.flops // num_ranks,
        executed_flops=operation.executed_flops // num_ranks,
        memory_traffic_bytes=operation.memory_traffic_bytes // num_ranks,
        attributes=tuple(sorted(sizes.items())),
    )


if __name__ == "__main__":
    print_part("neusight.distributed", "neusight")
