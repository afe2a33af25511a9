"""What a compiler makes of image models: memory formats, biases of convolutions, batch norm by statistics."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import OperationKind
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.fuse import fuse
from perfcast.workload.fuse.bias import split_biases
from perfcast.workload.fuse.layout import prefers_channels_last
from perfcast.workload.step import Program


def captured(module: nn.Module, channels: int = 128, training: bool = False) -> Graph:
    def build() -> Program:
        return Program(module, (torch.zeros(4, channels, 16, 16),))

    return capture(build, CaptureOptions(training=training))[0]


def convolutions(*layers: tuple[int, int, int, int]) -> nn.Module:
    """Of channels in and out, filter and groups."""
    return nn.Sequential(*(nn.Conv2d(i, o, k, padding=k // 2, groups=g, bias=False) for i, o, k, g in layers))


@pytest.mark.parametrize(
    ("layers", "inference", "training"),
    [
        (((128, 128, 3, 1),), True, True),
        (((128, 128, 3, 128), (128, 256, 1, 1)), True, True),  # depthwise is no obstacle
        (((128, 128, 3, 4),), False, False),  # groups of several channels are slower
        (((128, 128, 3, 4), (128, 1024, 3, 1)), True, False),  # most of the work is not
        (((128, 64, 3, 1),), True, False),  # fewer channels out than in
        (((128, 64, 1, 1), (64, 64, 1, 1)), True, True),
        (((64, 64, 3, 1),), True, False),  # small ones alone
    ],
)
def test_convolutions_run_with_channels_last_where_inductor_expects_a_gain(
    layers: tuple[tuple[int, int, int, int], ...], inference: bool, training: bool
):
    channels = layers[0][0]
    assert prefers_channels_last(captured(convolutions(*layers), channels)) is inference
    assert prefers_channels_last(captured(convolutions(*layers), channels, training=True)) is training


def test_a_program_without_convolutions_has_no_format_to_choose():
    assert not prefers_channels_last(captured(nn.GELU()))


class Biased(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(128, 64, 3), nn.Conv2d(64, 32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def test_the_bias_of_a_convolution_is_added_by_the_kernel_behind_it():
    graph = fuse(captured(Biased()))
    names = [graph.operations[node.operation].name for node in graph.nodes]
    assert names == ["convolution", "fused_add_relu", "convolution", "add"]
    first, fused, *_ = (graph.operations[node.operation] for node in graph.nodes)
    assert "bias" not in str(first.attribute("geometry"))
    num_bytes = 4 * 4 * 64 * 14 * 14
    assert fused.memory_traffic_bytes == 2 * num_bytes + 4 * 64


def test_splitting_biases_keeps_work_and_what_is_alive():
    graph = captured(Biased(), training=True)
    split = split_biases(graph, frozenset({Phase.FORWARD}))
    assert split.flops == graph.flops
    assert len(split.nodes) == len(graph.nodes) + 2
    by_category = [Counter(s.category for s in g.storages) for g in (graph, split)]
    assert by_category[1] - by_category[0] == Counter({"temporary": 2})
    for node in split.nodes:
        for tensor in node.inputs:
            freed = split.storages[split.tensors[tensor].storage].freed_after
            assert freed is None or freed >= 0
    assert split_biases(graph, frozenset()).nodes == graph.nodes


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(128, 128, 1, bias=False), nn.BatchNorm2d(128)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.convolution(x)).relu()


def test_a_batch_norm_by_running_statistics_is_element_wise():
    graph = fuse(captured(Normed()))
    (fused,) = [o for o in graph.operations if o.name.startswith("fused")]
    assert fused.kind is OperationKind.ELEMENTWISE
    assert fused.memory_traffic_bytes == 3 * 4 * 4 * 128 * 16 * 16 + 4 * 4 * 128


def test_a_batch_norm_in_training_normalizes():
    graph = fuse(captured(Normed(), training=True))
    assert any(o.kind is OperationKind.NORMALIZATION for o in graph.operations)
