"""Tables that state achieved rates: SimuMax (github MooreThreads/SimuMax) and LLMCompass (ISCA 2024)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.formats import SPELLINGS
from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import GIGA, MILLI, TERA

# ---- SimuMax: layouts of Megatron training on Transformer Engine ---------------------------------------

_SIMUMAX: Mapping[str, str] = {"dtype": "bf16", "framework": "transformer_engine"}
_RATE = pl.col("achieved_tflops") * TERA

#: Column-major layouts of cuBLAS as row-major C = A · B: forward, gradient of activations, of weights.
_LAYOUTS: Mapping[str, str] = {"TN": "nt", "NN": "nn", "NT": "tn"}


def _number(name: str) -> pl.Expr:
    """'…, kv_head_num=8, …' → 8."""
    return pl.col("shape").str.extract(rf"(?:^|, ){name}=(\d+)(?:,|$)").cast(pl.Float64)


def _word(name: str) -> pl.Expr:
    return pl.col("shape").str.extract(rf"(?:^|, ){name}=(\w+)(?:,|$)")


def _into(operation: str, accumulates: pl.Expr, dtype: pl.Expr) -> pl.Expr:
    """Weight gradients add to a buffer, which is more traffic: 'linear_into_fp32'."""
    return pl.when(accumulates).then(pl.lit(f"{operation}_into_") + dtype).otherwise(pl.lit(operation))


def _read_simumax(frame: pl.DataFrame) -> list[Draft]:
    def of(*operations: str) -> pl.DataFrame:
        return frame.filter(pl.col("op").is_in(operations))

    products = pl.concat(
        [_plain_products(of("matmul")).frame, _grouped_products(of("group_matmul")).frame]
    ).sort("row")
    return [Draft(KernelFamily.PRODUCT, products), _simumax_attention(of("sdp_fwd", "sdp_bwd"))]


def _plain_products(frame: pl.DataFrame) -> Draft:
    batch, m, n, k = (_number(name) for name in ("b", "m", "n", "k"))
    return draft(
        KernelFamily.PRODUCT,
        frame,
        2 * batch * m * n * k / _RATE,
        batch=batch, m=m, n=n, k=k,
        operation=_into("linear", _word("accumulate") == "True", _word("out_dtype")),
        layout=_word("layout").replace_strict(_LAYOUTS, default=None, return_dtype=pl.String),
        **_SIMUMAX,
    )  # fmt: skip


def _grouped_products(frame: pl.DataFrame) -> Draft:
    """Every stage states the forward sizes: x[M, K] · W[N, K]ᵀ, then dy · W and dyᵀ · x."""
    stage = _word("stage")
    m, n, k = (_number(name) for name in ("M", "N", "K"))
    stages = {"fwd": (m, n, k, "nt"), "bwd_grad_act": (m, k, n, "nn"), "bwd_grad_w": (n, k, m, "tn")}

    def choose(position: int) -> pl.Expr:
        return pl.coalesce(
            pl.when(stage == name).then(parts[position] if position < 3 else pl.lit(parts[3]))
            for name, parts in stages.items()
        )

    return draft(
        KernelFamily.PRODUCT,
        frame,
        2 * _number("ng") * m * n * k / _RATE,
        batch=_number("ng"), m=choose(0), n=choose(1), k=choose(2),
        operation=_into("grouped", _word("accumulate") == "True", _word("main_grad_dtype")),
        layout=choose(3),
        **_SIMUMAX,
    )  # fmt: skip


def _simumax_attention(frame: pl.DataFrame) -> Draft:
    """Causal, but the rate counts the whole square of scores.

    That is 2 (forward) or 5 (backward) · batch · heads · length² · (key size + value size) flops.
    """
    length, heads = _number("seq_len"), _number("head_num")
    forward = pl.col("op") == "sdp_fwd"
    square = _number("batch") * heads * length.pow(2) * (_number("qk_head_dim") + _number("v_head_dim"))
    return draft(
        KernelFamily.ATTENTION,
        frame,
        pl.when(forward).then(2).otherwise(5) * square / _RATE,
        batch=_number("batch"),
        num_queries=length,
        num_keys=length,
        num_heads=heads,
        num_kv_heads=_number("kv_head_num"),
        head_size=_number("qk_head_dim"),
        value_head_size=_number("v_head_dim"),
        window=0,
        causal=1,
        operation=pl.when(forward).then(pl.lit("context")).otherwise(pl.lit("context_backward")),
        kv_dtype="bf16",
        **_SIMUMAX,
    )


# ---- LLMCompass: d0 × d1 × d2 products (m, k, n), d0 rows of d1, or d0 elements ----------------------------

_ROW_OPERATIONS: Mapping[str, str] = {"softmax": "softmax", "layernorm": "ln", "gelu": "gelu"}


def _read_llmcompass(frame: pl.DataFrame) -> list[Draft]:
    op, dtype = pl.col("op"), pl.col("dtype").replace(SPELLINGS)
    flat = op == "gelu"
    num_rows = pl.when(flat).then(1).otherwise(pl.col("d0"))
    row_length = pl.when(flat).then(pl.col("d0")).otherwise(pl.col("d1"))
    elements = num_rows * row_length
    words: dict[str, pl.Expr | str] = {"dtype": dtype, "framework": "pytorch"}
    return [
        draft(
            KernelFamily.PRODUCT,
            frame.filter(op == "matmul"),
            pl.col("latency_ms") * MILLI,
            batch=1, m=pl.col("d0"), k=pl.col("d1"), n=pl.col("d2"), operation="linear", layout="nn", **words,
        ),
        draft(
            KernelFamily.ROWS,
            frame.filter(op.is_in(list(_ROW_OPERATIONS))),
            elements / (pl.col("throughput_gelem_per_s") * GIGA),
            num_rows=num_rows, row_length=row_length, read_bytes=2 * elements, written_bytes=2 * elements,
            operation=op.replace(_ROW_OPERATIONS), **words,
        ),
    ]  # fmt: skip


READERS: Mapping[str, Reader] = {
    "simumax_op_efficiency": Reader("simumax", ("achieved_tflops",), ("op", "shape"), _read_simumax),
    "llmcompass_ops": Reader(
        "llmcompass",
        ("d0",),
        ("op", "dtype"),
        _read_llmcompass,
        optional_numbers=("d1", "d2", "latency_ms", "throughput_gelem_per_s"),
    ),
}
