"""Memory formats of a captured program as on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from perfcast.core.graph import Graph, Phase
from perfcast.core.tensor import MemoryFormat
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import Program

LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class Convolution(nn.Module):
    def __init__(self, layout: torch.memory_format, kernel: int, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(32, 32 // groups, kernel, kernel).to(memory_format=layout))
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.weight, groups=self.groups)


def captured(
    module: nn.Module, x: Tensor, training: bool = False, autocast: torch.dtype | None = None
) -> Graph:
    options = CaptureOptions(training=training, autocast_dtype=autocast)
    return capture(lambda: Program(module, (x,)), options)[0]


def names(graph: Graph, phase: Phase = Phase.FORWARD) -> list[str]:
    return [graph.operations[node.operation].name for node in graph.nodes if node.phase is phase]


@pytest.mark.parametrize("autocast", [None, torch.float16])
@pytest.mark.parametrize(("kernel", "groups"), [(3, 1), (1, 1), (3, 32)])
@pytest.mark.parametrize("images", ["contiguous", "channels_last"])
@pytest.mark.parametrize("filters", ["contiguous", "channels_last"])
def test_a_convolution_runs_with_channels_last_if_images_or_filters_lie_so(
    images: MemoryFormat, filters: MemoryFormat, kernel: int, groups: int, autocast: torch.dtype | None
):
    def build() -> Program:
        x = torch.zeros(2, 32, 8, 8).contiguous(memory_format=LAYOUTS[images])
        return Program(Convolution(LAYOUTS[filters], kernel, groups), (x,))

    graph, _ = capture(build, CaptureOptions(training=False, autocast_dtype=autocast))
    (node,) = [n for n in graph.nodes if graph.operations[n.operation].name == "convolution"]
    is_last = "channels_last" in (images, filters)
    made = graph.operations[node.operation].outputs[0]
    assert made.is_channels_last is is_last
    assert graph.operations[node.operation].attribute("memory_format") == (
        "channels_last" if is_last else None
    )
    # What lies otherwise is copied first. Filters of one channel or of one position lie both ways.
    is_copied = images != filters and (images == "contiguous" or (groups == 1 and kernel > 1))
    assert names(graph).count("clone") == int(is_copied)


def test_a_backward_copies_what_the_forward_had_to():
    def build() -> Program:
        return Program(
            Convolution(torch.channels_last, 3, 1), (torch.zeros(2, 32, 8, 8, requires_grad=True),)
        )

    graph, _ = capture(build, CaptureOptions(training=True))
    assert names(graph).count("clone") == 1
    gradients = [graph.operations[n.operation] for n in graph.nodes if n.phase is Phase.BACKWARD]
    (backward,) = [o for o in gradients if o.name == "convolution_backward"]
    assert all(t.is_channels_last for t in backward.outputs if len(t.shape) == 4)
    assert names(graph, Phase.BACKWARD).count("clone") >= 1


def test_double_precision_runs_contiguous():
    graph = captured(nn.Conv2d(3, 4, 3).double(), torch.zeros(1, 3, 8, 8).double().contiguous(
        memory_format=torch.channels_last))  # fmt: skip
    assert [o.attribute("memory_format") for o in graph.operations if o.name == "convolution"] == [None]


class OverChannels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@pytest.mark.parametrize(("layout", "num_copies"), [("contiguous", 1), ("channels_last", 0)])
def test_a_norm_over_channels_copies_images_unless_their_channels_are_last(
    layout: MemoryFormat, num_copies: int
):
    graph = captured(OverChannels(), torch.zeros(2, 32, 8, 8).contiguous(memory_format=LAYOUTS[layout]))
    assert names(graph).count("clone") == num_copies


@pytest.mark.parametrize(("layout", "num_copies"), [("contiguous", 0), ("channels_last", 1)])
def test_a_group_norm_copies_images_whose_channels_are_last(layout: MemoryFormat, num_copies: int):
    graph = captured(nn.GroupNorm(4, 32), torch.zeros(2, 32, 8, 8).contiguous(memory_format=LAYOUTS[layout]))
    assert names(graph).count("clone") == num_copies
    norm = next(o for o in graph.operations if o.name == "native_group_norm")
    assert not norm.outputs[0].is_channels_last
