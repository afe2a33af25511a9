"""Each kind of table, one hand-made row at a time."""

from __future__ import annotations

from typing import Any

import hand_made as made
import numpy as np
import pytest
from hand_made import read, read_one

from perfcast.core.kernel import KernelFamily


def expect(stem: str, row: dict[str, Any], seconds: float, **columns: Any) -> None:
    """The row's only kernel takes so long, and has these columns among others."""
    kernel, measurements = read_one(stem, row)
    assert {name: kernel[name] for name in columns} == columns
    assert measurements.seconds[0] == pytest.approx(seconds)


# ---- NeuSight ----------------------------------------------------------------------------------------------


def test_the_contraction_of_neusight_is_n():
    expect("matmul_train", made.MATMUL, 2e-3, batch=1, m=100, k=300, n=200, operation="linear", layout="nt",
           dtype="fp32", framework="pytorch")  # fmt: skip
    expect("bmm_test", made.MATMUL | {"op": "bmm", "B": 7}, 2e-3, batch=7, operation="bmm", layout="nn")


@pytest.mark.parametrize(("op", "tensors"), [("add", 2), ("addu", 1), ("gelu", 1), ("softmax", 1), ("ln", 1)])
def test_a_binary_operation_reads_two_tensors_and_the_others_one(op: str, tensors: int):
    expect("vector_train", made.VECTOR | {"op": op}, 5e-4, num_rows=16, row_length=10,
           read_bytes=tensors * 640, written_bytes=640, operation=op)  # fmt: skip


def test_a_convolution_keeps_all_its_sizes():
    expect("convolution", made.CONVOLUTION, 5e-4, batch=8, c_in=3, c_out=4, groups=1,
           filter_height=3, filter_width=3, input_width=10, stride_width=1, padding_width=1, filter_depth=1,
           operation="convolution")  # fmt: skip


# ---- serving kernels ---------------------------------------------------------------------------------------


def test_a_wide_line_becomes_one_kernel_a_framework_on_the_device_of_the_file_name():
    (gemm,), rejected = read("gemm_h100_sxm", made.GEMM, made.GEMM | {"trtllm_ms": None})
    assert len(rejected) == 0
    order = np.lexsort((gemm.kernels.word("framework").astype(str), gemm.row))
    gemm = gemm.take(order)
    assert gemm.row.tolist() == [0, 0, 0, 1, 1]
    assert gemm.kernels.word("framework").tolist() == ["sglang", "trtllm", "vllm", "sglang", "vllm"]
    assert gemm.seconds == pytest.approx([1e-3, 2e-3, 3e-3, 1e-3, 3e-3])
    assert set(gemm.device) == {"h100_sxm"}
    assert set(gemm.catalog_device) == {"h100-sxm"}
    assert set(gemm.kernels.word("dtype")) == {"bf16"}
    assert gemm.kernels.size("k").tolist() == [30] * 5


def test_a_file_of_one_framework_is_enough():
    row = {name: made.GEMM[name] for name in ("dtype", "m", "n", "k", "vllm_ms")}
    expect("gemm_b60", row, 3e-3, framework="vllm", m=10, n=20, layout="nt")


def test_a_line_that_no_framework_timed_is_incomplete():
    _, rejected = read("gemm_b60", made.GEMM | {"sglang_ms": None, "trtllm_ms": None, "vllm_ms": None})
    assert rejected.reason.tolist() == ["incomplete: seconds"]


def test_a_prefill_sees_the_cached_tokens_and_its_own():
    expect("attention_context_h100_sxm", made.ATTENTION, 5e-4, batch=2, num_queries=16, num_keys=64,
           num_heads=8, num_kv_heads=4, head_size=64, value_head_size=64, window=0, causal=1,
           operation="context", dtype="bf16", kv_dtype="fp8", framework="trtllm")  # fmt: skip


def test_a_decode_step_has_one_query_and_masks_nothing():
    expect("attention_generation_h100_sxm", made.ATTENTION | {"isl": 1, "window_size": 128}, 5e-4,
           num_queries=1, num_keys=49, window=128, causal=0, operation="generation")  # fmt: skip


def test_an_encoder_attends_to_everything_with_a_key_head_for_each_head():
    expect("attention_encoder", made.ENCODER, 5e-4, num_queries=16, num_keys=16, num_kv_heads=8, head_size=72,
           causal=0, operation="encoder", kv_dtype="bf16")  # fmt: skip


def test_latent_attention_is_expanded_in_prefill_and_absorbed_in_decoding():
    expect("mla_context", made.MLA | {"isl": 16}, 5e-4, num_queries=16, num_keys=115, num_heads=16,
           num_kv_heads=16, head_size=192, value_head_size=128, causal=1,
           operation="mla_context")  # fmt: skip
    expect("mla_generation", made.MLA, 5e-4, num_queries=1, num_keys=100, num_heads=16, num_kv_heads=1,
           head_size=576, value_head_size=512, causal=0, operation="mla_generation")  # fmt: skip


def test_products_around_absorbed_attention_lead_into_the_latent_and_out_of_it():
    expect("mla_bmm", made.MLA_BMM, 5e-4, batch=16, m=7, k=128, n=512, dtype="fp8", operation="mla_gen_pre")
    expect("mla_bmm", made.MLA_BMM | {"op_name": "mla_gen_post"}, 5e-4, k=512, n=128)


def test_experts_keep_the_whole_models_sizes_beside_the_split():
    expect("moe_b300_sxm", made.MOE, 2.5e-4, num_tokens=64, hidden_size=512, inter_size=256,
           experts_per_token=2, num_experts=8, tensor_parallel=2, expert_parallel=4, operation="moe",
           distribution="balanced", dtype="nvfp4", framework="trtllm")  # fmt: skip


def test_both_kinds_of_scan_speak_both_vocabularies():
    expect("gdn", made.GDN, 2.5e-4, batch=2, sequence_length=64, num_key_heads=8, key_head_size=128,
           num_value_heads=16, value_head_size=64, state_size=128, num_groups=8, chunk_size=0,
           operation="chunk_gated_delta_rule", phase="context")  # fmt: skip
    expect("mamba2", made.MAMBA2, 2.5e-4, num_key_heads=8, key_head_size=128, num_value_heads=64,
           value_head_size=32, state_size=128, num_groups=8, chunk_size=256, phase="generation")  # fmt: skip


def test_quantising_reads_two_bytes_an_element_and_writes_a_scale_or_one_byte():
    expect("quant_compute_scale", made.QUANTIZATION, 2.5e-4, num_rows=6, row_length=32, read_bytes=384,
           written_bytes=4, operation="quant_compute_scale", dtype="fp8")  # fmt: skip
    expect("quant_scale_matrix", made.QUANTIZATION, 2.5e-4, read_bytes=384, written_bytes=192)


# ---- Vidur: 8 heads of 128, 2 of them with keys, feed-forward 4096, 10 tokens, two workers ---------------


@pytest.mark.parametrize(
    ("op", "n", "k"),
    [
        ("attn_pre_proj", (8 + 2 + 2) * 128 / 2, 1024),
        ("attn_post_proj", 1024, 512),
        ("mlp_up_proj", 2 * 4096 / 2, 1024),
        ("mlp_down_proj", 1024, 2048),
    ],
)
def test_products_of_a_layer_are_split_over_the_workers(op: str, n: float, k: float):
    expect("vidur_mlp_ops_fp16", made.VIDUR | {"op": op}, 2.5e-4, batch=1, m=10, n=n, k=k, operation="linear",
           layout="nt", dtype="fp16")  # fmt: skip


@pytest.mark.parametrize(
    ("op", "operation", "row_length", "read_elements", "written_elements"),
    [
        ("add", "add", 1024, 2048, 1024),
        ("emb", "embedding", 1024, 1024, 1024),
        ("input_layernorm", "rms_norm", 1024, 1024, 1024),
        ("post_attention_layernorm", "rms_norm", 1024, 1024, 1024),
        ("attn_rope", "rope", (8 + 2) * 128 / 2, 640, 640),
        ("mlp_act", "silu_mul", 2048, 4096, 2048),
    ],
)
def test_rows_of_a_layer_move_two_bytes_an_element(
    op: str, operation: str, row_length: float, read_elements: float, written_elements: float
):
    expect("vidur_mlp_ops_fp16", made.VIDUR | {"op": op}, 2.5e-4, num_rows=10, row_length=row_length,
           read_bytes=20 * read_elements, written_bytes=20 * written_elements,
           operation=operation)  # fmt: skip


def test_a_layer_without_a_gate_is_half_as_wide_and_has_layer_norms():
    plain = made.VIDUR | {"use_gated_mlp": False}
    expect("vidur_mlp_ops_fp16", plain | {"op": "mlp_up_proj"}, 2.5e-4, n=2048)
    expect("vidur_mlp_ops_fp16", plain | {"op": "mlp_act"}, 2.5e-4, read_bytes=20 * 2048, operation="gelu")
    expect("vidur_mlp_ops_fp16", plain | {"op": "input_layernorm"}, 2.5e-4, operation="ln")


def test_a_table_of_two_families_gives_two_parts():
    parts, rejected = read("vidur_mlp_ops_fp16", made.VIDUR, made.VIDUR | {"op": "add"})
    assert [part.kernels.family for part in parts] == [KernelFamily.PRODUCT, KernelFamily.ROWS]
    assert [part.row.tolist() for part in parts] == [[0], [1]]
    assert len(rejected) == 0


# ---- AITER -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quant", "weights", "dtype"),
    [
        ("bf16", None, "bf16"),
        ("a8w8", "torch.float8_e4m3fn", "fp8"),
        ("a8w8", "torch.int8", "int8"),
        ("a8w8_blockscale", None, "fp8_block"),
        ("a8w8_bpreshuffle", None, "fp8"),
        ("a4w4", None, "mxfp4"),
    ],
)
def test_the_format_of_a_tuned_product(quant: str, weights: str | None, dtype: str):
    row = made.AITER_GEMM | {"quant": quant, "q_dtype_w": weights}
    expect("aiter_gemm_amd", row, 4e-5, batch=1, m=10, n=20, k=30, dtype=dtype, framework="aiter")


@pytest.mark.parametrize(
    ("activations", "weights", "scaling", "dtype"),
    [
        ("float8_e4m3fnuz", "float8_e4m3fnuz", "per_1x128", "fp8_block"),
        ("float8_e4m3fn", "float8_e4m3fn", "per_Token", "fp8_token"),
        ("float4_e2m1fn_x2", "float4_e2m1fn_x2", "per_1x32", "mxfp4"),
        ("float8_e4m3fn", "float4_e2m1fn_x2", "per_1x32", "w4a8_mxfp4_mxfp8"),
        ("bfloat16", "int4", "per_1x32", "int4_wo"),
    ],
)
def test_the_format_of_tuned_experts(activations: str, weights: str, scaling: str, dtype: str):
    row = made.AITER_MOE | {
        "q_dtype_a": f"torch.{activations}",
        "q_dtype_w": f"torch.{weights}",
        "q_type": f"QuantType.{scaling}",
    }
    expect(
        "aiter_fused_moe_amd", row, 4e-5, num_tokens=64, experts_per_token=2, tensor_parallel=1, dtype=dtype
    )


def test_a_target_that_contradicts_the_device_leaves_it_unknown():
    _, rejected = read("aiter_gemm_amd", made.AITER_GEMM | {"gfx": "gfx1250"})
    assert rejected.reason.tolist() == ["unknown device"]


# ---- SimuMax and LLMCompass --------------------------------------------------------------------------------


@pytest.mark.parametrize(("theirs", "ours"), [("TN", "nt"), ("NN", "nn"), ("NT", "tn")])
def test_a_rate_becomes_a_time_and_a_column_major_layout_a_row_major_one(theirs: str, ours: str):
    row = made.SIMUMAX | {"shape": str(made.SIMUMAX["shape"]).replace("TN", theirs)}
    expect("simumax_op_efficiency", row, 12e9 / 2e12, batch=1, m=1000, n=2000, k=3000, layout=ours,
           operation="linear", dtype="bf16")  # fmt: skip


def test_a_gradient_that_accumulates_is_another_operation():
    shape = "b=1, m=10, k=30, n=20, layout=NT, accumulate=True, out_dtype=fp32"
    expect("simumax_op_efficiency", made.SIMUMAX | {"shape": shape}, 6e-9, operation="linear_into_fp32")


@pytest.mark.parametrize(
    ("stage", "m", "n", "k", "layout"),
    [("fwd", 154, 30, 50, "nt"), ("bwd_grad_act", 154, 50, 30, "nn"), ("bwd_grad_w", 30, 50, 154, "tn")],
)
def test_every_stage_of_a_grouped_product_is_written_with_the_forward_sizes(
    stage: str, m: int, n: int, k: int, layout: str
):
    accumulate = stage == "bwd_grad_w"
    shape = (
        f"ng=4, M=154, N=30, K=50, dtype=bf16, out_dtype=bf16, main_grad_dtype=fp32, stage={stage}, "
        f"grad=True, accumulate={accumulate}, use_split_accumulator=True, single_output=False"
    )
    expect("simumax_op_efficiency", made.SIMUMAX | {"op": "group_matmul", "shape": shape},
           2 * 4 * 154 * 30 * 50 / 2e12, batch=4, m=m, n=n, k=k, layout=layout,
           operation="grouped_into_fp32" if accumulate else "grouped")  # fmt: skip


@pytest.mark.parametrize(
    ("op", "operation", "products"), [("sdp_fwd", "context", 2), ("sdp_bwd", "context_backward", 5)]
)
def test_the_rate_of_attention_counts_the_whole_square(op: str, operation: str, products: int):
    shape = (
        "batch=2, seq_len=100, head_num=8, kv_head_num=4, qk_head_dim=192, v_head_dim=128, contiguous=True"
    )
    expect("simumax_op_efficiency", made.SIMUMAX | {"op": op, "shape": shape},
           products * 2 * 8 * 100**2 * (192 + 128) / 2e12, batch=2, num_queries=100, num_keys=100,
           num_heads=8, num_kv_heads=4, head_size=192, value_head_size=128, causal=1,
           operation=operation)  # fmt: skip


def test_a_shape_that_cannot_be_read_is_incomplete():
    _, rejected = read("simumax_op_efficiency", made.SIMUMAX | {"shape": "m=10, k=30, layout=TN"})
    assert rejected.reason[0].startswith("incomplete: ")


def test_llmcompass_times_products_and_rates_rows():
    expect("llmcompass_ops_fp16", made.LLMCOMPASS, 2.5e-4, m=10, k=30, n=20, dtype="fp16", operation="linear")
    rows = made.LLMCOMPASS | {"latency_ms": None, "throughput_gelem_per_s": 3.0, "d2": None}
    expect("llmcompass_ops_fp16", rows | {"op": "layernorm"}, 300 / 3e9, num_rows=10, row_length=30,
           read_bytes=600, written_bytes=600, operation="ln")  # fmt: skip
    expect("llmcompass_ops_fp16", rows | {"op": "gelu", "d1": None}, 10 / 3e9, num_rows=1, row_length=10)
