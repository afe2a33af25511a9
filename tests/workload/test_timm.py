"""Image models of timm by name, in a size and memory format."""

from __future__ import annotations

import sys

import pytest
import torch

from perfcast import predict_memory
from perfcast.core.graph import Graph
from perfcast.core.operation import Operation, OperationKind
from perfcast.errors import InputError, ModelError, UnknownNameError
from perfcast.prediction import Request, build_graph, resolve_device
from perfcast.prediction.model import read_model
from perfcast.torch_internals.vision import make_torchvision_importable
from perfcast.workload.models.timm import build_timm_program, check_timm_name
from perfcast.workload.shape import StepShape

make_torchvision_importable()
pytest.importorskip("timm", reason="timm is not installed: make test installs it")

GPU = resolve_device("a100-sxm-80gb")


def graph_of(name: str, mode: str = "prefill", dtype: str = "fp16", **options: object) -> Graph:
    request = Request(model=name, mode=mode, batch_size=2, dtype=dtype, **options)  # type: ignore[arg-type]
    return build_graph(request, GPU)[0]


def convolutions(graph: Graph) -> list[Operation]:
    return [
        graph.operations[node.operation]
        for node in graph.nodes
        if graph.operations[node.operation].kind is OperationKind.CONVOLUTION
    ]


def test_a_resnet18_has_the_weights_and_work_that_are_published():
    """11.69 million weights and 1.82 billion multiply-adds an image of 224 (He et al. 2016, torchvision)."""
    graph = graph_of("timm:resnet18")
    assert graph.parameter_count == 11_689_512
    assert graph.flops / 2 / 2 == pytest.approx(1.814e9, rel=1e-3)
    assert "images of 224 × 224" in graph.notes
    assert len(convolutions(graph)) == 20


def test_images_of_another_size_are_as_much_more_work():
    usual, larger = (graph_of("timm:resnet18", image_size=size).flops for size in (None, 448))
    assert larger / usual == pytest.approx(4.0, rel=1e-2)


def test_a_vision_transformer_is_built_for_the_size_that_is_asked_for():
    graph = graph_of("timm:vit_tiny_patch16_224", image_size=384)
    attention = next(o for o in graph.operations if o.kind is OperationKind.ATTENTION)
    assert attention.attribute("num_queries") == (384 // 16) ** 2 + 1


def test_a_tag_says_the_size_of_its_images():
    assert "images of 384 × 384" in graph_of("timm:vit_tiny_patch16_384.augreg_in21k_ft_in1k").notes


def test_old_names_are_taken():
    assert graph_of("timm:convnext_tiny_in22ft1k").parameter_count == 28_589_128


@pytest.mark.parametrize("name", ["timm:regnetx_002", "timm:ecaresnet50d_pruned", "timm:maxvit_tiny_tf_224"])
def test_models_that_compute_while_they_are_built_are_built_symbolically(name: str):
    assert graph_of(name).parameter_count > 1e6


def test_training_is_of_images_with_labels():
    graph = graph_of("timm:resnet18", "train", optimizer="sgd")
    assert any(o.name.startswith("nll_loss_forward") for o in graph.operations)
    assert graph.flops == pytest.approx(3 * graph_of("timm:resnet18").flops, rel=0.05)


def test_inference_under_autocast_keeps_fp32_weights_and_casts_each():
    cast, plain = (graph_of("timm:resnet18", autocast=asked) for asked in (True, False))
    kept = [sum(s.num_bytes for s in g.storages if s.category == "parameter") for g in (cast, plain)]
    assert kept[0] == 2 * kept[1]
    casts = [n for n in cast.nodes if cast.operations[n.operation].name == "_to_copy"]
    assert len(casts) >= 20
    assert {o.compute_dtype.label for o in convolutions(cast)} == {"fp16"}


def test_channels_last_reaches_every_convolution():
    graph = graph_of("timm:resnet18", memory_format="channels_last")
    assert {o.attribute("memory_format") for o in convolutions(graph)} == {"channels_last"}
    assert {o.attribute("memory_format") for o in convolutions(graph_of("timm:resnet18"))} == {None}


def test_a_built_model_runs_on_real_tensors():
    program = build_timm_program("timm:resnet18", StepShape(mode="prefill", batch_size=1, image_size=32))
    output = program.module.eval()(*program.args)
    assert output.shape == (1, 1000)
    assert torch.isfinite(output).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:resnet51", "unknown timm model 'resnet51'. Did you mean .*resnet50"),
        ("timm:resnet50.a1_in2k", "unknown weights of timm:resnet50 'a1_in2k'. Did you mean a1_in1k"),
    ],
)
def test_unknown_names_list_close_ones(name: str, message: str):
    with pytest.raises(UnknownNameError, match=message):
        predict_memory(name, GPU)


def test_without_timm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match=r"pip install timm, or perfcast\[vision\]"):
        check_timm_name("timm:resnet50")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "decode", "sequence_length": 8}, "does not generate tokens"),
        ({"image_size": 0}, "image_size: 0 is not between"),
        ({"memory_format": "nhwc"}, "unknown memory format 'nhwc'"),
        ({"mode": "train", "autocast": True}, "autocast has no effect"),
        ({"dtype": "fp32", "mode": "prefill", "autocast": True}, "autocast casts to bf16 or fp16"),
    ],
)
def test_what_cannot_be_asked_is_an_error(options: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        predict_memory("timm:resnet18", GPU, **options)


def test_an_image_model_has_no_sizes_to_search_plans_with():
    with pytest.raises(ModelError, match="an image model has no sizes that plans are made of"):
        _ = read_model("timm:resnet18").sizes
    with pytest.raises(ModelError, match="an image model has no sizes"):
        read_model("timm:resnet18").sequence_length(None)
