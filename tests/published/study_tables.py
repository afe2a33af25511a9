"""Small made-up tables in the form of the NeuSight study's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

DEVICES = ("Tesla V100-PCIE-32GB", "Tesla P100-PCIE-16GB", "Tesla T4")
FLOPS_PER_SECOND = {"Tesla V100-PCIE-32GB": 7e12, "Tesla P100-PCIE-16GB": 4.5e12, "Tesla T4": 4e12}
BYTES_PER_SECOND = {"Tesla V100-PCIE-32GB": 8e11, "Tesla P100-PCIE-16GB": 6e11, "Tesla T4": 2.5e11}


def write_study_tables(folder: Path, rows_per_device: int = 12) -> Path:
    """Write the three training tables; kernels take exactly work / rate."""
    rng = np.random.default_rng(0)
    products, vectors, convolutions = [], [], []
    for device in DEVICES:
        for _ in range(rows_per_device):
            products += [_product(rng, device, op) for op in ("linear", "bmm")]
            vectors += [_vector(rng, device, op) for op in ("add", "gelu", "softmax", "ln")]
            convolutions.append(_convolution(rng, device))
    place = folder / "neusight"
    place.mkdir(parents=True, exist_ok=True)
    for name, rows in (
        ("matmul_train", products), ("vector_train", vectors), ("convolution", convolutions),
    ):  # fmt: skip
        pl.DataFrame(rows).write_parquet(place / f"{name}.parquet")
    return folder


def _launch(op: str, device: str, kernel_name: str, blocks: int, seconds: float) -> dict[str, object]:
    return {"op": op, "device": device, "latency_ms": seconds * 1e3, "kernel_name": kernel_name,
            "grid_x": blocks, "grid_y": 1, "grid_z": 1}  # fmt: skip


def _product(rng: np.random.Generator, device: str, op: str) -> dict[str, object]:
    batch = 1 if op == "linear" else int(rng.integers(2, 64))
    m, k, n = (int(rng.integers(64, 1024)) for _ in range(3))
    seconds = 2 * batch * m * k * n / FLOPS_PER_SECOND[device]
    launch = _launch(op, device, "volta_sgemm_128x64_nn", -(-m // 64) * -(-n // 128) * batch, seconds)
    return {**launch, "B": batch, "M": m, "N": k, "K": n}


def _vector(rng: np.random.Generator, device: str, op: str) -> dict[str, object]:
    rows, length = int(rng.integers(9000, 16000)), int(rng.integers(600, 4000))
    bytes_each = 12 if op == "add" else 8
    seconds = bytes_each * rows * length / BYTES_PER_SECOND[device]
    return {**_launch(op, device, f"{op}_kernel", -(-rows * length // 512), seconds), "B": rows, "H": length}


def _convolution(rng: np.random.Generator, device: str) -> dict[str, object]:
    c_in, c_out, size = (int(rng.integers(16, 256)) for _ in range(3))
    seconds = 2 * 8 * c_out * c_in * 9 * size**2 / FLOPS_PER_SECOND[device]
    launch = _launch("conv", device, "implicit_gemm", 100, seconds)
    return {**launch, "B": 8, "Input_Channel": c_in, "Output_Channel": c_out, "Kernel_Size": 3,
            "Input_Size": size, "Stride": 1, "Padding": 1}  # fmt: skip
