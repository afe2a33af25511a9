"""NeuSight's view of a kernel: equal tiles, run in waves over the multiprocessors.

With T operations and S bytes per tile, W waves of P multiprocessors, peak F, bandwidth R and the roof
min(F, I·R) at the operation's arithmetic intensity I:

    blocks  = independent tiles of the output        W = ⌈blocks / P⌉
    latency = W · P·T / (roof · utilization)         utilization = σ(o₃) − σ(o₁) / W
    inputs  = log₂ of T / (F/P),  S / (R/P),  W·S / (memory/P),  W·S / (L2/P)

o are the outputs of a net; the second is not used. ``W · P·T / roof`` is called the bound here: what the
kernel takes at utilization 1. Source: Lee, Phanishayee, Mahajan, "Forecasting GPU Performance for Deep
Learning Training and Inference", ASPLOS 2025, and its code: intensity counts padded operations over unpadded
bytes, binary gigabytes of traffic meet decimal gigabytes of bandwidth.

The paper's table has a fifth input, the tile's intensity over the device's, (T/S) / (F/R), which its code
leaves out. It is the first input over the second: in logarithms their difference, which the first layer of a
net of four forms by itself. A net of five computes nothing that one of four does not (``with_intensity``;
``benchmarks/neusight_inputs.py`` trains both).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.published.comparison import print_part
from perfcast.published.kernels.figures import StudyFigures
from perfcast.units import GIB, GIGA, KILO, MIB

_BYTES = 4.0  # of an fp32 element
_BINARY = 1024.0  # megabytes per gigabyte and kilobytes per megabyte, as the study counts capacities


@dataclass(frozen=True)
class Waves:
    """n kernels as their nets see them.

    Attributes:
        inputs: Shape [n, 4].
        num_waves: Shape [n].
        bound_seconds: Time at utilization 1, shape [n].
    """

    inputs: Floats
    num_waves: Floats
    bound_seconds: Floats

    @property
    def with_intensity(self) -> Floats:
        """The inputs and the paper's fifth, the first less the second; [n, 5]."""
        return np.concatenate([self.inputs, self.inputs[:, :1] - self.inputs[:, 1:2]], axis=1)

    def seconds(self, outputs: Floats) -> Floats:
        """Latency from a net's outputs [n, 3]; 0 where the utilization is negative, as in the study."""
        utilization = sigmoid(outputs[:, 2]) - sigmoid(outputs[:, 0]) / self.num_waves
        with np.errstate(divide="ignore"):
            return np.maximum(self.bound_seconds / utilization, 0.0)


@dataclass(frozen=True)
class _Tiles:
    """What n kernels do per tile and in all; shape [n] each, flops and bytes."""

    blocks: Floats
    tile_flops: Floats
    tile_bytes: Floats
    padded_flops: Floats
    traffic_bytes: Floats


def product_waves(shape: Floats, tiles: Floats, figures: StudyFigures) -> Waves:
    """Products [batch] × (m × k)(k × n).

    Args:
        shape: batch, m, k, n; [n, 4].
        tiles: Tile along n, tile along m; [n, 2].
    """
    batch, m, k, n = shape.T
    tile_n, tile_m = tiles.T
    blocks_m, blocks_n = np.ceil(m / tile_m), np.ceil(n / tile_n)
    work = _Tiles(
        blocks=batch * blocks_m * blocks_n,
        tile_flops=2 * tile_m * k * tile_n,
        tile_bytes=_BYTES * (tile_m * k + k * tile_n + tile_m * tile_n),
        padded_flops=2 * blocks_m * tile_m * k * blocks_n * tile_n,
        traffic_bytes=_BYTES * (m * k + k * n + m * n),
    )
    return _waves(work, figures.matrix_gigaflops, figures)


def vector_waves(shape: Floats, work: Floats, tiles: Floats, figures: StudyFigures) -> Waves:
    """Operations on rows.

    Args:
        shape: Rows and their length; [n, 2].
        work: Bytes and flops per element of the output; [n, 2].
        tiles: Elements per tile; [n].
    """
    num_rows, row_length = shape.T
    bytes_each, flops_each = work.T
    blocks_per_row = np.ceil(row_length / tiles)
    tiled = _Tiles(
        blocks=num_rows * blocks_per_row,
        tile_flops=flops_each * tiles,
        tile_bytes=bytes_each * tiles,
        padded_flops=flops_each * blocks_per_row * tiles,
        traffic_bytes=bytes_each * row_length,
    )
    return _waves(tiled, figures.vector_gigaflops, figures)


def _waves(work: _Tiles, peak_gigaflops: Floats, figures: StudyFigures) -> Waves:
    sms = figures.num_sms
    num_waves = np.ceil(work.blocks / sms)
    tile_gigaflop, tile_megabytes = work.tile_flops / GIGA, work.tile_bytes / MIB
    intensity = (work.padded_flops / GIGA) / (work.traffic_bytes / GIB)
    roof = np.minimum(peak_gigaflops, intensity * figures.gigabytes_per_second)
    inputs = (
        tile_gigaflop / (peak_gigaflops / KILO / sms),
        tile_megabytes / (figures.gigabytes_per_second / sms),
        num_waves * tile_megabytes / (figures.memory_gigabytes * _BINARY / sms),
        num_waves * tile_megabytes / (figures.l2_megabytes * _BINARY / sms),
    )
    return Waves(np.log2(np.stack(inputs, axis=1)), num_waves, num_waves * sms * tile_gigaflop / roof)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e⁻ˣ), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


if __name__ == "__main__":
    print_part("neusight.waves", "neusight")
