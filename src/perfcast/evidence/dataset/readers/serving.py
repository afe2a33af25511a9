"""Tables of aiconfigurator (github ai-dynamo/aiconfigurator): kernels of three serving frameworks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.formats import SPELLINGS
from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import MILLI

_SOURCE = "aiconfigurator"
_FRAMEWORK_COLUMNS: Mapping[str, str] = {
    "sglang_ms": "sglang", "trtllm_ms": "trtllm", "vllm_ms": "vllm",
}  # fmt: skip
_MEDIAN = pl.col("median_ms") * MILLI

#: DeepSeek's latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from a latent of 512
#: that all heads share, and 64 rotary dimensions; a head has 128 dimensions without them.
_LATENT, _ROTARY, _HEAD = 512, 64, 128


def _dtype(column: str) -> pl.Expr:
    return pl.col(column).replace(SPELLINGS)


def _read_gemm(frame: pl.DataFrame) -> list[Draft]:
    """One line has a time for each framework; a line without any stays, to be found incomplete."""
    times = list(_FRAMEWORK_COLUMNS)
    nothing_measured = pl.all_horizontal(pl.col(times).is_null())
    long = (
        frame.with_columns(nothing_measured.alias("empty"))
        .unpivot(
            on=times, index=["row", "device", "dtype", "m", "n", "k", "empty"],
            variable_name="framework", value_name="ms",
        )
        .filter(pl.col("ms").is_not_null() | (pl.col("empty") & (pl.col("framework") == times[0])))
    )  # fmt: skip
    return [
        draft(
            KernelFamily.PRODUCT,
            long,
            pl.col("ms") * MILLI,
            batch=1,
            m=pl.col("m"),
            n=pl.col("n"),
            k=pl.col("k"),
            operation="linear",
            layout="nt",
            dtype=_dtype("dtype"),
            framework=pl.col("framework").replace(_FRAMEWORK_COLUMNS),
        )
    ]


def _read_attention(frame: pl.DataFrame, operation: str, **columns: pl.Expr | float) -> list[Draft]:
    """``isl`` counts queries, ``step`` the tokens that the cache already holds."""
    shared: dict[str, pl.Expr | float | str] = {
        "batch": pl.col("batch_size"),
        "num_queries": pl.col("isl"),
        "num_heads": pl.col("num_heads"),
        "window": 0,
        "framework": pl.col("framework"),
    }
    return [draft(KernelFamily.ATTENTION, frame, _MEDIAN, operation=operation, **(shared | columns))]


def _read_grouped_attention(frame: pl.DataFrame, operation: str) -> list[Draft]:
    return _read_attention(
        frame,
        operation,
        num_keys=pl.col("isl") + pl.col("step"),
        num_kv_heads=pl.col("num_key_value_heads"),
        head_size=pl.col("head_dim"),
        value_head_size=pl.col("head_dim"),
        window=pl.col("window_size"),
        causal=(pl.col("isl") > 1).cast(pl.Int64) if operation == "generation" else 1,
        dtype=_dtype("attn_dtype"),
        kv_dtype=_dtype("kv_cache_dtype"),
    )


def _read_context(frame: pl.DataFrame) -> list[Draft]:
    return _read_grouped_attention(frame, "context")


def _read_generation(frame: pl.DataFrame) -> list[Draft]:
    return _read_grouped_attention(frame, "generation")


def _read_encoder(frame: pl.DataFrame) -> list[Draft]:
    return _read_attention(
        frame,
        "encoder",
        num_keys=pl.col("isl"),
        num_kv_heads=pl.col("num_heads"),
        head_size=pl.col("head_dim"),
        value_head_size=pl.col("head_dim"),
        causal=0,
        dtype=_dtype("attn_dtype"),
        kv_dtype=_dtype("attn_dtype"),
    )


def _read_mla_context(frame: pl.DataFrame) -> list[Draft]:
    """Keys and values are expanded, one a head; ``num_heads`` is already one rank's share."""
    return _read_attention(
        frame,
        "mla_context",
        num_keys=pl.col("isl") + pl.col("step"),
        num_kv_heads=pl.col("num_heads"),
        head_size=_HEAD + _ROTARY,
        value_head_size=_HEAD,
        causal=1,
        dtype=_dtype("mla_dtype"),
        kv_dtype=_dtype("kv_cache_dtype"),
    )


def _read_mla_generation(frame: pl.DataFrame) -> list[Draft]:
    """Absorbed form: every head attends to the one latent, which serves as key and as value."""
    return _read_attention(
        frame,
        "mla_generation",
        num_keys=pl.col("isl") + pl.col("step"),
        num_kv_heads=1,
        head_size=_LATENT + _ROTARY,
        value_head_size=_LATENT,
        causal=(pl.col("isl") > 1).cast(pl.Int64),
        dtype=_dtype("mla_dtype"),
        kv_dtype=_dtype("kv_cache_dtype"),
    )


def _read_mla_bmm(frame: pl.DataFrame) -> list[Draft]:
    """Into the latent before absorbed attention and out of it after: one product a head."""
    operation = pl.col("op_name")
    known = frame.filter(operation.is_in(["mla_gen_pre", "mla_gen_post"]))
    before = operation == "mla_gen_pre"
    return [
        draft(
            KernelFamily.PRODUCT,
            known,
            _MEDIAN,
            batch=pl.col("num_heads"),
            m=pl.col("num_tokens"),
            n=pl.when(before).then(_LATENT).otherwise(_HEAD),
            k=pl.when(before).then(_HEAD).otherwise(_LATENT),
            operation=operation,
            layout="nn",
            dtype=_dtype("bmm_dtype"),
            framework=pl.col("framework"),
        )
    ]


def _read_moe(frame: pl.DataFrame) -> list[Draft]:
    """Experts of Nemotron models have one matrix up, not two; SGLang times them gated except in nvfp4."""
    nemotron = (pl.col("topk") == 22) | (
        (pl.col("hidden_size") == 2688) & (pl.col("inter_size") == 1856) & (pl.col("topk") == 6)
    )
    ungated = nemotron & ((pl.col("framework") != "sglang") | (pl.col("moe_dtype") == "nvfp4"))
    return [
        draft(
            KernelFamily.EXPERTS,
            frame,
            _MEDIAN,
            num_tokens=pl.col("num_tokens"),
            hidden_size=pl.col("hidden_size"),
            inter_size=pl.col("inter_size"),
            experts_per_token=pl.col("topk"),
            num_experts=pl.col("num_experts"),
            tensor_parallel=pl.col("moe_tp_size"),
            expert_parallel=pl.col("moe_ep_size"),
            operation=pl.when(ungated).then(pl.lit("moe_ungated")).otherwise(pl.lit("moe")),
            distribution=pl.col("distribution"),
            dtype=_dtype("moe_dtype"),
            framework=pl.col("framework"),
        )
    ]


def _read_quantization(frame: pl.DataFrame, operation: str, written_bytes: pl.Expr | float) -> list[Draft]:
    return [
        draft(
            KernelFamily.ROWS,
            frame,
            _MEDIAN,
            num_rows=pl.col("m"),
            row_length=pl.col("k"),
            read_bytes=2 * pl.col("m") * pl.col("k"),
            written_bytes=written_bytes,
            operation=operation,
            dtype=_dtype("quant_dtype"),
            framework=pl.col("framework"),
        )
    ]


def _read_compute_scale(frame: pl.DataFrame) -> list[Draft]:
    """The largest magnitude of a bf16 matrix: one fp32 number is written."""
    return _read_quantization(frame, "quant_compute_scale", 4)


def _read_scale_matrix(frame: pl.DataFrame) -> list[Draft]:
    """A bf16 matrix scaled and rounded to one byte an element."""
    return _read_quantization(frame, "quant_scale_matrix", pl.col("m") * pl.col("k"))


_CELLS = ("batch_size", "isl", "num_heads", "median_ms")
_GROUPED = (*_CELLS, "step", "num_key_value_heads", "head_dim", "window_size")
_ATTENTION_WORDS = ("attn_dtype", "kv_cache_dtype", "framework")
_MLA_WORDS = ("mla_dtype", "kv_cache_dtype", "framework")
_MOE_SIZES = (
    "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
)  # fmt: skip
_QUANTIZATION = (("m", "k", "median_ms"), ("quant_dtype", "framework"))

READERS: Mapping[str, Reader] = {
    "gemm": Reader(_SOURCE, ("m", "n", "k"), ("dtype",), _read_gemm, tuple(_FRAMEWORK_COLUMNS)),
    "attention_context": Reader(_SOURCE, _GROUPED, _ATTENTION_WORDS, _read_context),
    "attention_generation": Reader(_SOURCE, _GROUPED, _ATTENTION_WORDS, _read_generation),
    "attention_encoder": Reader(_SOURCE, (*_CELLS, "head_dim"), ("attn_dtype", "framework"), _read_encoder),
    "mla_context": Reader(_SOURCE, (*_CELLS, "step"), _MLA_WORDS, _read_mla_context),
    "mla_generation": Reader(_SOURCE, (*_CELLS, "step"), _MLA_WORDS, _read_mla_generation),
    "mla_bmm": Reader(
        _SOURCE,
        ("num_tokens", "num_heads", "median_ms"),
        ("op_name", "bmm_dtype", "framework"),
        _read_mla_bmm,
    ),
    "moe": Reader(_SOURCE, (*_MOE_SIZES, "median_ms"), ("moe_dtype", "distribution", "framework"), _read_moe),
    "quant_compute_scale": Reader(_SOURCE, *_QUANTIZATION, _read_compute_scale),
    "quant_scale_matrix": Reader(_SOURCE, *_QUANTIZATION, _read_scale_matrix),
}
