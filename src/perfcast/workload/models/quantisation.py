"""The format of a checkpoint's weights, from the ``quantization_config`` of its config.json.

Methods and keys as the programs write them: fp8 (transformers: FineGrainedFP8Config; DeepSeek-V3),
compressed-tensors (vllm-project/compressed-tensors: QuantizationConfig), modelopt (NVIDIA Model Optimizer:
hf_quant_config.json), awq and gptq (transformers: AwqConfig, GPTQConfig), bitsandbytes (BitsAndBytesConfig),
mxfp4 (transformers: Mxfp4Config; gpt-oss).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perfcast.core.precision import PARTS, Part, join_parts
from perfcast.errors import ModelError

Table = Mapping[str, Any]


def quantised_format(quantisation: Table) -> str:
    """A name of ``core.formats``, with the parts of a layer that stay wide (``core.precision.split_parts``).

    Parts stay so by the modules that a checkpoint leaves out, wherever all of attention's weights, or one of
    its products', are among them; a single product of attention that is narrow is taken as the others.

    Raises:
        ModelError: A method that is not known, or bits that it does not have.
    """
    method = str(quantisation.get("quant_method", "")).lower()
    if method not in _METHODS:
        known = ", ".join(_METHODS)
        raise ModelError(f"quantised by '{method or 'no method'}', which is not known; known: {known}")
    found = _METHODS[method](quantisation)
    if found is None:
        raise ModelError(f"quantised by '{method}' in a way that is not known")
    return join_parts(found, dict.fromkeys(_wide_parts(method, quantisation), "bf16"))


#: transformers: modules_to_not_convert; compressed-tensors: ignore; modelopt: exclude_modules.
_LEFT_OUT = ("modules_to_not_convert", "ignore", "exclude_modules")
_OF_ATTENTION = re.compile(r"self_attn(\.(q|k|v|qkv|kv)(_[ab])?_proj(_with_mqa)?)?[.*]*$")
_OF_SHARED = re.compile(r"shared_experts?[.*]*$")


def _wide_parts(method: str, table: Table) -> tuple[Part, ...]:
    """What is left out; mxfp4 is of experts alone (vLLM: layers/quantization/mxfp4.py, get_quant_method)."""
    if method == "mxfp4":
        return PARTS
    inner = table.get("quantization")
    tables = (table, inner) if isinstance(inner, Mapping) else (table,)
    names = [str(name) for each in tables for key in _LEFT_OUT for name in each.get(key) or ()]
    found: list[Part] = []
    if any(_OF_ATTENTION.search(name) for name in names):
        found.append("attention")
    if any(_OF_SHARED.search(name) for name in names):
        found.append("mlp")
    return tuple(found)


def _fp8(table: Table) -> str | None:
    if table.get("weight_block_size"):
        return "fp8_block"
    return "fp8_static" if table.get("activation_scheme") == "static" else "fp8"


def _fbgemm(_: Table) -> str | None:
    return "fp8_token"


def _weights_only(table: Table) -> str | None:
    return _OF_BITS.get(table.get("bits") or table.get("w_bit") or 0)


_OF_BITS = {4: "int4_wo", 8: "int8_wo"}


def _bitsandbytes(table: Table) -> str | None:
    if table.get("load_in_4bit") or table.get("_load_in_4bit"):
        return "int4_wo"
    return "int8" if table.get("load_in_8bit") or table.get("_load_in_8bit") else None


def _mxfp4(_: Table) -> str | None:
    return "w4a16_mxfp4"


def _modelopt(table: Table) -> str | None:
    inner = table.get("quantization")
    name = str(table.get("quant_algo") or (inner or {}).get("quant_algo", "")).upper()
    return {
        "FP8": "fp8_static", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_token", "FP8_PB_WO": "fp8_block",
        "NVFP4": "nvfp4", "W4A16_AWQ": "int4_wo", "W4A8_AWQ": "w4afp8", "INT8_SQ": "sq",
        "W8A16": "int8_wo",
    }.get(name)  # fmt: skip


def _compressed(table: Table) -> str | None:
    """By the first group of layers; formats of further ones are those of few layers."""
    groups = table.get("config_groups")
    group: Table = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    bits, is_float = weights.get("num_bits"), weights.get("type") == "float"
    if not inputs and is_float:
        return "w4a16_mxfp4" if bits == 4 and weights.get("group_size") == 32 else None
    if not inputs:
        is_fine = bits == 4 and weights.get("group_size") == 32
        return "int4_wo_g32" if is_fine else _OF_BITS.get(bits or 0)
    if bits == 4:
        return "nvfp4" if is_float else ("w4afp8" if inputs.get("type") == "float" else None)
    if bits != 8:
        return None
    if not is_float:
        return "int8"
    if weights.get("strategy") == "block":
        return "fp8_block"
    if inputs.get("strategy") == "token":
        return "fp8_token"
    return "fp8" if inputs.get("dynamic") else "fp8_static"


_METHODS: Mapping[str, Callable[[Table], str | None]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "awq": _weights_only,
    "gptq": _weights_only,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
}
