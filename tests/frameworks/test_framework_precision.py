from __future__ import annotations

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.formats import CACHE_FORMATS, FORMATS
from perfcast.core.plan import Plan
from perfcast.core.precision import formats_of
from perfcast.core.training import Training
from perfcast.core.work import Call
from perfcast.errors import PlanError, UnknownNameError
from perfcast.frameworks.load import load_inference_profiles
from perfcast.frameworks.precision import check_training_format, refuse_cache_of_training, serving_precision
from perfcast.memory_use.footprint.serving import ServingSetting, serving_stages
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import predict_step
from perfcast.workload.blocks.step.serving import build_serving_work
from small_transformers import llama, term_of

TOKENS = 64


def test_vllm_and_sglang_keep_16_bits_beside_fp8_and_tensorrt_llm_fp8():
    kept = {name: serving_precision("fp8", name).cache_format for name in ("vllm", "sglang", "trtllm", None)}
    assert kept == {"vllm": "bf16", "sglang": "bf16", "trtllm": "fp8", None: "bf16"}
    assert serving_precision("bf16", "trtllm").cache_format == "bf16"
    assert serving_precision("fp8_block", "trtllm").cache_format == "bf16"


def test_a_cache_that_is_asked_for_is_kept_by_every_framework():
    for name in load_inference_profiles():
        assert serving_precision("bf16", name, "fp8").cache_format == "fp8"
        assert serving_precision("fp8", name, "bf16").cache_format == "bf16"
        assert serving_precision("fp8", name, "auto") == serving_precision("fp8", name)


def test_prompts_attend_in_fp8_where_tensorrt_llm_keeps_an_fp8_cache_beside_narrow_products():
    assert serving_precision("fp8", "trtllm").attends_in_cache_format
    assert not serving_precision("fp8", "trtllm", "bf16").attends_in_cache_format
    assert not serving_precision("bf16", "trtllm", "fp8").attends_in_cache_format
    assert not serving_precision("fp8", "vllm", "fp8").attends_in_cache_format


def test_what_is_not_quantised_stays_in_16_bits():
    assert serving_precision("nvfp4").outside == "bf16"
    assert serving_precision("tf32").outside == "tf32"
    assert serving_precision("tf32").element is DType.FP32


def test_unknown_names_are_errors():
    with pytest.raises(UnknownNameError, match="unknown dtype 'fp9'"):
        serving_precision("fp9")
    with pytest.raises(UnknownNameError, match="unknown dtype of the KV cache 'nf4'"):
        serving_precision("bf16", None, "nf4")
    with pytest.raises(UnknownNameError, match="unknown framework 'vlm'"):
        serving_precision("bf16", "vlm")
    with pytest.raises(PlanError, match="--kv-cache-dtype"):
        refuse_cache_of_training("fp8")


def test_a_framework_trains_in_the_formats_that_it_has():
    for dtype in ("fp8", "fp8_block", "mxfp8", "nvfp4"):
        check_training_format(Training(framework="megatron", dtype=dtype))
    check_training_format(Training(framework="fsdp", dtype="mxfp8"))
    with pytest.raises(PlanError, match=r"fsdp does not train in nvfp4 .*take --framework megatron"):
        check_training_format(Training(framework="fsdp", dtype="nvfp4"))
    with pytest.raises(PlanError, match="pytorch does not train in fp8"):
        check_training_format(Training(framework="pytorch", dtype="fp8"))


@pytest.mark.parametrize("cache", [None, *CACHE_FORMATS])
@pytest.mark.parametrize("dtype", list(FORMATS))
@pytest.mark.parametrize("framework", sorted(load_inference_profiles()))
def test_the_cache_that_is_read_is_the_cache_that_is_kept(framework: str, dtype: str, cache: str | None):
    """Of every token and layer, read by a decode step as many bytes as memory counts."""
    model, precision = llama(), serving_precision(dtype, framework, cache)
    work = build_serving_work(model, Plan(), precision, TOKENS, is_decode=True)
    (stage,) = serving_stages(ServingSetting(model, precision, TOKENS, True), Plan())
    kept = term_of(stage.peak, "keys and values")
    assert kept is not None
    layer = next(layer for layer in work.layers if layer.name == "layer")
    core = _call(layer.forward, "attention.core").operation
    heads = model.num_attention_heads * 2 * model.head_size
    read = core.memory_traffic_bytes - precision.element.bytes_of(heads)
    assert read * model.num_layers == kept.num_bytes


@pytest.mark.parametrize("dtype", list(FORMATS))
def test_the_weights_that_are_read_are_the_weights_that_are_kept(dtype: str):
    model, precision = llama(hidden_size=1024, ffn_hidden_size=2048, head_size=128), serving_precision(dtype)
    work = build_serving_work(model, Plan(), precision, TOKENS, is_decode=True)
    (stage,) = serving_stages(ServingSetting(model, precision, TOKENS, True), Plan())
    weights = term_of(stage.peak, "weights")
    assert weights is not None
    layer = next(layer for layer in work.layers if layer.name == "layer")
    products = [call.operation for call in layer.forward if call.operation.name == "mm"]
    form, width = precision.products, precision.element.bits
    read = 0.0
    for product in products:
        m, n, k = (int(str(product.attribute(name))) for name in ("m", "n", "k"))
        read += product.memory_traffic_bytes - form.activation.bytes_of(m * k) - form.output_bits / 8 * m * n
    outside = (2 * model.vocab_size * model.hidden_size + model.hidden_size) * width / 8
    norms = 2 * model.num_layers * model.hidden_size * precision.weight.bytes_per_element
    assert weights.num_bytes == pytest.approx(read * model.num_layers + outside + norms, rel=1e-4)


def test_fewer_bits_never_take_more_memory():
    model = llama(hidden_size=1024, ffn_hidden_size=2048, head_size=128)
    held = []
    for name in sorted(FORMATS, key=lambda name: -FORMATS[name].weight.bits):
        (stage,) = serving_stages(ServingSetting(model, serving_precision(name), TOKENS, True), Plan())
        held.append(stage.peak.num_bytes)
    assert held == sorted(held, reverse=True)


@pytest.mark.parametrize("framework", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("cluster", ["dgx-h100:2", "dgx-a100:2", "hgx-b200:2"])
def test_a_token_in_fewer_bits_never_takes_longer(framework: str, cluster: str):
    """Of a model whose weights are waited for, in every format that the device has."""
    plan, device = Plan(tensor_parallel=2), load_device(load_cluster(cluster).device)

    def seconds(dtype: str) -> float:
        request = PlanRequest(
            model="llama3-8b", cluster=cluster, plan=plan, mode="decode", dtype=dtype, framework=framework,
            sequence_length=1024, method="closed_form", recommendations=False, memory=False,
        )  # fmt: skip
        return predict_step(request).step_seconds

    wide = seconds("bf16")
    for name in ("fp8", "fp8_block", "mxfp8", "nvfp4", "int8", "int8_wo", "int4_wo"):
        if name in formats_of(device):
            assert seconds(name) <= wide


def _call(calls: tuple[Call, ...], module: str) -> Call:
    return next(call for call in calls if call.module == module)
