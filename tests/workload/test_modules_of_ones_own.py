"""Modules from no catalog: odd attention shapes, recurrent layers, tied weights in half precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph
from perfcast.core.operation import OperationKind
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.user_file import build_user_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.lstm = nn.LSTM(32, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(self.norm(x))
        x = nn.functional.scaled_dot_product_attention(x, x, x)
        return self.lstm(x)[0]


def build_mixed() -> tuple[nn.Module, Tensor]:
    return Mixed(), torch.zeros(2, 8, 32)


def graph_of(mode: str, dtype: str, for_accelerator: bool = True) -> Graph:
    shape = StepShape(mode=mode, dtype=dtype, batch_size=2)
    options = CaptureOptions(
        training=mode == "train", for_accelerator=for_accelerator, autocast_dtype=shape.autocast_dtype
    )
    return capture(lambda: build_user_program(build_mixed, shape), options)[0]


@pytest.mark.parametrize("for_accelerator", [True, False])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("mode", ["train", "prefill"])
def test_plain_pytorch_layers_are_captured_and_every_operator_has_a_rule(
    mode: str, dtype: str, for_accelerator: bool
) -> None:
    graph = graph_of(mode, dtype, for_accelerator)
    assert graph.flops > 0
    assert [o.name for o in graph.operations if o.kind is OperationKind.UNKNOWN] == []


def test_attention_without_a_head_dim_is_one_operation_with_one_head() -> None:
    graph = graph_of("prefill", "fp32")
    attentions = [o for o in graph.operations if o.kind is OperationKind.ATTENTION]
    assert sorted(o.attribute("heads") for o in attentions) == [1, 4]


def test_an_rms_norm_is_one_operation_on_an_accelerator() -> None:
    graph = graph_of("prefill", "fp32")
    in_norm = [graph.operations[n.operation].name for n in graph.nodes if n.module == "norm"]
    assert in_norm == ["_fused_rms_norm"]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.table(x))


def test_half_precision_weights_keep_their_ties() -> None:
    def build() -> Program:
        shape = StepShape(mode="prefill", dtype="bf16")
        return build_user_program(lambda: (Tied(), torch.zeros(1, 3, dtype=torch.int64)), shape)

    graph, program = capture(build, CaptureOptions(training=False))
    assert graph.parameter_count == 40
    assert program.module.table.weight is program.module.head.weight
    products = [o for o in graph.operations if o.kind is OperationKind.MATMUL]
    assert {o.compute_dtype for o in products} == {DType.BF16}
