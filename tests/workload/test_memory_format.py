"""Weights and images with channels last, and what asks for them without having any."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from perfcast import predict, predict_memory
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.errors import ModelError, PlanError
from perfcast.prediction import Request, build_graph, resolve_device
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.route import lone_cluster
from perfcast.prediction.step.predict import predict_step
from perfcast.workload.models.memory_format import to_memory_format
from perfcast.workload.step import Program

GPU = resolve_device("a100-sxm-80gb")

_PROGRAM = """
from torch import nn, zeros

def images(batch_size, image_size=8):
    return nn.Conv2d(3, 4, 3), zeros(batch_size, 3, image_size, image_size)

def volumes(batch_size):
    return nn.Conv3d(3, 4, 3), zeros(batch_size, 3, 8, 8, 8)

def rows(batch_size):
    return nn.Linear(3, 4), zeros(batch_size, 3)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "program.py").write_text(_PROGRAM)
    return f"{tmp_path / 'program.py'}:"


@pytest.mark.parametrize("function", ["images", "volumes"])
def test_weights_and_inputs_have_their_channels_last(program: str, function: str):
    request = Request(model=program + function, mode="prefill", batch_size=2, memory_format="channels_last")
    graph, _ = build_graph(request, GPU)
    (node,) = [n for n in graph.nodes if graph.operations[n.operation].kind is OperationKind.CONVOLUTION]
    operation = graph.operations[node.operation]
    assert operation.attribute("memory_format") == "channels_last"
    images, weight, _ = (graph.tensors[t] for t in node.inputs)
    assert images.type.is_channels_last
    assert weight.type.is_channels_last
    assert graph.storages[weight.storage].category == Category.PARAMETER


def test_shared_weights_stay_shared():
    one, other = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3)
    other.weight = one.weight
    program = Program(nn.Sequential(one, other), (torch.zeros(1, 3, 8, 8),))
    to_memory_format(program, "channels_last", "two layers")
    assert one.weight is other.weight
    assert one.weight.is_contiguous(memory_format=torch.channels_last)
    assert one.bias.requires_grad


def test_a_model_without_images_has_no_channels_to_put_last(program: str):
    with pytest.raises(ModelError, match=r"channels_last: .*:rows takes no images, tensors of 4 or 5 dims"):
        predict_memory(f"{program}rows", GPU, memory_format="channels_last")


def test_a_function_takes_the_size_of_its_images_if_it_says_so(program: str):
    small, large = (predict_memory(f"{program}images", GPU, image_size=s).flops for s in (4, 10))
    assert large == 16 * small
    with pytest.raises(ModelError, match="volumes does not take image_size"):
        predict_memory(f"{program}volumes", GPU, image_size=4)


def test_models_of_text_take_no_images():
    with pytest.raises(ModelError, match="takes no images"):
        predict_memory("gpt2", GPU, image_size=224)
    with pytest.raises(ModelError, match="takes no images"):
        predict_memory("gpt2", GPU, memory_format="channels_last")


def test_kernels_of_a_framework_take_no_images():
    with pytest.raises(PlanError, match="image size and memory format"):
        predict("gpt2", GPU, mode="prefill", memory_format="channels_last")
    with pytest.raises(PlanError, match="runs as its own modules, not of"):
        predict_step(
            PlanRequest(
                model="gpt2", cluster=lone_cluster(GPU.name), plan=Plan(), mode="prefill", image_size=224
            )
        )


def test_a_transformers_vision_model_is_built_for_a_size():
    graph, _ = build_graph(Request(model="vit-b-16", mode="prefill", dtype="fp16", image_size=384), GPU)
    attention = next(o for o in graph.operations if o.kind is OperationKind.ATTENTION)
    assert attention.attribute("num_queries") == (384 // 16) ** 2 + 1
