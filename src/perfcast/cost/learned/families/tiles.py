"""Which tile and split a library would choose for a product, and what that costs: waves of tiles.

A product C[m, n] = A[m, k] · B[k, n] is cut into tiles of C; one block computes one tile, or a slice of
its k; blocks fill the multiprocessors in waves. For each candidate (tile, split):

    blocks   = batch · ⌈m / tile_m⌉ · ⌈n / tile_n⌉ · split          waves = ⌈blocks / SMs⌉
    compute  = waves · 2 · tile_m · tile_n · ⌈k / split⌉ / (sustained peak per SM · e(tile))
    e(tile)  = i / (i + half_intensity · operand share),   i = tile_m · tile_n / (tile_m + tile_n)
    memory   = bytes beyond L2 / (bandwidth · dram_share · min(1, blocks per SM · blocks_in_flight))
    cache    = operand bytes as tiles read them / (SMs · clock · l2_bytes_per_cycle)
    latency  = (start_cycles + cycles_per_k · k / split) / clock      of one block alone
    seconds  = max(‖compute, memory, cache‖₄, latency) + 0.3 · latency (+ reduction, where split > 1)

and the fastest candidate is taken, as a library's heuristic would on a device that it was tuned for;
no look-up of measured tiles is needed, so it extends to devices never seen. (Tile intensity: Kerr et al.,
CUTLASS, 2017; wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide, §"Wave
Quantization"; split-K: the same, §"Dimension Quantization".) A 4-norm instead of a maximum: streams that
compete at the balance point delay one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Floats

_CHUNK = 8192


@dataclass(frozen=True)
class TileConstants:
    """Constants of one kind of units; cycles are of the boost clock.

    Attributes:
        launch_seconds: Of the host, where it is part of the measurement.
        launch_cycles: Fixed time of a kernel on the device.
        half_intensity: Tile intensity at which half of the sustained peak is reached.
        sustained_scale: Best achieved over the sustained peak.
        blocks_in_flight: Inverse of the blocks per SM that saturate the memory.
        reduction_cycles: Of the second pass that a split needs.
    """

    launch_seconds: float
    launch_cycles: float
    start_cycles: float
    cycles_per_k: float
    half_intensity: float
    sustained_scale: float
    dram_share: float
    l2_bytes_per_cycle: float
    blocks_in_flight: float
    reduction_cycles: float
    tiles: tuple[tuple[int, int], ...]
    splits: tuple[int, ...]


@dataclass(frozen=True)
class Products:
    """n products on n devices, columns of shape [n].

    Attributes:
        a_bytes, b_bytes, c_bytes: Of one element.
        resident: Share of B that the cache already holds.
        flops_per_second: Sustained peak.
        operand_share: Of what the units read in a cycle at their full rate; at less, a tile may be smaller.
    """

    batch: Floats
    m: Floats
    n: Floats
    k: Floats
    a_bytes: Floats
    b_bytes: Floats
    c_bytes: Floats
    resident: Floats
    flops_per_second: Floats
    operand_share: Floats
    memory_bytes_per_second: Floats
    num_sms: Floats
    clock_hertz: Floats
    l2_bytes: Floats

    def rows(self, chosen: slice) -> Products:
        """Some of the products."""
        return Products(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


@dataclass(frozen=True)
class TileTimes:
    """Times of the chosen candidate, columns of shape [n]; terms are in seconds."""

    seconds: Floats
    launch: Floats
    compute: Floats
    memory: Floats
    cache: Floats
    latency: Floats
    blocks_per_sm: Floats
    waves: Floats
    tile_m: Floats
    tile_n: Floats
    split: Floats


def time_tiles(products: Products, constants: TileConstants) -> TileTimes:
    """Time of the fastest candidate of each product."""
    count = len(products.m)
    chunks = [products.rows(slice(at, at + _CHUNK)) for at in range(0, count, _CHUNK)] or [products]
    return _join([_time_chunk(chunk, constants) for chunk in chunks])


def _join(parts: Sequence[TileTimes]) -> TileTimes:
    return TileTimes(
        **{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(TileTimes)}
    )


def _time_chunk(p: Products, c: TileConstants) -> TileTimes:
    """All candidates of a chunk at once, shape [rows, candidates]."""
    candidates = np.array([(m, n, s) for m, n in c.tiles for s in c.splits], dtype=np.float32)
    tile_m, tile_n, split = candidates.T

    def col(values: Floats) -> NDArray[np.float32]:
        return values.astype(np.float32)[:, None]

    m, n, k, batch, sms, clock = (col(v) for v in (p.m, p.n, p.k, p.batch, p.num_sms, p.clock_hertz))
    rows_of_tiles, columns_of_tiles = np.ceil(m / tile_m), np.ceil(n / tile_n)
    k_slice = np.ceil(k / split / 32) * 32
    blocks_per_sm = batch * rows_of_tiles * columns_of_tiles * split / sms
    waves = np.ceil(blocks_per_sm)
    intensity = tile_m * tile_n / (tile_m + tile_n)
    half_intensity = np.float32(c.half_intensity) * col(p.operand_share)
    efficiency = c.sustained_scale * intensity / (intensity + half_intensity)
    compute = waves * 2 * tile_m * tile_n * k_slice / (col(p.flops_per_second / p.num_sms) * efficiency)
    latency = (c.start_cycles + c.cycles_per_k * k_slice) / clock

    b_total, a_total = p.batch * p.b_bytes * p.k * p.n, p.batch * p.a_bytes * p.m * p.k
    spilled = np.maximum(0.0, a_total + p.batch * p.c_bytes * p.m * p.n - 0.5 * p.l2_bytes)
    beyond_l2 = (1 - p.resident) * b_total + spilled
    in_flight = np.minimum(1.0, blocks_per_sm * c.blocks_in_flight)
    memory = col(beyond_l2 / (p.memory_bytes_per_second * c.dram_share)) / in_flight
    partial_bytes = np.where(split > 1, 8 * batch * m * n * split, 0)
    operand_bytes = batch * (
        col(p.a_bytes) * m * k * columns_of_tiles + col(p.b_bytes) * n * k * rows_of_tiles
    )
    l2_rate = sms * clock * np.float32(c.l2_bytes_per_cycle) * np.minimum(1.0, blocks_per_sm)
    cache = (operand_bytes + col(p.batch * p.c_bytes * p.m * p.n) + partial_bytes) / l2_rate

    # Squares of squares: a library's ``x**4`` of float32 rounds differently from processor to processor.
    fourth_powers = (np.square(np.square(term)) for term in (compute, memory, cache))
    busy = np.sqrt(np.sqrt(sum(fourth_powers)))
    seconds = np.maximum(busy, latency) + 0.3 * latency
    seconds = seconds + np.where(split > 1, c.reduction_cycles / clock, 0)
    seconds = np.where((split == 1) | (k_slice >= 64), seconds, np.inf)
    best = np.argmin(seconds, axis=1)
    row = np.arange(len(best))

    def at(values: NDArray[np.float32]) -> Floats:
        return np.asarray(values[row, best], dtype=np.float64)

    launch = c.launch_seconds + c.launch_cycles / p.clock_hertz
    return TileTimes(
        seconds=at(seconds) + launch,
        launch=launch,
        compute=at(compute),
        memory=at(memory),
        cache=at(cache),
        latency=at(latency),
        blocks_per_sm=at(blocks_per_sm),
        waves=at(waves),
        tile_m=tile_m[best].astype(np.float64),
        tile_n=tile_n[best].astype(np.float64),
        split=split[best].astype(np.float64),
    )
