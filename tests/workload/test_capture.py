"""What is written down of a program, on modules small enough to count by hand."""

from __future__ import annotations

import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import OperationKind
from perfcast.core.tensor import Category
from perfcast.errors import CaptureError, InputError, UnknownNameError
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import OptimizerChoice, Program

BF16 = torch.bfloat16
NO_OPTIMIZER = OptimizerChoice("none")


class Calls(nn.Module):
    """A module whose forward is a function; with parameters, if any are named."""

    def __init__(self, function: Callable[..., Any], **parameters: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        for name, shape in parameters.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape)))

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def graph_of(module: Callable[[], nn.Module] | nn.Module, *args: Tensor, **options: Any) -> Graph:
    def build() -> Program:
        made = module if isinstance(module, nn.Module) else module()
        return Program(made, args=tuple(torch.empty_like(a, requires_grad=a.requires_grad) for a in args))

    defaults: dict[str, Any] = {"optimizer": NO_OPTIMIZER}
    return capture(build, CaptureOptions(**(defaults | options)))[0]


def inference(module: Callable[[], nn.Module] | nn.Module, *args: Tensor, **options: Any) -> Graph:
    return graph_of(module, *args, training=False, **options)


def names(graph: Graph, phase: Phase | None = None) -> list[str]:
    return [graph.operations[n.operation].name for n in graph.nodes if phase in (None, n.phase)]


def nodes_named(graph: Graph, name: str) -> list[Node]:
    return [n for n in graph.nodes if graph.operations[n.operation].name == name]


def kernels(graph: Graph) -> list[str]:
    return [
        graph.operations[n.operation].name for n in graph.nodes if not graph.operations[n.operation].is_free
    ]


# ---- views, in place ---------------------------------------------------------------------------------


def test_views_are_not_operations():
    def views(_: nn.Module, x: Tensor) -> Tensor:
        return (
            x.view(4, 2, 8)
            .transpose(0, 1)[:, 1:]
            .permute(2, 0, 1)
            .unsqueeze(0)
            .expand(5, -1, -1, -1)
            .detach()
        )

    assert inference(lambda: Calls(views), torch.zeros(8, 8)).nodes == ()


def test_a_copy_of_a_transposed_tensor_is_an_operation_and_one_of_a_dense_tensor_is_not():
    graph = inference(lambda: Calls(lambda _, x: x.contiguous().t().contiguous()), torch.zeros(4, 8))
    assert names(graph) == ["clone"]
    assert graph.operations[0].kind is OperationKind.COPY
    assert graph.operations[0].memory_traffic_bytes == 2 * 4 * 8 * 4


def test_views_share_the_storage_of_what_they_look_into():
    graph = inference(lambda: Calls(lambda _, x: (x + 1).view(-1) + x.view(-1)), torch.zeros(4, 8))
    assert names(graph) == ["add", "add"]
    assert sorted(s.num_bytes for s in graph.storages) == [128, 128, 128]


def test_an_operation_in_place_takes_no_memory():
    graph = inference(lambda: Calls(lambda _, x: (x + 1).relu_().add_(1)), torch.zeros(4, 8))
    assert names(graph) == ["add", "relu_", "add_"]
    assert [s.num_bytes for s in graph.storages] == [128, 128]
    assert estimate_memory(graph, 1).timeline_bytes == (256, 256, 256)


def test_a_temporary_is_freed_when_the_program_drops_it():
    def drops(_: nn.Module, x: Tensor) -> Tensor:
        y = x + 1  # node 0
        z = y * 2  # node 1
        del y
        return z - 3  # node 2

    graph = inference(lambda: Calls(drops), torch.zeros(32))
    made = [s for s in graph.storages if s.created_by >= 0]
    assert [(s.created_by, s.freed_after) for s in made] == [(0, 1), (1, 2), (2, 2)]


def test_storages_say_what_they_are():
    graph = graph_of(lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), torch.zeros(2, 4))
    held = Counter(s.category for s in graph.storages)
    assert held[Category.PARAMETER] == held[Category.GRADIENT] == 4
    assert held[Category.BUFFER] == 3  # running mean and variance, and the count of batches
    assert held[Category.INPUT] == 1
    assert held[Category.ACTIVATION] >= 1


def test_a_tied_weight_is_one_parameter():
    def tied() -> nn.Module:
        module = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
        module[1].weight = module[0].weight
        return module

    graph = graph_of(tied, torch.zeros(2, 8))
    assert graph.parameter_count == 64
    assert [s.category for s in graph.storages].count(Category.PARAMETER) == 1


# ---- autocast ----------------------------------------------------------------------------------------


def output_dtypes(graph: Graph, name: str) -> set[DType]:
    return {graph.operations[n.operation].outputs[0].dtype for n in nodes_named(graph, name)}


def autocast_of(function: Callable[..., Any], *args: Any, **parameters: tuple[int, ...]) -> Graph:
    return graph_of(lambda: Calls(function, **parameters), *args, autocast_dtype=BF16)


@pytest.mark.parametrize(
    ("function", "operator", "dtype"),
    [
        (lambda m, x: x @ m.w, "mm", DType.BF16),
        (lambda m, x: functional.linear(x, m.w, m.b), "addmm", DType.BF16),
        (lambda m, x: torch.softmax((x @ m.w), -1), "_softmax", DType.FP32),
        (lambda m, x: torch.softmax((x @ m.w), -1, dtype=BF16), "_softmax", DType.BF16),
        (lambda m, x: functional.layer_norm(x @ m.w, (8,)), "native_layer_norm", DType.FP32),
        (lambda m, x: functional.gelu(x @ m.w), "gelu", DType.BF16),  # on neither list: as it comes
        (lambda m, x: (x @ m.w).exp(), "exp", DType.FP32),
        (lambda m, x: (x @ m.w) + x, "add", DType.FP32),  # promoted to the widest
        (lambda m, x: torch.cat([x @ m.w, x]), "cat", DType.FP32),
        (lambda m, x: (x @ m.w).sum(), "sum", DType.FP32),
    ],
    ids="matmul linear softmax softmax-with-dtype layer_norm gelu exp add cat sum".split(),
)
def test_autocast_follows_the_lists_of_cuda(function, operator: str, dtype: DType):
    graph = autocast_of(function, torch.zeros(4, 8), w=(8, 8), b=(8,))
    assert output_dtypes(graph, operator) == {dtype}


def test_autocast_copies_a_weight_once_per_forward_however_often_it_is_used():
    def copies(micro_batches: int) -> int:
        graph = graph_of(
            lambda: Calls(lambda m, x: (x @ m.w) @ m.w @ m.w, w=(8, 8)),
            torch.zeros(4, 8, dtype=BF16),
            autocast_dtype=BF16,
            num_micro_batches=micro_batches,
        )
        made = [graph.operations[n.operation].outputs[0] for n in nodes_named(graph, "_to_copy")]
        return sum(t.shape == (8, 8) and t.dtype is DType.BF16 for t in made)

    assert copies(1) == 1
    assert copies(2) == 2


def test_the_copy_of_a_weight_is_dropped_when_the_backward_no_longer_needs_it():
    def build() -> nn.Module:
        return nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(3)])

    graph = graph_of(build, torch.zeros(2, 64), autocast_dtype=BF16)
    copies = [s for s in graph.storages if s.num_bytes == 64 * 64 * 2 and s.created_by >= 0]
    first_backward = next(i for i, n in enumerate(graph.nodes) if n.phase is Phase.BACKWARD)
    weights = [s for s in copies if s.created_by < first_backward]
    assert len(weights) == 3
    assert len({s.freed_after for s in weights}) == 3, "one after the other, not all at the end"


def test_gradients_of_weights_are_in_full_precision_under_autocast():
    graph = graph_of(lambda: nn.Linear(8, 8), torch.zeros(4, 8), autocast_dtype=BF16)
    assert Counter(s.num_bytes for s in graph.storages if s.category == Category.GRADIENT) == {256: 1, 32: 1}


# ---- what an accelerator runs as one -----------------------------------------------------------------


def attend(_: nn.Module, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)


def heads() -> tuple[Tensor, ...]:
    return tuple(torch.zeros(2, 4, 16, 8, requires_grad=True) for _ in range(3))


def test_attention_is_one_operation_forward_and_one_backward():
    graph = graph_of(lambda: Calls(lambda m, *qkv: attend(m, *qkv) * m.scale, scale=(1,)), *heads())
    attention = [n for n in names(graph) if "attention" in n]
    assert attention == ["attention", "attention_backward"]
    forward, backward = (graph.operations[nodes_named(graph, n)[0].operation] for n in attention)
    assert forward.flops == 2 * 2 * 4 * 16 * 16 * (8 + 8)
    assert backward.flops == 2 * forward.flops
    assert forward.attribute("causal") is True


def test_the_attention_inside_multihead_attention_is_one_operation_and_its_products_are_autocast():
    module, x = nn.MultiheadAttention(32, 4, dropout=0.1, batch_first=True), torch.randn(2, 8, 32)

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = module

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x, need_weights=False)[0]

    graph = graph_of(Encoder(), x, autocast_dtype=torch.bfloat16)
    assert [name for name in names(graph) if "attention" in name] == ["attention", "attention_backward"]
    assert output_dtypes(graph, "mm") | output_dtypes(graph, "addmm") == {DType.BF16}


def test_the_processor_runs_attention_as_it_does():
    graph = inference(lambda: Calls(attend), *(t.detach() for t in heads()), for_accelerator=False)
    assert "attention" not in names(graph)


def test_the_backward_of_a_softmax_multiplies_first_on_an_accelerator_and_holds_the_product():
    # 4 × 8 elements: read two and write one, then read two (product and probabilities) and write one
    def taken(for_accelerator: bool) -> tuple[list[tuple[str, int]], int]:
        graph = graph_of(
            lambda: Calls(lambda m, x: torch.softmax(x * m.w, -1).square(), w=(8,)), torch.zeros(4, 8),
            for_accelerator=for_accelerator,
        )  # fmt: skip
        backward = [n for n in graph.nodes if n.phase is Phase.BACKWARD]
        operations = [graph.operations[n.operation] for n in backward]
        at = next(i for i, o in enumerate(operations) if o.name == "_softmax_backward_data")
        product = next(t for t in backward[at].inputs if graph.tensors[t].type.shape == (4, 8))
        made_by = graph.storages[graph.tensors[product].storage].created_by
        chosen = [(o.name, o.memory_traffic_bytes) for o in operations[at - 1 : at + 1]]
        return chosen, graph.nodes.index(backward[at]) - made_by

    assert taken(True) == ([("mul", 3 * 128), ("_softmax_backward_data", 3 * 128)], 1)
    (_, kernel), _ = taken(False)
    assert kernel == ("_softmax_backward_data", 3 * 128)
    assert taken(False)[0][0][0] == "mul"  # of the square, not of the softmax: its output is the gradient


@pytest.mark.parametrize(
    "how",
    [nn.Dropout(0.3), Calls(lambda m, x: functional.dropout(x, 0.3, m.training))],
    ids=["module", "function"],
)
def test_dropout_is_one_operation_forward_and_one_backward(how: nn.Module):
    graph = graph_of(lambda: nn.Sequential(nn.Linear(8, 8), how), torch.zeros(4, 8))
    dropout = [n for n in names(graph) if "dropout" in n or "bernoulli" in n]
    assert dropout == ["native_dropout", "native_dropout_backward"]


def test_dropout_is_nothing_where_it_drops_nothing():
    assert kernels(inference(lambda: nn.Dropout(0.3), torch.zeros(4, 8))) == []
    assert "native_dropout" not in names(
        graph_of(lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0)), torch.zeros(4, 8))
    )


# ---- phases, modules, micro-batches, checkpoints -----------------------------------------------------


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ModuleDict({"b": nn.Linear(8, 8), "c": nn.LayerNorm(8)})

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.a["c"](self.a["b"](x)))


def test_every_node_carries_the_module_that_asked_for_it_forward_and_backward():
    graph = graph_of(Outer, torch.zeros(4, 8))
    found = {
        phase: Counter(n.module for n in graph.nodes if n.phase is phase)
        for phase in (Phase.FORWARD, Phase.BACKWARD)
    }
    assert set(found[Phase.FORWARD]) == {"", "a.b", "a.c"}
    assert set(found[Phase.BACKWARD]) == {"", "a.b", "a.c"}
    assert [n.module for n in nodes_named(graph, "addmm")] == ["a.b"]
    assert {(n.module, n.phase) for n in nodes_named(graph, "mm")} == {("a.b", Phase.BACKWARD)}
    assert {n.module for n in nodes_named(graph, "native_layer_norm_backward")} == {"a.c"}
    assert {n.module for n in nodes_named(graph, "tanh_backward")} == {""}


def test_phases_come_in_order():
    graph = graph_of(Outer, torch.zeros(4, 8), optimizer=OptimizerChoice("adamw", "foreach"))
    phases = [n.phase for n in graph.nodes]
    assert list(dict.fromkeys(phases)) == [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    assert phases == sorted(phases, key=list(Phase).index)


def test_inference_has_a_forward_alone():
    assert {n.phase for n in inference(Outer, torch.zeros(4, 8)).nodes} == {Phase.FORWARD}


@pytest.mark.parametrize("micro_batches", [2, 3])
def test_micro_batches_repeat_forward_and_backward_but_not_the_optimizer(micro_batches: int):
    adamw = OptimizerChoice("adamw", "foreach")
    one = graph_of(Outer, torch.zeros(4, 8), optimizer=adamw)
    several = graph_of(Outer, torch.zeros(4, 8), optimizer=adamw, num_micro_batches=micro_batches)
    assert several.flops == micro_batches * one.flops
    assert names(several, Phase.FORWARD) == micro_batches * names(one, Phase.FORWARD)
    assert names(several, Phase.OPTIMIZER) == names(one, Phase.OPTIMIZER)
    # from the second on, each of the four gradients is added to the one that is there
    added = len(names(several, Phase.BACKWARD)) - micro_batches * len(names(one, Phase.BACKWARD))
    assert added == 4 * (micro_batches - 1)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.body, x, use_reentrant=False))


def test_what_a_checkpoint_runs_again_is_marked_and_counts_apart():
    graph = graph_of(Checkpointed, torch.zeros(4, 8))
    again = [(n.phase, n.module, graph.operations[n.operation].name) for n in graph.nodes if n.recomputed]
    assert again == [(Phase.BACKWARD, "body.0", "addmm"), (Phase.BACKWARD, "body.1", "relu")]
    assert graph.recompute_flops == 2 * 4 * 8 * 8


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.mul(x, 2)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.neg(gradient)


def test_a_custom_functions_forward_that_runs_again_is_told_from_its_backward():
    def build() -> nn.Module:
        module = Checkpointed()
        module.body[1] = Calls(lambda _, x: Doubled.apply(x))
        return module

    graph = graph_of(build, torch.zeros(4, 8))
    found = [(n.phase, n.module, n.recomputed) for n in nodes_named(graph, "mul")]
    assert found == [(Phase.FORWARD, "body.1", False), (Phase.BACKWARD, "body.1", True)]
    assert [(n.module, n.recomputed) for n in nodes_named(graph, "neg")] == [("body.1", False)]


class CheckpointedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.drop = nn.Linear(8, 8), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        def layer(x: Tensor) -> Tensor:
            return self.drop(functional.scaled_dot_product_attention(*[self.project(x)] * 3))

        return checkpoint(layer, x, use_reentrant=False)


def test_a_checkpointed_layer_runs_again_as_the_accelerator_first_ran_it():
    inputs = torch.zeros(2, 4, 16, 8)
    graph = graph_of(CheckpointedAttention, inputs, autocast_dtype=BF16)
    again = [graph.operations[n.operation] for n in graph.nodes if n.recomputed]
    first = [graph.operations[n.operation] for n in graph.nodes if n.phase is Phase.FORWARD]
    assert [o.name for o in again if o.name == "attention"] == ["attention"]
    assert [o for o in again if o.uses_matrix_units] == [o for o in first if o.uses_matrix_units]


# ---- errors ------------------------------------------------------------------------------------------


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, start = inspect.getsourcelines(function)
    return f"{__file__}:{start + next(i for i, line in enumerate(lines) if text in line)}"


def branches(_: nn.Module, x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x + 1
    return x


def shapes_by_value(_: nn.Module, x: Tensor) -> Tensor:
    return x[x > 0]


def raises(_: nn.Module, x: Tensor) -> Tensor:
    raise KeyError("the forward's own\nmistake")


def mismatches(m: nn.Module, x: Tensor) -> Tensor:
    return x @ m.w


@pytest.mark.parametrize(
    ("function", "at", "says"),
    [
        (branches, "if x.sum() > 0", "depends on the values of a tensor"),
        (shapes_by_value, "x[x > 0]", "depends on the values of a tensor"),
        (raises, "raise KeyError", "KeyError"),
        (mismatches, "x @ m.w", "RuntimeError"),
    ],
)
def test_what_cannot_be_captured_is_one_error_that_names_the_line(function, at: str, says: str):
    with pytest.raises(CaptureError) as raised:
        inference(lambda: Calls(function, w=(3, 3)), torch.zeros(4, 8))
    message = str(raised.value)
    assert line_of(function, at) in message
    assert says in message
    assert "\n" not in message


def test_a_model_that_cannot_be_built_is_one_error_that_names_the_line():
    def build() -> Program:
        raise ValueError("no such width")

    with pytest.raises(CaptureError, match=re.escape(line_of(build, "raise ValueError"))):
        capture(build, CaptureOptions())


def test_an_error_leaves_the_log_of_torch_as_it_was():
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    with pytest.raises(CaptureError):
        inference(lambda: Calls(branches), torch.zeros(4))
    assert logger.level == before


@pytest.mark.parametrize(
    "output", [{"ids": "text"}, torch.zeros(4, dtype=torch.int64)], ids=["no-tensor", "integers"]
)
def test_an_output_without_a_loss_is_an_input_error(output: Any):
    with pytest.raises(InputError, match="no floating-point tensor to derive a loss from"):
        graph_of(lambda: Calls(lambda m, x: output, w=(2,)), torch.zeros(2))


def test_a_module_without_parameters_cannot_be_trained():
    with pytest.raises(InputError):
        graph_of(nn.ReLU, torch.zeros(2), optimizer=OptimizerChoice("adamw"))


def test_an_unknown_optimizer_is_named_with_close_ones():
    with pytest.raises(UnknownNameError, match=r"unknown optimizer 'adamx'\. Did you mean adam"):
        graph_of(Outer, torch.zeros(4, 8), optimizer=OptimizerChoice("adamx"))


# ---- optimizers --------------------------------------------------------------------------------------

HOW = ("fused", "foreach", "loop")
STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}


@pytest.mark.parametrize("implementation", HOW)
@pytest.mark.parametrize("name", STATES)
def test_an_optimizer_holds_its_states_whatever_its_implementation(name: str, implementation: str):
    graph = graph_of(Outer, torch.zeros(4, 8), optimizer=OptimizerChoice(name, implementation))
    weights = sum(s.num_bytes for s in graph.storages if s.category == Category.PARAMETER)
    # Adam's counts of steps are one number per parameter, four parameters here.
    states = sorted(s.num_bytes for s in graph.storages if s.category == Category.OPTIMIZER_STATE)
    assert sum(b for b in states if b > 4) == STATES[name] * weights
    assert states.count(4) == (4 if "adam" in name else 0)


def touched_bytes(graph: Graph, category: str) -> int:
    touched = {
        graph.tensors[t].storage
        for n in graph.nodes
        if n.phase is Phase.OPTIMIZER
        for t in (*n.inputs, *n.outputs)
    }
    return sum(graph.storages[s].num_bytes for s in touched if graph.storages[s].category == category)


@pytest.mark.parametrize("name", STATES)
def test_all_implementations_touch_the_same_bytes(name: str):
    graphs = [graph_of(Outer, torch.zeros(4, 8), optimizer=OptimizerChoice(name, how)) for how in HOW]
    for category in (Category.PARAMETER, Category.GRADIENT, Category.OPTIMIZER_STATE):
        assert len({touched_bytes(g, category) for g in graphs}) == 1
    assert touched_bytes(graphs[0], Category.PARAMETER) == 4 * (64 + 8 + 8 + 8)


def test_a_fused_optimizer_is_one_operation_and_the_fewer_the_bytes():
    fused, foreach, loop = (
        graph_of(Outer, torch.zeros(4, 8), optimizer=OptimizerChoice("adamw", how)) for how in HOW
    )
    assert [n for n in names(fused, Phase.OPTIMIZER) if "fused" in n] == ["_fused_adamw_"]
    traffic = [
        sum(g.operations[n.operation].memory_traffic_bytes for n in g.nodes if n.phase is Phase.OPTIMIZER)
        for g in (fused, foreach, loop)
    ]
    assert traffic[0] < min(traffic[1:])
    assert len(names(foreach, Phase.OPTIMIZER)) < len(names(loop, Phase.OPTIMIZER))


def test_a_frozen_parameter_has_neither_gradient_nor_state():
    def frozen() -> nn.Module:
        module = Outer()
        module.a["b"].requires_grad_(False)
        return module

    graph = graph_of(frozen, torch.zeros(4, 8), optimizer=OptimizerChoice("momentum", "foreach"))
    held = {c: sum(s.num_bytes for s in graph.storages if s.category == c) for c in Category.ALL}
    assert held[Category.GRADIENT] == held[Category.OPTIMIZER_STATE] == 2 * 8 * 4
    assert held[Category.PARAMETER] == 4 * (64 + 8 + 8 + 8)


def test_a_model_may_ask_a_skipped_layer_for_its_attributes() -> None:
    """As models do that choose a mask by ``layer.attention_type``."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.factor = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                assert layer.factor == 2.0
                x = layer(x)
            return x

    graph, _ = capture(lambda: Program(Asking(), args=(torch.zeros(4, 8),)), CaptureOptions())
    assert graph.flops == 10 * 3 * 2 * 4 * 8 * 8 - 2 * 4 * 8 * 8
