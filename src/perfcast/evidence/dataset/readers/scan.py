"""Tables of aiconfigurator for state-space and linear-attention layers.

Both kinds get the sizes of both vocabularies, by the duality of Mamba-2 (Dao and Gu, ICML 2024,
arXiv 2405.21060): B and C of a group are keys and queries of ``state_size``, x is a value. So the channels of
the convolution are 2 · num_key_heads · key_head_size + num_value_heads · value_head_size in either.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import MILLI


def _read_scan(frame: pl.DataFrame, **columns: pl.Expr | float) -> list[Draft]:
    return [
        draft(
            KernelFamily.SCAN,
            frame,
            pl.col("median_ms") * MILLI,
            batch=pl.col("batch_size"),
            sequence_length=pl.col("seq_len"),
            model_size=pl.col("d_model"),
            conv_size=pl.col("d_conv"),
            operation=pl.col("kernel_source"),
            phase=pl.col("phase"),
            dtype="bf16",
            framework=pl.col("framework"),
            **columns,
        )
    ]


def _read_gdn(frame: pl.DataFrame) -> list[Draft]:
    """Gated delta net; the chunk's size is not stated and stands as 0."""
    return _read_scan(
        frame,
        num_key_heads=pl.col("num_k_heads"),
        key_head_size=pl.col("head_k_dim"),
        num_value_heads=pl.col("num_v_heads"),
        value_head_size=pl.col("head_v_dim"),
        state_size=pl.col("head_k_dim"),
        num_groups=pl.col("num_k_heads"),
        chunk_size=0,
    )


def _read_mamba2(frame: pl.DataFrame) -> list[Draft]:
    return _read_scan(
        frame,
        num_key_heads=pl.col("n_groups"),
        key_head_size=pl.col("d_state"),
        num_value_heads=pl.col("nheads"),
        value_head_size=pl.col("head_dim"),
        state_size=pl.col("d_state"),
        num_groups=pl.col("n_groups"),
        chunk_size=pl.col("chunk_size"),
    )


_SOURCE = "aiconfigurator"
_SHARED = ("batch_size", "seq_len", "d_model", "d_conv", "median_ms")
_GDN = ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
_MAMBA2 = ("d_state", "nheads", "head_dim", "n_groups", "chunk_size")
_WORDS = ("phase", "kernel_source", "framework")

READERS: Mapping[str, Reader] = {
    "gdn": Reader(_SOURCE, (*_SHARED, *_GDN), _WORDS, _read_gdn),
    "mamba2": Reader(_SOURCE, (*_SHARED, *_MAMBA2), _WORDS, _read_mamba2),
}
