"""Tables of the NeuSight study (Lee, Phanishayee, Mahajan, ASPLOS 2025): fp32 kernels of PyTorch.

Its matrix products are [B] × (M × N)(N × K): N is the contraction. Kernel name and launch grid are found by
measuring, so they are no part of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from perfcast.core.convolution import square_sizes
from perfcast.core.kernel import KernelFamily
from perfcast.evidence.dataset.draft import Draft, Reader, draft
from perfcast.units import MILLI

_ELEMENT_BYTES = 4

#: Tensors of B × H elements that an operation reads; each writes one. A trailing 'u' is the form with a
#: scalar.
_TENSORS_READ: Mapping[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2,
    "addu": 1, "subu": 1, "mulu": 1, "divu": 1, "powu": 1,
    "gelu": 1, "relu": 1, "tanh": 1, "softmax": 1, "ln": 1,
}  # fmt: skip

_MEASURED = pl.col("latency_ms") * MILLI


def _read_products(frame: pl.DataFrame) -> list[Draft]:
    op = pl.col("op")
    known = frame.filter(op.is_in(["linear", "bmm"]))
    layout = pl.when(op == "linear").then(pl.lit("nt")).otherwise(pl.lit("nn"))
    sizes = {"batch": pl.col("B"), "m": pl.col("M"), "n": pl.col("K"), "k": pl.col("N")}
    return [
        draft(KernelFamily.PRODUCT, known, _MEASURED, operation=op, layout=layout, **sizes, **_PYTORCH_FP32)
    ]


def _read_rows(frame: pl.DataFrame) -> list[Draft]:
    op, one_tensor = pl.col("op"), pl.col("B") * pl.col("H") * _ELEMENT_BYTES
    known = frame.filter(op.is_in(list(_TENSORS_READ)))
    return [
        draft(
            KernelFamily.ROWS,
            known,
            _MEASURED,
            num_rows=pl.col("B"),
            row_length=pl.col("H"),
            read_bytes=one_tensor * op.replace_strict(_TENSORS_READ, return_dtype=pl.Int64),
            written_bytes=one_tensor,
            operation=op,
            **_PYTORCH_FP32,
        )
    ]


def _read_convolutions(frame: pl.DataFrame) -> list[Draft]:
    return [
        draft(
            KernelFamily.CONVOLUTION,
            frame,
            _MEASURED,
            batch=pl.col("B"),
            c_in=pl.col("Input_Channel"),
            c_out=pl.col("Output_Channel"),
            groups=1,
            **square_sizes(pl.col("Input_Size"), pl.col("Kernel_Size"), pl.col("Stride"), pl.col("Padding")),
            has_bias=0,
            operation="convolution",
            memory_format="contiguous",
            **_PYTORCH_FP32,
        )
    ]


_PYTORCH_FP32: Mapping[str, str] = {"dtype": "fp32", "framework": "pytorch"}
_PRODUCTS = Reader("neusight", ("latency_ms", "B", "M", "N", "K"), ("op",), _read_products)
_ROWS = Reader("neusight", ("latency_ms", "B", "H"), ("op",), _read_rows)
_CONVOLUTION_SIZES = (
    "B", "Input_Channel", "Output_Channel", "Kernel_Size", "Input_Size", "Stride", "Padding",
)  # fmt: skip

READERS: Mapping[str, Reader] = {
    **dict.fromkeys(("matmul", "linear", "bmm"), _PRODUCTS),
    **dict.fromkeys(("vector", "elem", "softmax", "ln"), _ROWS),
    "convolution": Reader("neusight", ("latency_ms", *_CONVOLUTION_SIZES), (), _read_convolutions),
}
