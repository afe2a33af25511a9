"""Small folders of measured tables, and weights fitted to made-up kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

MEASURED_SUFFIX = "_ms"


def gemm_table(count: int = 24, seed: int = 0) -> pl.DataFrame:
    """Products in bf16 and fp8 on an unnamed device; some of vLLM's times are missing."""
    draw = np.random.default_rng(seed)
    m, n, k = (2 ** draw.integers(5, 13, count) for _ in range(3))
    seconds = 1e-5 + 2.0 * m * n * k / 2e14
    times = {f"{f}_ms": seconds * 1e3 * (1 + 0.1 * i) for i, f in enumerate(("sglang", "trtllm", "vllm"))}
    frame = pl.DataFrame({"dtype": ["bfloat16", "fp8"] * (count // 2), "m": m, "n": n, "k": k, **times})
    frame = frame.with_columns(vllm_ms=pl.when(pl.int_range(pl.len()) % 4 > 0).then(pl.col("vllm_ms")))
    return frame.with_columns(n_obs=pl.lit(2), min_ms=pl.lit(0.1), max_ms=pl.lit(9.0))


def mla_bmm_table() -> pl.DataFrame:
    """One product a head; an empty cell, an unknown operation, an unknown device, a zero time."""
    row = {"gpu": "h100_sxm", "op_name": "mla_gen_pre", "bmm_dtype": "fp8", "num_tokens": 7, "num_heads": 16,
           "framework": "sglang", "median_ms": 0.5, "n_obs": 1}  # fmt: skip
    changes: list[dict[str, Any]] = [
        {}, {"num_heads": None}, {"op_name": "other"}, {"gpu": "abacus 3"}, {"median_ms": 0.0},
    ]  # fmt: skip
    return pl.DataFrame([row | change for change in changes])


def kernel_folder(place: Path) -> Path:
    """Two devices' products, ``mla_bmm``, and a table that no reader understands."""
    place.mkdir(exist_ok=True)
    gemm_table(seed=1).write_csv(place / "gemm_h100_sxm.csv")
    gemm_table(seed=2).write_csv(place / "gemm_a100_sxm.csv")
    mla_bmm_table().write_csv(place / "mla_bmm.csv")
    traces = pl.DataFrame(
        {"gpu": ["h100_sxm"] * 2, "op": ["add"] * 2, "kernel": ["k"] * 2, "mean_us": [3.0] * 2}
    )
    traces.write_csv(place / "trace_kernel_times.csv")
    return place


def study_folder(place: Path, devices: Sequence[str] = ("Tesla T4", "NVIDIA L4")) -> Path:
    """The study's tables: products and soft-maxes, and steps of its one-layer model."""
    place.mkdir(exist_ok=True)
    products = [
        {"op": "linear", "latency_ms": 0.5 + 0.1 * i, "device": device, "kernel_name": f"sgemm{i}",
         "grid_x": i, "B": 1, "M": 128 * (i + 1), "N": 512, "K": 256}
        for device in devices for i in range(4)
    ]  # fmt: skip
    rows = [
        {"op": "softmax", "latency_ms": 0.3, "device": device, "kernel_name": "s", "grid_x": 1,
         "B": 512, "H": 768}
        for device in devices
    ]  # fmt: skip
    pl.DataFrame(products).write_parquet(place / "linear_test.parquet")
    pl.DataFrame(rows).write_parquet(place / "softmax_test.parquet")
    step_table(devices).write_csv(place / "steps.csv")
    return place


def step_table(devices: Sequence[str] = ("Tesla T4", "NVIDIA L4")) -> pl.DataFrame:
    """Inference and training as run and compiled, a plan over four devices, a model without a file."""
    row = {"model": "opt", "mode": "inference", "sequence_length": 32, "batch_size": 2, "variant": None,
           "step_ms": 3.0, "forward_ms": 3.0, "backward_ms": 0.0, "neusight_predicted_ms": 4.0,
           "micro_predicted_ms": None}  # fmt: skip
    changes: list[dict[str, Any]] = [
        {}, {"mode": "train", "step_ms": 9.0, "backward_ms": 6.0}, {"variant": "fusion"}, {"variant": "dp4"},
        {"model": "switch4"}, {"batch_size": None},
    ]  # fmt: skip
    return pl.DataFrame([{"device": device} | row | change for device in devices for change in changes])


def permute_measured(frame: pl.DataFrame, names: Sequence[str], seed: int = 3) -> pl.DataFrame:
    """Every named column in another order; empty cells stay where they are."""
    draw = np.random.default_rng(seed)
    for name in names:
        values = frame[name].to_list()
        places = [i for i, value in enumerate(values) if value is not None]
        for place, source in zip(places, draw.permutation(places).tolist(), strict=True):
            values[place] = frame[name][source]
        frame = frame.with_columns(pl.Series(name, values, dtype=frame[name].dtype))
    return frame
