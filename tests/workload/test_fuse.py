"""Compiled graphs: which nodes become one kernel, what it moves, and that nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor as TorchTensor
from torch import nn

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import MATRIX_KINDS, Operation, OperationKind
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.fuse import fuse
from perfcast.workload.fuse.accesses import read_accesses
from perfcast.workload.fuse.groups import Groups
from perfcast.workload.fuse.plan import plan_kernels
from perfcast.workload.fuse.roles import Iteration, join
from perfcast.workload.step import OptimizerChoice, Program

ROWS, WIDTH = 8, 16
NUMEL = ROWS * WIDTH
FULL, PER_ROW, PER_COLUMN = (ROWS, WIDTH), (ROWS, 1), (1, WIDTH)
COMPILED = frozenset({Phase.FORWARD, Phase.BACKWARD})
Kind = OperationKind


@dataclass
class Draft:
    """A graph under construction; values are indices of tensors, all fp32."""

    nodes: list[Node] = field(default_factory=list)
    operations: dict[Operation, int] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)

    def value(self, shape: tuple[int, ...], created_by: int = -1, category: str = Category.INPUT) -> int:
        kind = TensorType(shape, DType.FP32)
        self.storages.append(Storage(kind.num_bytes, category, created_by, None))
        self.tensors.append(Tensor(kind, len(self.storages) - 1))
        return len(self.tensors) - 1

    def view(self, value: int, shape: tuple[int, ...]) -> int:
        self.tensors.append(Tensor(TensorType(shape, DType.FP32), self.tensors[value].storage))
        return len(self.tensors) - 1

    def node(
        self,
        kind: OperationKind,
        name: str,
        inputs: list[int],
        shape: tuple[int, ...] = FULL,
        phase: Phase = Phase.FORWARD,
        into: int | None = None,
    ) -> int:
        output = self.value(shape, len(self.nodes), Category.TEMPORARY) if into is None else into
        input_types = tuple(self.tensors[i].type for i in inputs)
        output_type = self.tensors[output].type
        traffic = sum(t.num_bytes for t in input_types) + output_type.num_bytes
        flops = output_type.num_elements
        operation = Operation(
            kind, name, input_types, (output_type,), DType.FP32, flops, flops, traffic,
            attributes=(("row", WIDTH),) if kind in (Kind.SOFTMAX, Kind.REDUCTION) else (),
        )  # fmt: skip
        index = self.operations.setdefault(operation, len(self.operations))
        self.nodes.append(Node(index, phase, "", tuple(inputs), (output,)))
        return output

    def point(self, name: str, *inputs: int, phase: Phase = Phase.FORWARD) -> int:
        return self.node(Kind.ELEMENTWISE, name, list(inputs), phase=phase)

    def product(self, *inputs: int, phase: Phase = Phase.FORWARD) -> int:
        return self.node(Kind.MATMUL, "mm", list(inputs), phase=phase)

    def finish(self, *results: int) -> Graph:
        """The graph; what is not among ``results`` is dropped after its last use."""
        last: dict[int, int] = {}
        for index, node in enumerate(self.nodes):
            last.update({self.tensors[t].storage: index for t in (*node.inputs, *node.outputs)})
        held = {self.tensors[t].storage for t in results}
        storages = [
            replace(s, freed_after=last[i]) if s.created_by >= 0 and i not in held else s
            for i, s in enumerate(self.storages)
        ]
        return Graph(tuple(self.nodes), tuple(self.operations), tuple(self.tensors), tuple(storages))


def names(graph: Graph) -> list[str]:
    return [graph.operations[node.operation].name for node in graph.nodes]


def total(graph: Graph, quantity: str) -> int:
    return sum(getattr(graph.operations[node.operation], quantity) for node in graph.nodes)


# ---- which nodes ----------------------------------------------------------------------------------


def test_a_chain_between_products_is_one_kernel_that_reads_and_writes_once():
    draft = Draft()
    x = draft.product(draft.value(FULL))
    y = draft.point("tanh", draft.point("mul", draft.point("add", x)))
    fused = fuse(draft.finish(draft.product(y)))
    assert names(fused) == ["mm", "fused_add_mul_tanh", "mm"]
    kernel = fused.operations[fused.nodes[1].operation]
    assert kernel.kind is Kind.ELEMENTWISE
    assert kernel.attribute("members") == 3
    assert kernel.flops == 3 * NUMEL
    assert kernel.memory_traffic_bytes == 2 * 4 * NUMEL


def test_values_inside_a_kernel_are_never_allocated():
    draft = Draft()
    x = draft.product(draft.value(FULL))
    y = draft.point("tanh", draft.point("mul", draft.point("add", x)))
    graph = draft.finish(draft.product(y))
    assert len(graph.storages) == 6
    assert len(fuse(graph).storages) == 4
    nothing_freed = estimate_memory(fuse(graph), 1)
    assert nothing_freed.peak_bytes == 3 * 4 * NUMEL  # the input, and what a node reads and writes


def test_a_norm_takes_in_what_surrounds_it_and_a_residual_is_still_written():
    draft = Draft()
    residual = draft.point("add", draft.product(draft.value(FULL)), draft.value(FULL))
    scores = draft.node(Kind.SOFTMAX, "_softmax", [residual])
    out = draft.product(draft.point("mul", scores))
    fused = fuse(draft.finish(draft.product(residual, out)))
    assert names(fused) == ["mm", "fused_add_softmax_mul", "mm", "mm"]
    kernel = fused.operations[fused.nodes[1].operation]
    assert kernel.kind is Kind.SOFTMAX
    assert kernel.attribute("row") == WIDTH
    assert len(fused.nodes[1].outputs) == 2
    assert kernel.memory_traffic_bytes == 4 * 4 * NUMEL


def test_a_norm_in_pieces_is_one_kernel_over_rows():
    draft = Draft()
    x = draft.product(draft.value(FULL))
    mean = draft.node(Kind.REDUCTION, "mean", [draft.point("pow", x)], PER_ROW)
    scale = draft.node(Kind.ELEMENTWISE, "rsqrt", [mean], PER_ROW)
    fused = fuse(draft.finish(draft.product(draft.point("mul", x, scale))))
    assert names(fused) == ["mm", "fused_pow_mean_rsqrt_mul", "mm"]
    assert fused.operations[fused.nodes[1].operation].memory_traffic_bytes == 2 * 4 * NUMEL


def test_a_kernel_that_would_have_to_wait_for_itself_is_not_made():
    draft = Draft()
    x = draft.point("exp", draft.value(FULL))
    y = draft.point("add", x, draft.product(x))
    assert names(fuse(draft.finish(y))) == ["exp", "mm", "add"]


def test_a_cycle_over_merged_kernels_is_seen():
    groups = Groups([[], [0], [], [2], [1, 3]])  # 0 → 1 → 4 and 2 → 3 → 4
    assert groups.merge(0, 3) is not None
    assert groups.merge(2, 1) is None  # 2 → {0, 3} → 1
    assert groups.merge(1, 4) is not None


def test_forward_and_backward_are_compiled_apart():
    draft = Draft()
    x = draft.point("exp", draft.value(FULL))
    y = draft.point("mul", x, phase=Phase.BACKWARD)
    assert names(fuse(draft.finish(y))) == ["exp", "mul"]


def test_the_optimizer_is_compiled_only_if_asked():
    draft = Draft()
    x = draft.point("mul", draft.value(FULL), phase=Phase.OPTIMIZER)
    graph = draft.finish(draft.point("add", x, phase=Phase.OPTIMIZER))
    assert names(fuse(graph)) == ["mul", "add"]
    assert names(fuse(graph, optimizer=True)) == ["fused_mul_add"]


def test_two_kernels_that_read_the_same_tensor_become_one():
    draft = Draft()
    x = draft.product(draft.value(FULL))
    a, b = draft.point("sin", x), draft.point("cos", x)
    fused = fuse(draft.finish(draft.product(a), draft.product(b)))
    assert names(fused) == ["mm", "fused_sin_cos", "mm", "mm"]
    assert fused.operations[fused.nodes[1].operation].memory_traffic_bytes == 3 * 4 * NUMEL


def test_a_small_value_with_one_reader_is_computed_where_it_is_used():
    draft = Draft()
    mask = draft.node(Kind.FILL, "full", [], PER_COLUMN)
    x = draft.point("add", draft.product(draft.value(FULL)), mask)
    assert names(fuse(draft.finish(draft.product(x)))) == ["mm", "fused_full_add", "mm"]


def test_a_sum_over_columns_does_not_join_the_loop_that_makes_its_source():
    draft = Draft()
    gradient = draft.point("mul", draft.product(draft.value(FULL)))
    bias = draft.node(Kind.REDUCTION, "sum", [gradient], PER_COLUMN)
    fused = fuse(draft.finish(draft.product(gradient), bias))
    assert sorted(names(fused)) == ["mm", "mm", "mul", "sum"]


@pytest.mark.parametrize("kind", [Kind.SORT, Kind.POOLING, Kind.CONVOLUTION, Kind.UNKNOWN, Kind.ATTENTION])
def test_library_kernels_stay_boundaries(kind: OperationKind):
    draft = Draft()
    x = draft.node(kind, "library", [draft.point("add", draft.value(FULL))])
    assert names(fuse(draft.finish(draft.point("mul", x)))) == ["add", "library", "mul"]


def test_a_lookup_reads_of_its_table_what_it_returns():
    draft = Draft()
    table, index = draft.value((1000, WIDTH)), draft.value((ROWS,))
    found = draft.node(Kind.EMBEDDING, "embedding", [table, index])
    fused = fuse(draft.finish(draft.product(draft.point("add", found))))
    kernel = fused.operations[fused.nodes[0].operation]
    assert kernel.memory_traffic_bytes == 4 * (2 * NUMEL + ROWS)


def test_halves_of_one_tensor_are_read_as_two():
    draft = Draft()
    x = draft.product(draft.value((ROWS, 2 * WIDTH)))
    both = draft.value((ROWS, 2 * WIDTH), 0, Category.TEMPORARY)
    draft.nodes[0] = replace(draft.nodes[0], outputs=(both,))
    half = draft.view(both, FULL)
    gated = draft.point("mul", draft.point("silu", half), half)
    fused = fuse(draft.finish(x, draft.product(gated)))
    assert fused.operations[fused.nodes[1].operation].memory_traffic_bytes == 4 * (2 * NUMEL + NUMEL)


def test_an_update_in_place_is_written_back():
    draft = Draft()
    state = draft.value(FULL, category=Category.BUFFER)
    draft.node(Kind.ELEMENTWISE, "mul_", [state], into=state)
    draft.node(Kind.ELEMENTWISE, "add_", [state], into=state)
    fused = fuse(draft.finish())
    assert names(fused) == ["fused_mul_add"]
    assert fused.nodes[0].inputs == fused.nodes[0].outputs
    assert total(fused, "memory_traffic_bytes") == 2 * 4 * NUMEL


def test_an_activation_changed_in_place_is_not_written_if_nobody_reads_it_again():
    draft = Draft()
    x = draft.product(draft.value(FULL))
    draft.node(Kind.ELEMENTWISE, "relu_", [x], into=x)
    fused = fuse(draft.finish(draft.product(draft.point("mul", x))))
    assert fused.operations[fused.nodes[1].operation].memory_traffic_bytes == 2 * 4 * NUMEL


def test_gradients_of_micro_batches_are_added_outside_compiled_code():
    draft = Draft()
    first = draft.point("neg", draft.value(FULL), phase=Phase.BACKWARD)
    draft.point("exp", draft.value(FULL))
    new = draft.point("mul", draft.value(FULL), phase=Phase.BACKWARD)
    draft.node(Kind.ELEMENTWISE, "add_", [first, new], phase=Phase.BACKWARD, into=first)
    storage = draft.tensors[first].storage
    draft.storages[storage] = replace(draft.storages[storage], category=Category.GRADIENT)
    assert names(fuse(draft.finish(first))) == ["neg", "exp", "mul", "add_"]


def test_equal_casts_are_made_once():
    draft = Draft()
    x = draft.point("tanh", draft.product(draft.value(FULL)))
    casts = [draft.node(Kind.COPY, "_to_copy", [x]) for _ in range(3)]
    fused = fuse(draft.finish(*[draft.product(cast) for cast in casts]))
    assert names(fused) == ["mm", "fused_tanh_to_copy", "mm", "mm", "mm"]
    assert {node.inputs for node in fused.nodes[2:]} == {fused.nodes[1].outputs}


def gelu_in_pieces(*, result_kept: bool) -> Graph:
    """x → tanh(x + x·x) with the tanh saved for its backward."""
    draft = Draft()
    x = draft.product(draft.value(FULL))
    t = draft.point("tanh", draft.point("add", draft.point("mul", x, x), x))
    y = draft.product(draft.point("neg", t))
    if result_kept:
        y = draft.product(y, t)
    gradient = draft.product(y, phase=Phase.BACKWARD)
    gradient = draft.point("tanh_backward", gradient, t, phase=Phase.BACKWARD)
    gradient = draft.point("mul", gradient, x, phase=Phase.BACKWARD)
    return draft.finish(draft.product(gradient, phase=Phase.BACKWARD))


def test_a_value_saved_for_one_backward_kernel_is_computed_there_from_what_is_saved_anyway():
    fused = fuse(gelu_in_pieces(result_kept=False))
    forward = fused.operations[fused.nodes[1].operation]
    backward = fused.operations[fused.nodes[4].operation]
    assert names(fused)[1:5] == ["fused_mul_add_tanh_neg", "mm", "mm", "fused_mul_add_tanh_tanh_backward"]
    assert forward.memory_traffic_bytes == 2 * 4 * NUMEL  # x and the result, not the tanh
    assert backward.memory_traffic_bytes == 3 * 4 * NUMEL  # x, the gradient and its product
    assert (backward.flops, backward.recompute_flops) == (2 * NUMEL, 3 * NUMEL)
    assert backward.executed_flops == 5 * NUMEL
    assert all(storage.freed_after != 0 for storage in fused.storages)


def test_a_value_that_a_product_needs_is_saved():
    fused = fuse(gelu_in_pieces(result_kept=True))
    assert "fused_tanh_backward_mul" in names(fused)
    assert total(fused, "recompute_flops") == 0


def test_equal_layers_share_one_operation():
    draft = Draft()
    x = draft.value(FULL)
    for _ in range(20):
        x = draft.point("add", draft.product(draft.point("tanh", draft.point("mul", x))), x)
    fused = fuse(draft.finish(x))
    assert len(fused.nodes) == 2 * 20 + 1
    assert len(fused.operations) == 4  # the first and the last kernel are others than those between


def test_loops_agree_on_elements_or_rows():
    rows = Iteration(NUMEL, ROWS)
    assert join(Iteration(NUMEL), Iteration(NUMEL)) == Iteration(NUMEL)
    assert join(Iteration(NUMEL), rows) == join(rows, Iteration(ROWS)) == rows
    assert join(Iteration(ROWS), Iteration(NUMEL)) is None
    assert join(rows, Iteration(NUMEL, WIDTH)) is None
    assert join(Iteration(NUMEL, ROWS, by_columns=True), Iteration(NUMEL)) is None
    assert join(rows, Iteration(0)) == rows


# ---- laws -----------------------------------------------------------------------------------------

_STEPS = st.tuples(
    st.sampled_from(["add", "tanh", "add_", "row", "column", "softmax", "mm", "sort", "copy"]),
    st.integers(0, 30),
    st.integers(0, 30),
)


def random_graph(steps: list[tuple[str, int, int]], num_forward: int) -> Graph:
    draft = Draft()
    values = [draft.value(FULL), draft.value(PER_ROW)]
    for index, (name, a, b) in enumerate(steps):
        phase = Phase.FORWARD if index < num_forward else Phase.BACKWARD
        full = [v for v in values if draft.tensors[v].type.shape == FULL]
        one, other = full[a % len(full)], values[b % len(values)]
        if name == "row":
            values.append(draft.node(Kind.REDUCTION, "sum", [one], PER_ROW, phase))
        elif name == "column":
            values.append(draft.node(Kind.REDUCTION, "sum", [one], PER_COLUMN, phase))
        elif name == "add_":
            draft.node(Kind.ELEMENTWISE, name, [one, other], FULL, phase, into=one)
        else:
            kinds = {"softmax": Kind.SOFTMAX, "mm": Kind.MATMUL, "sort": Kind.SORT, "copy": Kind.COPY}
            values.append(draft.node(kinds.get(name, Kind.ELEMENTWISE), name, [one, other], FULL, phase))
    return draft.finish(values[-1])


@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=25), st.integers(0, 25))
def test_every_node_runs_once_after_all_that_it_needs(steps: list[tuple[str, int, int]], num_forward: int):
    graph = random_graph(steps, num_forward)
    kernels = plan_kernels(graph, COMPILED)
    assert sorted(node for kernel in kernels for node in kernel) == list(range(len(graph.nodes)))
    place = {node: position for position, kernel in enumerate(kernels) for node in kernel}
    for node, earlier in enumerate(read_accesses(graph, COMPILED).predecessors):
        assert all(place[other] <= place[node] for other in earlier)


@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=25), st.integers(0, 25))
def test_work_stays_traffic_and_nodes_never_grow_and_memory_can_be_counted(
    steps: list[tuple[str, int, int]], num_forward: int
):
    graph = random_graph(steps, num_forward)
    fused = fuse(graph)
    assert total(fused, "flops") == total(graph, "flops")
    assert fused.flops == graph.flops
    assert total(fused, "memory_traffic_bytes") <= total(graph, "memory_traffic_bytes")
    assert len(fused.nodes) <= len(graph.nodes)
    assert len(set(fused.operations)) == len(fused.operations)
    assert estimate_memory(fused, 1).peak_bytes > 0
    for index, node in enumerate(fused.nodes):
        operation = fused.operations[node.operation]
        assert tuple(fused.tensors[t].type for t in node.inputs) == operation.inputs
        storages = [fused.storages[fused.tensors[t].storage] for t in (*node.inputs, *node.outputs)]
        assert all(s.created_by <= index for s in storages)
        assert all(s.freed_after is None or s.freed_after >= index for s in storages)


@given(st.lists(_STEPS, min_size=1, max_size=30))
@settings(max_examples=20, deadline=None)
def test_what_is_compiled_once_is_not_changed_by_compiling_it_again_if_nothing_fuses(
    steps: list[tuple[str, int, int]],
):
    graph = random_graph([step for step in steps if step[0] in ("mm", "sort")] or [("mm", 0, 0)], 40)
    assert names(fuse(graph)) == names(graph)


# ---- captured programs ----------------------------------------------------------------------------


class Mlp(nn.Module):
    """norm, linear, gelu, linear, residual, norm."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down, self.act = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), nn.GELU()

    def forward(self, x: TorchTensor) -> TorchTensor:
        return self.after(x + self.down(self.act(self.up(self.before(x)))))


class Attention(nn.Module):
    """Scores, mask, softmax, dropout and values, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out, self.drop = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Dropout()

    def forward(self, x: TorchTensor) -> TorchTensor:
        shape = (*x.shape[:2], 3, 2, WIDTH // 2)
        query, key, value = self.project(x).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-1, -2) * 0.5, -1)
        return x + self.out((self.drop(weights) @ value).transpose(1, 2).reshape(x.shape))


def captured(module: Callable[[], nn.Module], training: bool) -> Graph:
    options = CaptureOptions(training=training, optimizer=OptimizerChoice("none"))
    graph, _ = capture(lambda: Program(module(), args=(torch.zeros(4, 8, WIDTH),)), options)
    return graph


def kernels(graph: Graph, phase: Phase) -> int:
    """Kernels that a compiler generates: neither library calls nor allocations."""
    operations = [graph.operations[node.operation] for node in graph.nodes if node.phase is phase]
    return sum(o.kind not in MATRIX_KINDS and not o.is_free for o in operations)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Mlp, 3),  # norm | gelu | residual and norm
        (Attention, 6),  # query, key and value made dense | scale and softmax | merged heads | residual
    ],
)
def test_an_inference_has_the_kernels_that_inductor_generates(module: type[nn.Module], expected: int):
    assert kernels(fuse(captured(module, training=False)), Phase.FORWARD) == expected


@pytest.mark.parametrize("module", [Mlp, Attention])
def test_a_training_step_keeps_its_products_and_its_flops(module: type[nn.Module]):
    graph = captured(module, training=True)
    fused = fuse(graph)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert kernels(fused, phase) < kernels(graph, phase)
    products = [[g.operations[n.operation].name for n in g.nodes
                 if g.operations[n.operation].kind in MATRIX_KINDS] for g in (graph, fused)]  # fmt: skip
    assert Counter(products[0]) == Counter(products[1])
    assert total(graph, "flops") == total(fused, "flops")
    assert estimate_memory(fused, 1).peak_bytes <= estimate_memory(graph, 1).peak_bytes
    assert any("compiled" in note for note in fused.notes)
