"""Tables of AITER (github ROCm/aiter): the best kernel that tuning found on AMD devices.

Each time is a lower bound for what a framework reaches. The column ``gfx`` names the target that a row was
tuned for; where it contradicts the device, the device is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import MICRO

_MEASURED = pl.col("us") * MICRO
_GEMM_FORMATS: Mapping[str, str] = {
    "bf16": "bf16", "a8w8": "fp8", "a8w8_blockscale": "fp8_block", "a8w8_bpreshuffle": "fp8", "a4w4": "mxfp4",
}  # fmt: skip

#: (activations, weights, scaling) of the fused experts → format.
_EXPERT_FORMATS: Mapping[tuple[str, str, str], str] = {
    ("bfloat16", "bfloat16", "No"): "bf16",
    ("bfloat16", "int4", "per_1x32"): "int4_wo",
    ("bfloat16", "float4", "per_1x32"): "w4a16_mxfp4",
    ("float8", "float4", "per_1x32"): "w4a8_mxfp4_mxfp8",
    ("float4", "float4", "per_1x32"): "mxfp4",
    ("float8", "float8", "per_1x128"): "fp8_block",
    ("float8", "float8", "per_1x32"): "fp8_block",
    ("float8", "float8", "per_Token"): "fp8_token",
    ("float8", "float8", "per_Tensor"): "fp8",
    ("int8", "int8", "per_Tensor"): "int8",
    ("int8", "int8", "per_Token"): "int8",
}


def _with_sure_device(frame: pl.DataFrame) -> pl.DataFrame:
    agrees = pl.col("gfx").is_null() | pl.col("device").str.contains(pl.col("gfx"), literal=True)
    return frame.with_columns(pl.when(agrees).then(pl.col("device")).alias("device"))


def _element(column: str) -> pl.Expr:
    """'torch.float8_e4m3fnuz' → 'float8'."""
    return pl.col(column).str.strip_prefix("torch.").str.split("_").list.first()


def _read_gemm(frame: pl.DataFrame) -> list[Draft]:
    """Single products; how many a batched one multiplied, the table does not say."""
    single = frame.filter(~pl.col("source_path").str.contains("batched").fill_null(False))
    dtype = (
        pl.when(pl.col("q_dtype_w") == "torch.int8")
        .then(pl.lit("int8"))
        .otherwise(pl.col("quant").replace_strict(_GEMM_FORMATS, default=None, return_dtype=pl.String))
    )
    return [
        draft(
            KernelFamily.PRODUCT,
            _with_sure_device(single),
            _MEASURED,
            batch=1, m=pl.col("M"), n=pl.col("N"), k=pl.col("K"),
            operation="linear", layout="nt", dtype=dtype, framework="aiter",
        )
    ]  # fmt: skip


def _read_experts(frame: pl.DataFrame) -> list[Draft]:
    """Tuned on random, even routing over all experts of the file, on one device."""
    scaling = pl.col("q_type").str.strip_prefix("QuantType.")
    key = pl.concat_str(_element("q_dtype_a"), _element("q_dtype_w"), scaling, separator="/")
    formats = {"/".join(parts): name for parts, name in _EXPERT_FORMATS.items()}
    return [
        draft(
            KernelFamily.EXPERTS,
            _with_sure_device(frame),
            _MEASURED,
            num_tokens=pl.col("token"),
            hidden_size=pl.col("model_dim"),
            inter_size=pl.col("inter_dim"),
            experts_per_token=pl.col("topk"),
            num_experts=pl.col("expert"),
            tensor_parallel=1,
            expert_parallel=1,
            operation="moe",
            distribution="balanced",
            dtype=key.replace_strict(formats, default=None, return_dtype=pl.String),
            framework="aiter",
        )
    ]


READERS: Mapping[str, Reader] = {
    "aiter_gemm_amd": Reader(
        "aiter",
        ("M", "N", "K", "us"),
        ("quant",),
        _read_gemm,
        optional_words=("gfx", "q_dtype_w", "source_path"),
    ),
    "aiter_fused_moe_amd": Reader(
        "aiter",
        ("token", "model_dim", "inter_dim", "expert", "topk", "us"),
        ("q_dtype_a", "q_dtype_w", "q_type"),
        _read_experts,
        optional_words=("gfx",),
    ),
}
