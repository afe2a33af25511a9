"""The format of a checkpoint, from its quantization_config."""

from __future__ import annotations

from typing import Any

import pytest

from perfcast.catalogs.models import load_model
from perfcast.core.formats import FORMATS
from perfcast.errors import ModelError
from perfcast.workload.models.quantisation import quantised_format


def group(weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    groups = {"group_0": {"weights": weights, "input_activations": inputs}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


EIGHT, FOUR = {"num_bits": 8, "type": "float"}, {"num_bits": 4, "type": "int"}
BY_TOKEN = {"num_bits": 8, "strategy": "token", "dynamic": True}
CASES = [
    # DeepSeek-V3, Qwen3-*-FP8
    ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "fp8_block"),
    ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_static"),
    ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
    ({"quant_method": "fbgemm_fp8"}, "fp8_token"),  # Llama-3.1-405B-FP8
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4_wo"),
    ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4_wo"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8_static"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    (group({**EIGHT, "strategy": "channel"}, BY_TOKEN), "fp8_token"),
    (group({**EIGHT, "strategy": "tensor"}, {"num_bits": 8, "dynamic": False}), "fp8_static"),
    (group({**EIGHT, "strategy": "block"}, {"num_bits": 8, "strategy": "group"}), "fp8_block"),
    (group({"num_bits": 8, "type": "int"}, {"num_bits": 8}), "int8"),
    (group(FOUR), "int4_wo"),
    (group({"num_bits": 4, "type": "float"}, {"num_bits": 4}), "nvfp4"),
]


@pytest.mark.parametrize(("table", "name"), CASES)
def test_each_method_is_a_format_that_is_priced(table: dict[str, Any], name: str):
    assert quantised_format(table) == name
    assert name in FORMATS


@pytest.mark.parametrize("table", [{}, {"quant_method": "aqlm"}, {"quant_method": "gptq", "bits": 3}])
def test_what_is_not_known_is_an_error(table: dict[str, Any]):
    with pytest.raises(ModelError, match="not known"):
        quantised_format(table)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("deepseek-r1", "fp8_block"),
        ("minimax-m2.5", "fp8_block"),
        ("glm-5", "fp8_block"),
        ("gpt-oss-120b", "w4a16_mxfp4+attention=bf16+mlp=bf16"),
        ("kimi-k2.5", "int4_wo_g32+attention=bf16+mlp=bf16"),
        ("deepseek-r1-nvfp4", "nvfp4+attention=bf16"),
        ("kimi-k2.5-nvfp4", "nvfp4+attention=bf16+mlp=bf16"),
        ("minimax-m2.5-nvfp4", "nvfp4+attention=bf16"),
        ("glm-5-nvfp4", "nvfp4+attention=bf16"),
        ("qwen3-235b-a22b-nvfp4", "nvfp4"),
        ("qwen3.5-397b-a17b-nvfp4", "nvfp4+attention=bf16+mlp=bf16"),
    ],
)
def test_checkpoints_of_served_models_keep_parts_wide_as_their_configs_say(name: str, dtype: str):
    table = load_model(name).config["quantization_config"]
    assert quantised_format(table) == dtype


@pytest.mark.parametrize(
    ("left_out", "dtype"),
    [
        (["lm_head"], "nvfp4"),
        (["lm_head", "model.layers.0.self_attn*"], "nvfp4+attention=bf16"),
        (["model.layers.3.self_attn.q_a_proj", "model.layers.3.self_attn.kv_b_proj"], "nvfp4+attention=bf16"),
        (["model.layers.3.self_attn.indexers_proj", "model.layers.3.self_attn.q_a_layernorm"], "nvfp4"),
        (["*.mlp.shared_expert.*", "model.layers.1.mlp.shared_expert_gate"], "nvfp4+mlp=bf16"),
        (["model.layers.1.mlp.shared_expert_gate"], "nvfp4"),
    ],
)
def test_modules_that_a_checkpoint_leaves_out_say_which_parts_stay_wide(left_out: list[str], dtype: str):
    table = {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "exclude_modules": left_out}}
    assert quantised_format(table) == dtype
