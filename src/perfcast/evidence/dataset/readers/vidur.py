"""Table of Vidur (Agrawal et al., MLSys 2024, github microsoft/vidur): operators of a decoder layer in fp16.

Sizes are the whole model's; ``num_tensor_parallel_workers`` splits heads and the feed-forward layer, as
Megatron does. Norms, residual and embedding lookup are not split.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import MILLI

_ELEMENT_BYTES = 2
_MEASURED = pl.col("median_ms") * MILLI
_WORDS: Mapping[str, str] = {"dtype": "fp16", "framework": "pytorch"}

_TOKENS, _HIDDEN = pl.col("num_tokens"), pl.col("n_embd")
_WORKERS = pl.col("num_tensor_parallel_workers")
_HEAD_SIZE = _HIDDEN / pl.col("n_head")
_FFN = pl.col("n_expanded_embd") / _WORKERS
_GATED = pl.col("use_gated_mlp").str.to_lowercase() == "true"

#: Products of m tokens: (n, k).
_PRODUCTS: Mapping[str, tuple[pl.Expr, pl.Expr]] = {
    "attn_pre_proj": ((pl.col("n_head") + 2 * pl.col("n_kv_head")) * _HEAD_SIZE / _WORKERS, _HIDDEN),
    "attn_post_proj": (_HIDDEN, _HIDDEN / _WORKERS),
    "mlp_up_proj": (pl.when(_GATED).then(2 * _FFN).otherwise(_FFN), _HIDDEN),
    "mlp_down_proj": (_HIDDEN, _FFN),
}

_ROTATED = (pl.col("n_head") + pl.col("n_kv_head")) * _HEAD_SIZE / _WORKERS
_NORM = pl.when(_GATED).then(pl.lit("rms_norm")).otherwise(pl.lit("ln"))

#: Kernels over rows: (operation, row length, elements read, elements written), each for one token. Models
#: with gated layers have RMS norms and SiLU; the other, Phi-2, has layer norms and GELU.
_ROWS: Mapping[str, tuple[pl.Expr, pl.Expr, pl.Expr, pl.Expr]] = {
    "emb": (pl.lit("embedding"), _HIDDEN, _HIDDEN, _HIDDEN),
    "add": (pl.lit("add"), _HIDDEN, 2 * _HIDDEN, _HIDDEN),
    "input_layernorm": (_NORM, _HIDDEN, _HIDDEN, _HIDDEN),
    "post_attention_layernorm": (_NORM, _HIDDEN, _HIDDEN, _HIDDEN),
    "attn_rope": (pl.lit("rope"), _ROTATED, _ROTATED, _ROTATED),
    "mlp_act": (
        pl.when(_GATED).then(pl.lit("silu_mul")).otherwise(pl.lit("gelu")),
        _FFN,
        pl.when(_GATED).then(2 * _FFN).otherwise(_FFN),
        _FFN,
    ),
}


def _read(frame: pl.DataFrame) -> list[Draft]:
    drafts = [
        draft(
            KernelFamily.PRODUCT,
            frame.filter(pl.col("op") == op),
            _MEASURED,
            batch=1, m=_TOKENS, n=n, k=k, operation="linear", layout="nt", **_WORDS,
        )
        for op, (n, k) in _PRODUCTS.items()
    ] + [
        draft(
            KernelFamily.ROWS,
            frame.filter(pl.col("op") == op),
            _MEASURED,
            num_rows=_TOKENS,
            row_length=length,
            read_bytes=_TOKENS * read * _ELEMENT_BYTES,
            written_bytes=_TOKENS * written * _ELEMENT_BYTES,
            operation=operation,
            **_WORDS,
        )
        for op, (operation, length, read, written) in _ROWS.items()
    ]  # fmt: skip
    return [
        Draft(family, pl.concat([d.frame for d in drafts if d.family is family]).sort("row"))
        for family in (KernelFamily.PRODUCT, KernelFamily.ROWS)
    ]


_SIZES = (
    "num_tokens", "num_tensor_parallel_workers", "n_head", "n_kv_head", "n_embd", "n_expanded_embd",
)  # fmt: skip

READERS: Mapping[str, Reader] = {
    "vidur_mlp_ops": Reader("vidur", (*_SIZES, "median_ms"), ("op", "use_gated_mlp"), _read)
}
