"""Made-up measurements of kernels: physics × how slow a device is × a smooth law × a little noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.convolution import square_sizes
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table, join_kernel_tables
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures, collect_figures
from perfcast.cost.learned.scalars import regime_shares
from perfcast.cost.learned.store import family_of
from perfcast.evidence.train.learned.prepared import TrainingRows

NOISE = 0.02
DEVICES = ("t4", "v100-pcie-16gb", "a100-pcie-40gb", "h100-sxm")
#: How much slower each is than the physics says, in overhead, computing and memory.
SLOWNESS = {
    "t4": (0.3, 0.2, 0.1),
    "v100-pcie-16gb": (0.2, -0.05, 0.1),
    "a100-pcie-40gb": (-0.1, 0.1, 0.2),
    "h100-sxm": (0.0, 0.25, 0.05),
}


def products(count: int = 1, is_cold: bool = False, **columns: object) -> KernelTable:
    """Products; 512 × 512 × 512 in bf16 by SGLang where nothing else is said."""
    usual: dict[str, object] = {
        "batch": 1, "m": 512, "n": 512, "k": 512,
        "operation": "linear", "layout": "nn", "dtype": "bf16", "framework": "sglang",
    }  # fmt: skip
    return replace(build_kernel_table(KernelFamily.PRODUCT, count, **(usual | columns)), is_cold=is_cold)


def describe(model: str, kernels: KernelTable, device: Device) -> Physics:
    """A model's physics of kernels on one device."""
    index = np.zeros(len(kernels), dtype=np.int64)
    return family_of(model).describe(kernels, collect_figures([device], index, kernels.word("dtype")))


def training_rows(
    model: str,
    devices: Sequence[str] = DEVICES,
    count: int = 100,
    seed: int = 0,
    noise: float = NOISE,
) -> TrainingRows:
    """``count`` made-up measurements on each device."""
    draw, parts, seconds = np.random.default_rng(seed), [], []
    loaded = tuple(load_device(name) for name in devices)
    for device in loaded:
        kernels = _MAKERS[model](draw, count)
        parts.append(kernels)
        seconds.append(made_up_seconds(model, kernels, device) * np.exp(noise * draw.standard_normal(count)))
    return TrainingRows(
        kernels=join_kernel_tables(parts),
        seconds=np.concatenate(seconds),
        devices=loaded,
        device_index=np.repeat(np.arange(len(loaded)), count),
    )


def made_up_seconds(model: str, kernels: KernelTable, device: Device) -> np.ndarray[Any, Any]:
    """Without noise."""
    physics = describe(model, kernels, device)
    slowness = regime_shares(physics) @ np.array(SLOWNESS.get(device.name, (0.1, 0.1, 0.1)))
    smooth = 0.1 * np.sin(np.log(physics.seconds / 1e-6))
    return np.asarray(physics.seconds * np.exp(slowness + smooth))


def sizes(draw: np.random.Generator, count: int, most: int) -> np.ndarray[Any, Any]:
    """Whole numbers, log-uniform from 1 to ``most``."""
    return np.round(most ** draw.random(count))


def _wide(draw: np.random.Generator, count: int) -> KernelTable:
    operations = draw.choice(np.array(["linear", "bmm"], dtype=object), count)
    shape = {name: sizes(draw, count, 8192) for name in ("m", "n", "k")}
    return products(count, operation=operations, dtype="fp32", framework="pytorch", **shape)


def _narrow(draw: np.random.Generator, count: int) -> KernelTable:
    dtypes = draw.choice(np.array(["bf16", "fp16"], dtype=object), count)
    return products(count, dtype=dtypes, **{name: sizes(draw, count, 8192) for name in ("m", "n", "k")})


def _rows(draw: np.random.Generator, count: int) -> KernelTable:
    num_rows, length = sizes(draw, count, 65536), sizes(draw, count, 8192)
    return build_kernel_table(
        KernelFamily.ROWS, count, num_rows=num_rows, row_length=length, read_bytes=8 * num_rows * length,
        written_bytes=4 * num_rows * length, dtype="fp32", framework="pytorch",
        operation=draw.choice(np.array(["add", "softmax", "ln"], dtype=object), count),
    )  # fmt: skip


def _convolutions(draw: np.random.Generator, count: int) -> KernelTable:
    return build_kernel_table(
        KernelFamily.CONVOLUTION, count, batch=sizes(draw, count, 64), c_in=sizes(draw, count, 512),
        c_out=sizes(draw, count, 512), groups=1, has_bias=0, operation="convolution",
        memory_format="contiguous",
        **square_sizes(8 + sizes(draw, count, 200), draw.choice([1.0, 3.0], count), 1, 1),
        dtype="fp32", framework="pytorch",
    )  # fmt: skip


def _attention(draw: np.random.Generator, count: int) -> KernelTable:
    queries, heads = sizes(draw, count, 4096), sizes(draw, count, 64)
    return build_kernel_table(
        KernelFamily.ATTENTION, count, batch=sizes(draw, count, 16), num_queries=queries, num_keys=queries,
        num_heads=heads, num_kv_heads=heads, head_size=64, value_head_size=64, window=0, causal=1,
        operation="context", dtype="fp16", kv_dtype="fp16", framework="vllm",
    )  # fmt: skip


_MAKERS = {
    "product_wide": _wide,
    "product_narrow": _narrow,
    "rows": _rows,
    "convolution": _convolutions,
    "attention": _attention,
}


def figures_of(rows: int = 1, **changes: float) -> Figures:
    """1 PFLOP/s, 3 TB/s, 50 MB of cache, 132 multiprocessors at 2 GHz; 1 for what does not matter here."""
    values = {
        "matrix_flops_per_second": 1e15, "memory_bytes_per_second": 3e12, "l2_bytes": 50e6, "num_sms": 132.0,
        "clock_hertz": 2e9,
    } | changes  # fmt: skip
    return Figures(**{field.name: np.full(rows, values.get(field.name, 1.0)) for field in fields(Figures)})
