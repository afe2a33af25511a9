"""The format of a checkpoint, from its quantization_config."""

from __future__ import annotations

from typing import Any

import pytest

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
    ({"quant_method": "mxfp4"}, "w4a16_mxfp4"),  # gpt-oss
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
