"""Which program a forecast is of."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction.model import read_model
from perfcast.prediction.program import choose_program, program_of
from perfcast.prediction.request.plan import PlanRequest
from small_transformers import llama

GPT2, RESNET, BERT = read_model("gpt2"), read_model("resnet-50"), read_model("bert-base")


def test_a_training_on_one_device_is_the_models_own_modules():
    found = choose_program(GPT2, "train")
    assert (found.framework, found.is_captured, found.is_compiled) == ("pytorch", True, False)
    assert "eagerly by PyTorch" in found.what
    assert "--compile" in found.instead
    assert "--framework megatron" in found.instead


@pytest.mark.parametrize(
    ("plan", "framework"),
    [
        (Plan(data_parallel=8), "pytorch"),
        (Plan(data_parallel=8, zero_stage=3), "fsdp"),
        (Plan(data_parallel=8, zero_stage=1), "deepspeed"),
        (Plan(tensor_parallel=8), "megatron"),
    ],
)
def test_a_plan_suggests_its_framework_and_pytorch_alone_is_captured(plan: Plan, framework: str):
    found = choose_program(GPT2, "train", plan)
    assert (found.framework, found.is_captured) == (framework, framework == "pytorch")


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_a_transformer_that_generates_is_served_and_what_does_not_is_run_by_pytorch(mode):
    served = choose_program(GPT2, mode)
    assert (served.framework, served.is_captured) == ("vllm", False)
    assert "--framework pytorch" in served.instead
    assert choose_program(GPT2, mode, framework="pytorch").is_captured
    assert choose_program(BERT, "prefill").framework == "pytorch"
    assert choose_program(RESNET, "prefill").framework == "pytorch"


def test_the_local_processor_runs_eager_modules_alone():
    assert choose_program(GPT2, "decode", is_local=True).is_captured
    with pytest.raises(PlanError, match="own modules alone"):
        choose_program(GPT2, "decode", framework="vllm", is_local=True)


def test_sizes_alone_have_no_modules_to_capture():
    found = choose_program(read_model(llama()), "train")
    assert (found.framework, found.is_captured, found.instead) == ("pytorch", False, "")


def test_compiled_modules_say_so_and_fused_kernels_refuse():
    found = choose_program(GPT2, "train", compiles=True)
    assert found.is_compiled
    assert "torch.compile" in found.what
    with pytest.raises(PlanError, match=r"Megatron-LM's kernels are fused as they are.*--framework pytorch"):
        choose_program(GPT2, "train", framework="megatron", compiles=True)


def test_frameworks_that_do_something_else_are_errors_that_say_so():
    with pytest.raises(UnknownNameError, match="vllm serves only"):
        choose_program(GPT2, "train", framework="vllm")
    with pytest.raises(UnknownNameError, match="fsdp trains only"):
        choose_program(GPT2, "decode", framework="fsdp")
    with pytest.raises(UnknownNameError, match="Did you mean sglang"):
        choose_program(GPT2, "train", framework="sglan")
    with pytest.raises(PlanError, match="runs as its own modules"):
        choose_program(RESNET, "prefill", framework="vllm")


def test_two_frameworks_in_one_request_contradict():
    request = PlanRequest(
        model="gpt2", cluster="dgx-h100:8", plan=Plan(data_parallel=8), framework="fsdp",
        training=Training(framework="megatron"),
    )  # fmt: skip
    from perfcast.catalogs.devices import load_device

    with pytest.raises(PlanError, match="framework fsdp, but a training by megatron"):
        program_of(request, GPT2, load_device("h100-sxm"))
