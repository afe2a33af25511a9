"""Hand-made tables, one of each kind; each value of a row can be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.measurements import Measurements, Rejected, tidy
from perfcast.evidence.dataset.table import RawTable

MATMUL = {"op": "linear", "latency_ms": 2.0, "device": "Tesla T4", "kernel_name": "sgemm", "grid_x": 8,
          "B": 1, "M": 100, "N": 300, "K": 200}  # fmt: skip
VECTOR = {"op": "add", "latency_ms": 0.5, "device": "Tesla T4", "grid_x": 8, "B": 16, "H": 10}
CONVOLUTION = {"op": "conv", "latency_ms": 0.5, "device": "Tesla T4", "B": 8, "Input_Channel": 3,
               "Output_Channel": 4, "Kernel_Size": 3, "Input_Size": 10, "Stride": 1,
               "Padding": 1}  # fmt: skip
GEMM = {"dtype": "bfloat16", "m": 10, "n": 20, "k": 30, "sglang_ms": 1.0, "trtllm_ms": 2.0, "vllm_ms": 3.0,
        "n_obs": 2, "min_ms": 0.5, "max_ms": 3.5}  # fmt: skip
ATTENTION = {"attn_dtype": "bfloat16", "kv_cache_dtype": "fp8", "batch_size": 2, "isl": 16, "num_heads": 8,
             "num_key_value_heads": 4, "head_dim": 64, "window_size": 0, "step": 48, "framework": "trtllm",
             "median_ms": 0.5, "min_ms": 0.4, "max_ms": 0.6, "n_obs": 3}  # fmt: skip
ENCODER = {"gpu": "l40s", "attn_dtype": "bfloat16", "batch_size": 2, "isl": 16, "num_heads": 8,
           "head_dim": 72, "framework": "vllm", "median_ms": 0.5}  # fmt: skip
MLA = {"gpu": "h100_sxm", "op_name": "mla", "mla_dtype": "bfloat16", "kv_cache_dtype": "fp8", "num_heads": 16,
       "batch_size": 4, "isl": 1, "tp_size": 8, "step": 99, "framework": "sglang",
       "median_ms": 0.5}  # fmt: skip
MLA_BMM = {"gpu": "h100_sxm", "op_name": "mla_gen_pre", "bmm_dtype": "fp8", "num_tokens": 7, "num_heads": 16,
           "framework": "sglang", "median_ms": 0.5}  # fmt: skip
MOE = {"moe_dtype": "nvfp4", "num_tokens": 64, "hidden_size": 512, "inter_size": 256, "topk": 2,
       "num_experts": 8, "moe_tp_size": 2, "moe_ep_size": 4, "distribution": "balanced",
       "framework": "trtllm", "median_ms": 0.25}  # fmt: skip
GDN = {"gpu": "b200_sxm", "phase": "context", "batch_size": 2, "seq_len": 64, "num_tokens": 128,
       "d_model": 2048, "d_conv": 4, "num_k_heads": 8, "head_k_dim": 128, "num_v_heads": 16,
       "head_v_dim": 64, "kernel_source": "chunk_gated_delta_rule", "framework": "vllm",
       "median_ms": 0.25}  # fmt: skip
MAMBA2 = {"gpu": "b200_sxm", "phase": "generation", "batch_size": 2, "seq_len": 1, "num_tokens": 2,
          "d_model": 2048, "d_state": 128, "d_conv": 4, "nheads": 64, "head_dim": 32, "n_groups": 8,
          "chunk_size": 256, "kernel_source": "causal_conv1d_update", "framework": "trtllm",
          "median_ms": 0.25}  # fmt: skip
QUANTIZATION = {
    "gpu": "l40s",
    "quant_dtype": "fp8",
    "m": 6,
    "k": 32,
    "framework": "trtllm",
    "median_ms": 0.25,
}
VIDUR = {"gpu": "a100", "model": "some/llama", "op": "attn_pre_proj", "num_tokens": 10,
         "num_tensor_parallel_workers": 2, "n_head": 8, "n_kv_head": 2, "n_embd": 1024,
         "n_expanded_embd": 4096, "vocab_size": 32000, "use_gated_mlp": True, "median_ms": 0.25}  # fmt: skip
AITER_GEMM = {"gpu": "MI300X/MI325X (gfx942, 304 CU)", "gfx": "gfx942", "quant": "a8w8_blockscale", "M": 10,
              "N": 20, "K": 30, "q_dtype_w": None, "us": 40.0}  # fmt: skip
AITER_MOE = {"gpu": "MI300X/MI325X (gfx942, 304 CU)", "gfx": None, "token": 64, "model_dim": 512,
             "inter_dim": 256, "expert": 8, "topk": 2, "q_dtype_a": "torch.bfloat16",
             "q_dtype_w": "torch.bfloat16", "q_type": "QuantType.No", "us": 40.0}  # fmt: skip
SIMUMAX = {"gpu": "B200-SXM", "op": "matmul", "achieved_tflops": 2.0, "efficiency": 0.5,
           "shape": "b=1, m=1000, k=3000, n=2000, layout=TN, accumulate=False, out_dtype=bf16"}  # fmt: skip
LLMCOMPASS = {"op": "matmul", "gpu": "A100", "dtype": "fp16", "d0": 10, "d1": 30, "d2": 20,
              "latency_ms": 0.25, "tflops": 1.0, "throughput_gelem_per_s": None}  # fmt: skip

#: Stem → a row of the table, and its columns that are measured.
KINDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "matmul_train": (MATMUL, ("latency_ms", "kernel_name", "grid_x")),
    "linear_test": (MATMUL, ("latency_ms", "kernel_name", "grid_x")),
    "bmm_test": (MATMUL | {"op": "bmm"}, ("latency_ms", "kernel_name", "grid_x")),
    "vector_train": (VECTOR, ("latency_ms", "grid_x")),
    "elem_test": (VECTOR, ("latency_ms", "grid_x")),
    "softmax_test": (VECTOR | {"op": "softmax"}, ("latency_ms", "grid_x")),
    "ln_test": (VECTOR | {"op": "ln"}, ("latency_ms", "grid_x")),
    "convolution": (CONVOLUTION, ("latency_ms",)),
    "gemm_b60": (GEMM, ("sglang_ms", "trtllm_ms", "vllm_ms", "n_obs", "min_ms", "max_ms")),
    "attention_context_gb300": (ATTENTION, ("median_ms", "min_ms", "max_ms", "n_obs")),
    "attention_generation_l40s": (ATTENTION | {"isl": 1}, ("median_ms", "min_ms", "max_ms", "n_obs")),
    "attention_encoder": (ENCODER, ("median_ms",)),
    "mla_context": (MLA | {"isl": 16}, ("median_ms",)),
    "mla_generation": (MLA, ("median_ms",)),
    "mla_bmm": (MLA_BMM, ("median_ms",)),
    "moe_b300_sxm": (MOE, ("median_ms",)),
    "gdn": (GDN, ("median_ms",)),
    "mamba2": (MAMBA2, ("median_ms",)),
    "quant_compute_scale": (QUANTIZATION, ("median_ms",)),
    "quant_scale_matrix": (QUANTIZATION, ("median_ms",)),
    "vidur_mlp_ops_fp16": (VIDUR, ("median_ms",)),
    "aiter_gemm_amd": (AITER_GEMM, ("us",)),
    "aiter_fused_moe_amd": (AITER_MOE, ("us",)),
    "simumax_op_efficiency": (SIMUMAX, ("achieved_tflops", "efficiency")),
    "llmcompass_ops_fp16": (LLMCOMPASS, ("latency_ms", "tflops")),
}

CATALOG = {
    "Tesla_T4": "t4", "Tesla_P4": "p4", "h100_sxm": "h100-sxm", "b200_sxm": "b200", "l40s": "l40s",
    "a100": "a100-sxm-80gb", "gb300": "gb300",
}  # fmt: skip


def table(stem: str, *rows: dict[str, Any]) -> RawTable:
    """A table of rows with equal columns."""
    return RawTable(stem, Path(f"{stem}.csv"), pl.DataFrame(list(rows), infer_schema_length=None))


def read(stem: str, *rows: dict[str, Any]) -> tuple[list[Measurements], Rejected]:
    return tidy(table(stem, *rows), CATALOG.get)


def read_one(stem: str, row: dict[str, Any]) -> tuple[dict[str, Any], Measurements]:
    """The configuration of a table's only kernel, and the kernel."""
    (measurements,), rejected = read(stem, row)
    assert len(rejected) == 0
    assert len(measurements) == 1
    return {name: column[0] for name, column in measurements.kernels.columns.items()}, measurements


def family_of(stem: str, row: dict[str, Any]) -> KernelFamily:
    return read_one(stem, row)[1].kernels.family
