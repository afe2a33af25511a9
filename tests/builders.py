"""Small hand-made results for tests that need one."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from made_up_programs import EAGER
from perfcast.core.dtype import DType
from perfcast.core.forecast.device import Forecast, KindTime, MemoryForecast, OperationTime, TensorInterval
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType

PEAK_FLOPS_PER_SECOND = 989.4e12
MEMORY_BYTES_PER_SECOND = 3.35e12


def small_forecast(model: str = "tiny", num_layers: int = 2, capacity_bytes: int = 80 * 2**30) -> Forecast:
    """A training step of a made-up transformer; each node takes its roofline time and 2 µs."""
    graph = _graph(num_layers)
    node_seconds = tuple(_seconds(graph.operations[node.operation]) for node in graph.nodes)
    groups = (
        _group([graph.operations[node.operation].kind.value for node in graph.nodes], graph, node_seconds),
        _group([node.module for node in graph.nodes], graph, node_seconds),
        _group([node.phase.value for node in graph.nodes], graph, node_seconds),
    )
    step_seconds = sum(node_seconds)
    return Forecast(
        model=model,
        device="h100_sxm",
        device_title="NVIDIA H100 SXM",
        mode="train",
        program=EAGER,
        dtype="bf16",
        batch_size=8,
        sequence_length=1024,
        cost_model="roofline",
        step_seconds=step_seconds,
        step_seconds_low=0.9 * step_seconds,
        step_seconds_high=1.25 * step_seconds,
        exposed_host_seconds=0.0,
        seconds_by_provenance={"bounded": 1.0},
        seconds_by_phase={group.label: group.seconds for group in groups[2]},
        by_kind=groups[0],
        by_module=groups[1],
        operations=_operations(graph, node_seconds),
        node_seconds=node_seconds,
        memory=_memory(graph, capacity_bytes),
        flops=graph.flops,
        recompute_flops=graph.recompute_flops,
        peak_flops_per_second=PEAK_FLOPS_PER_SECOND,
        memory_bytes_per_second=MEMORY_BYTES_PER_SECOND,
        parameter_count=graph.parameter_count,
        assumptions=("Kernels run one after another.", "Matrix products use tensor cores at bf16."),
        graph=graph,
    )


def _graph(num_layers: int) -> Graph:
    tokens, width = TensorType((8, 1024, 1280), DType.BF16), TensorType((8, 1024, 5120), DType.BF16)
    weight = TensorType((1280, 5120), DType.BF16)
    kinds = (
        ("aten.embedding", OperationKind.EMBEDDING, (tokens,), 0),
        ("aten.native_layer_norm", OperationKind.NORMALIZATION, (tokens,), 8 * tokens.num_elements),
        ("attention", OperationKind.ATTENTION, (tokens,) * 3, 4 * 8 * 1024 * 1024 * 1280),
        ("aten.addmm", OperationKind.MATMUL, (width, weight), 2 * 8192 * 1280 * 5120),
        ("aten.gelu", OperationKind.ELEMENTWISE, (width,), 8 * width.num_elements),
        ("aten.empty", OperationKind.ALLOCATION, (), 0),
        ("optimizer.adamw", OperationKind.OPTIMIZER, (weight,) * 4, 12 * weight.num_elements),
    )
    operations = tuple(
        Operation(kind, name, inputs, (tokens,), DType.BF16, flops, flops, _traffic((*inputs, tokens)))
        for name, kind, inputs, flops in kinds
    )
    layer = [(1, "ln_1"), (2, "attn"), (3, "attn.c_proj"), (1, "ln_2"), (3, "mlp.c_fc"), (4, "mlp.act")]
    forward = [(0, "wte"), (5, "")]
    forward += [(op, f"h.{i}.{name}") for i in range(num_layers) for op, name in layer]
    nodes = [Node(op, Phase.FORWARD, module, (), ()) for op, module in forward]
    nodes += [Node(op, Phase.BACKWARD, module, (), ()) for op, module in reversed(forward) for _ in range(2)]
    nodes += [Node(6, Phase.OPTIMIZER, "", (), ())] * num_layers
    return Graph(tuple(nodes), operations, (), (), parameter_count=16_000_000 * num_layers)


def _traffic(types: tuple[TensorType, ...]) -> int:
    return sum(type_.num_bytes for type_ in types)


def _seconds(operation: Operation) -> float:
    if operation.is_free:
        return 0.0
    busy = max(
        operation.flops / PEAK_FLOPS_PER_SECOND, operation.memory_traffic_bytes / MEMORY_BYTES_PER_SECOND
    )
    return 2e-6 + 1.3 * busy


def _group(labels: list[str], graph: Graph, node_seconds: tuple[float, ...]) -> tuple[KindTime, ...]:
    sums: dict[str, list[float]] = {}
    for label, node, seconds in zip(labels, graph.nodes, node_seconds, strict=True):
        operation = graph.operations[node.operation]
        entry = sums.setdefault(label, [0.0, 0, 0, 0])
        for i, value in enumerate((seconds, 1, operation.flops, operation.memory_traffic_bytes)):
            entry[i] += value
    return tuple(KindTime(label, s[0], int(s[1]), int(s[2]), int(s[3])) for label, s in sums.items())


def _operations(graph: Graph, node_seconds: tuple[float, ...]) -> tuple[OperationTime, ...]:
    result = []
    for phase in Phase:
        for index, operation in enumerate(graph.operations):
            mine = [i for i, n in enumerate(graph.nodes) if n.operation == index and n.phase is phase]
            if not mine:
                continue
            seconds, count = sum(node_seconds[i] for i in mine), len(mine)
            compute_bound = operation.flops / PEAK_FLOPS_PER_SECOND > (
                operation.memory_traffic_bytes / MEMORY_BYTES_PER_SECOND
            )
            result.append(
                OperationTime(
                    name=operation.name,
                    kind=operation.kind.value,
                    phase=phase.value,
                    shapes=" × ".join(f"[{','.join(map(str, t.shape))}]" for t in operation.inputs),
                    count=count,
                    seconds=seconds,
                    seconds_low=0.9 * seconds,
                    seconds_high=1.25 * seconds,
                    flops=count * operation.flops,
                    memory_traffic_bytes=count * operation.memory_traffic_bytes,
                    output_bytes=count * _traffic(operation.outputs),
                    bound_by="compute" if compute_bound else "memory",
                )
            )
    return tuple(result)


def _memory(graph: Graph, capacity_bytes: int) -> MemoryForecast:
    weights = 2 * graph.parameter_count
    steps = [{Phase.FORWARD: 2, Phase.BACKWARD: -1, Phase.OPTIMIZER: 0}[n.phase] for n in graph.nodes]
    block = 8 * 1024 * 1280
    by_category = {
        "parameter": (weights,) * len(steps),
        "optimizer_state": (2 * weights,) * len(steps),
        "activation": tuple(block * held for held in accumulate(steps)),
    }
    timeline = tuple(map(sum, zip(*by_category.values(), strict=True)))
    peak = max(range(len(timeline)), key=timeline.__getitem__)
    node = graph.nodes[peak]
    return MemoryForecast(
        peak_bytes=timeline[peak],
        peak_by_last_use_bytes=timeline[peak] - block,
        peak_node=peak,
        peak_operation=graph.operations[node.operation].name,
        peak_module=node.module,
        peak_phase=node.phase.value,
        bytes_by_category={category: values[peak] for category, values in by_category.items()},
        timeline_bytes=timeline,
        timeline_bytes_by_category=by_category,
        intervals=tuple(
            TensorInterval(
                num_bytes=2 * block + i,
                category="activation",
                created_by=i,
                created_by_name=graph.operations[graph.nodes[i].operation].name,
                created_by_module=graph.nodes[i].module,
                freed_after=len(steps) - i,
                last_used_by=len(steps) - i - 1,
            )
            for i in range(steps.count(2))
        ),
        capacity_bytes=capacity_bytes,
    )


def made_up_device(**changes: Any) -> Device:
    """A device with round figures: 1 TFLOP/s ordinary, 10 TFLOP/s half precision, 100 GB/s, 1 µs launch."""
    figures: dict[str, Any] = {
        "name": "made-up",
        "title": "Made-up accelerator",
        "vendor": "nvidia",
        "architecture": "ampere",
        "die": "X1",
        "year": 2024,
        "memory_bytes": 8 * 2**30,
        "memory_bytes_per_second": 100e9,
        "num_sms": 10,
        "clock_hertz": 1e9,
        "l2_bytes": 4 * 2**20,
        "link_kind": "pcie4",
        "link_bytes_per_second": 32e9,
        "power_watts": None,
        "launch_seconds": 1e-6,
        "vector_flops_per_second": {DType.FP32: 1e12, DType.FP64: 0.5e12, DType.FP16: 2e12},
        "matrix_flops_per_second": {DType.TF32: 5e12, DType.FP16: 10e12, DType.BF16: 10e12},
        "compute_capability": "8.0",
    }
    return Device(**(figures | changes))


def matmul(m: int, n: int, k: int, dtype: DType = DType.BF16) -> Operation:
    """C[m, n] = A[m, k] · B[k, n]: 2·m·n·k flops; A, B and C cross the memory interface once."""
    a, b, c = (TensorType(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
    attributes = (("batch", 1), ("k", k), ("layout", "nn"), ("m", m), ("n", n))
    flops = 2 * m * n * k
    traffic = _traffic((a, b, c))
    return Operation(
        OperationKind.MATMUL, "mm", (a, b), (c,), dtype, flops, flops, traffic, attributes=attributes
    )


def elementwise(num_elements: int, dtype: DType = DType.BF16, name: str = "add") -> Operation:
    """One operation per element of two inputs and an output."""
    tensor = TensorType((num_elements,), dtype, (1,))
    traffic = 3 * tensor.num_bytes
    kind = OperationKind.ELEMENTWISE
    return Operation(kind, name, (tensor, tensor), (tensor,), dtype, num_elements, num_elements, traffic)


def allocation(num_elements: int, dtype: DType = DType.BF16) -> Operation:
    """Memory taken; no kernel."""
    tensor = TensorType((num_elements,), dtype, (1,))
    return Operation(OperationKind.ALLOCATION, "empty", (), (tensor,), dtype, 0, 0, 0)
