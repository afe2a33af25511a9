"""Matrix products (dense, batched, grouped; wide and quantised formats): physics and features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Objects
from perfcast.core.kernel import KernelFamily, KernelTable, encode_words
from perfcast.cost.learned.families.tiles import Products, TileConstants, TileTimes, time_tiles
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.PRODUCT
feature_names = (
    "compute_over_memory", "compute_over_cache", "memory_over_cache", "busy_over_launch",
    "latency_share", "blocks_per_sm", "wave_fill", "tile_m", "tile_n", "split", "resident",
    "blocks_128", "fill_128", "fill_128x256", "fill_128x64", "rows_used", "columns_used", "aligned",
    "weights_over_l2", "framework", "is_batched", "format", "weight_bits", "log_m", "log_n", "log_k",
)  # fmt: skip

#: Bytes of one element of A and of B, by format; block formats carry their scales (one fp32 or fp8 for a
#: block of 128, 32 or 16 values).
ELEMENT_BYTES: dict[str, tuple[float, float]] = {
    "fp64": (8, 8), "fp32": (4, 4), "tf32": (4, 4), "bf16": (2, 2), "fp16": (2, 2),
    "fp8": (1, 1), "fp8_static": (1, 1), "fp8_token": (1, 1), "fp8_block": (1 + 4 / 128, 1),
    "nvfp4": (0.5 + 1 / 16, 0.5 + 1 / 16), "mxfp4": (0.5 + 1 / 32, 0.5 + 1 / 32),
    "int8": (1, 1), "sq": (1, 1), "int8_wo": (2, 1), "int4_wo": (2, 0.5 + 2 / 128),
    "w4a16_mxfp4": (2, 0.5 + 1 / 32), "w4afp8": (1, 0.5 + 2 / 128),
    "w4a8_mxfp4_mxfp8": (1 + 1 / 32, 0.5 + 1 / 32),
}  # fmt: skip
#: Serving formats quantise their 16-bit input in the same call.
_QUANTISES = frozenset({"fp8", "fp8_token", "fp8_block", "nvfp4", "mxfp4", "sq"})
FORMATS = tuple(ELEMENT_BYTES)
FRAMEWORKS = ("pytorch", "sglang", "trtllm", "vllm", "aiter")
#: Distinct weight buffers that a benchmark cycles through: with few, the cache still holds the next one.
#: Read off the sizes at which measured bandwidth falls from the cache's to the memory's.
_WEIGHT_COPIES = {"pytorch": 1.0, "sglang": 6.0, "trtllm": 6.0, "vllm": 6.0, "aiter": 6.0}

#: Fitted by Powell's method on mean |log(measured / physics)|, devices alike and half of each one's median
#: taken out: single-precision products of the study's training tables (P100, V100, T4, A100), and bf16
#: products of SGLang and TensorRT-LLM (A100, L40S, H100, H200, B200, GB200).
VECTOR_UNITS = TileConstants(
    launch_seconds=42e-6, launch_cycles=0, start_cycles=256, cycles_per_k=1.65, half_intensity=8.5,
    sustained_scale=1.14, dram_share=0.468, l2_bytes_per_cycle=59.8, blocks_in_flight=3.0,
    reduction_cycles=7000,
    tiles=((128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 32)),
    splits=(1, 2, 4, 8),
)  # fmt: skip
MATRIX_UNITS = TileConstants(
    launch_seconds=0, launch_cycles=5440, start_cycles=89, cycles_per_k=1.54, half_intensity=16.9,
    sustained_scale=1.03, dram_share=0.792, l2_bytes_per_cycle=207, blocks_in_flight=3.31,
    reduction_cycles=5680,
    tiles=((256, 128), (128, 256), (128, 128), (64, 256), (256, 64), (128, 64), (64, 128), (64, 64),
           (64, 32), (32, 128), (32, 64), (32, 32), (16, 64), (16, 128), (16, 32)),
    splits=(1, 2, 3, 4, 6, 8, 12, 16, 32),
)  # fmt: skip


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Tile physics on the units that compute the format."""
    products = to_products(kernels, figures)
    times = _time(products, ~is_wide(kernels), kernels.is_cold)
    flops = 2 * products.batch * products.m * products.n * products.k
    weights = products.batch * products.b_bytes * products.k * products.n
    return Physics(
        seconds=times.seconds,
        compute_seconds=flops / figures.matrix_flops_per_second,
        memory_seconds=(1 - products.resident) * weights / figures.memory_bytes_per_second,
        features=_features(kernels, figures, products, times),
    )


def is_wide(kernels: KernelTable) -> Flags:
    """Whether a kernel's elements have 32 bits or more: other libraries, other tiles."""
    dtype: Objects = kernels.word("dtype")
    return np.asarray((dtype == "fp32") | (dtype == "fp64"), dtype=bool)


def to_products(kernels: KernelTable, figures: Figures) -> Products:
    """Sizes, element bytes and what the cache holds."""
    formats, which = encode_words(kernels.word("dtype"))
    sizes = np.array([ELEMENT_BYTES[name] for name in formats]).reshape(-1, 2)[which]
    quantises = np.array([name in _QUANTISES for name in formats], dtype=bool)[which]
    batch, m, n, k = (kernels.size(name) for name in ("batch", "m", "n", "k"))
    wide = np.maximum(2.0, np.where(sizes[:, 0] > 2, sizes[:, 0], 2.0))
    copies = _copies(kernels)
    reused = batch * (sizes[:, 1] * n * k * copies + sizes[:, 0] * m * k + wide * m * n)
    resident = 1 / (1 + np.minimum(reused / figures.l2_bytes, 1e6) ** 9)
    return Products(
        batch=batch,
        m=m,
        n=n,
        k=k,
        a_bytes=sizes[:, 0] + np.where(quantises, 2.0, 0.0),
        b_bytes=sizes[:, 1],
        c_bytes=wide,
        resident=resident,
        flops_per_second=figures.matrix_flops_per_second * figures.sustained_share,
        operand_share=figures.operand_share,
        memory_bytes_per_second=figures.memory_bytes_per_second,
        num_sms=figures.num_sms,
        clock_hertz=figures.clock_hertz,
        l2_bytes=figures.l2_bytes,
    )


def _copies(kernels: KernelTable) -> Floats:
    if kernels.is_cold:
        return np.full(len(kernels), np.inf)
    names, which = encode_words(kernels.word("framework"))
    return np.array([_WEIGHT_COPIES.get(name, 1.0) for name in names], dtype=np.float64)[which]


def _time(products: Products, narrow: Flags, in_model: bool) -> TileTimes:
    """In a model the host runs ahead of the device, and a launch costs the device's part alone."""
    wide_constants = VECTOR_UNITS
    if in_model:
        wide_constants = replace(VECTOR_UNITS, launch_seconds=0.0, launch_cycles=MATRIX_UNITS.launch_cycles)
    if narrow.all():
        return time_tiles(products, MATRIX_UNITS)
    if not narrow.any():
        return time_tiles(products, wide_constants)
    merged: dict[str, Floats] = {}
    parts = [(np.flatnonzero(narrow), MATRIX_UNITS), (np.flatnonzero(~narrow), wide_constants)]
    for rows, constants in parts:
        some = Products(**{name: column[rows] for name, column in vars(products).items()})
        for name, column in vars(time_tiles(some, constants)).items():
            merged.setdefault(name, np.zeros(len(narrow)))[rows] = column
    return TileTimes(**merged)


def _features(kernels: KernelTable, figures: Figures, p: Products, t: TileTimes) -> Floats:
    def log_ratio(over: Floats, under: Floats) -> Floats:
        return np.clip(np.log2(np.maximum(over, 1e-15) / np.maximum(under, 1e-15)), -20, 20)

    def per_sm(tile_m: int, tile_n: int) -> Floats:
        return p.batch * np.ceil(p.m / tile_m) * np.ceil(p.n / tile_n) / figures.num_sms

    def fill(tile_m: int, tile_n: int) -> Floats:
        return per_sm(tile_m, tile_n) / np.ceil(per_sm(tile_m, tile_n))

    weights = p.batch * p.b_bytes * p.k * p.n
    return np.column_stack([
        log_ratio(t.compute, t.memory), log_ratio(t.compute, t.cache), log_ratio(t.memory, t.cache),
        log_ratio(t.seconds - t.launch, t.launch), log_ratio(t.latency, t.seconds),
        np.log2(t.blocks_per_sm), t.blocks_per_sm / t.waves, np.log2(t.tile_m), np.log2(t.tile_n),
        np.log2(t.split), p.resident, np.log2(per_sm(128, 128)), fill(128, 128), fill(128, 256),
        fill(128, 64), p.m / (np.ceil(p.m / 128) * 128), p.n / (np.ceil(p.n / 128) * 128),
        1.0 * (p.n % 8 == 0) + (p.k % 8 == 0) + (p.m % 8 == 0), log_ratio(weights, figures.l2_bytes),
        codes(kernels.word("framework"), FRAMEWORKS), 1.0 * (kernels.word("operation") != "linear"),
        codes(kernels.word("dtype"), FORMATS), 8 * p.b_bytes,
        *(np.where(is_wide(kernels), 0.0, np.log2(size)) for size in (p.m, p.n, p.k)),
    ])  # fmt: skip


def codes(words: Objects, known: tuple[str, ...]) -> Floats:
    """Position of each word among the known ones, -1 for others."""
    names, which = encode_words(words)
    position = {name: float(index) for index, name in enumerate(known)}
    return np.array([position.get(name, -1.0) for name in names], dtype=np.float64)[which]
