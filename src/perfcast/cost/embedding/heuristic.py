"""Embedding lookups on a GPU from its datasheet, after Lin et al. (IEEE TPDS 2024), without any fit.

    seconds = launch + max(Σ over tables of f · memory bytes / memory rate, Σ of f · cache bytes / cache rate)

f = 1.55 for rows of up to 32 elements, 1.1 up to 64, else 1: short rows use less of what a warp fetches. The
bytes are those of ``traffic``. The last cache holds 0.9 of its size, shared by the tables that are looked up
at once: with 45 resident warps a multiprocessor (FBGEMM: 64 at an occupancy of 0.71), each at one bag, these
are ⌈45 · multiprocessors / bags⌉. The study takes every row of a table to be equally likely; here the reuse
histogram says which rows the cache keeps (``cache``), and is the same where it is uniform.

The study measured memory and cache rates of five devices, in 10⁹ bytes per second: A100 1391.1 and 2270.9,
V100 817.0 and 2847.5, GV100 601.0 and 2466.7, Titan Xp 438.7 and 1406.5, P100 543.4 and 1591.3. Over the
datasheets' bandwidths the first are 0.89, 0.91, 0.69, 0.80, 0.74; over multiprocessors · clock the second are
14.9, 23.3, 18.9, 29.7, 19.2 bytes. Dies that were not measured take the medians.

Kernels too small for any rate take the launch term. In a public trace of eight V100s that train TorchRec's
DLRM on 112 to 768 lookups (facebookresearch/param, dlrm_kineto) the forward's kernel took 10.5 µs and the 14
to 20 kernels of the fused backward 107 µs together, medians of ranks 0 to 3; on ranks 4 to 7 10 and 109.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.core.machine.hardware import Device
from perfcast.cost.embedding.model import check_optimizer, check_phase
from perfcast.cost.embedding.traffic import backward_traffic, forward_traffic
from perfcast.errors import PlanError
from perfcast.units import MICRO

_RESIDENT_WARPS = 45
_CACHE_SHARE = 0.9
#: Share of the datasheet's memory bandwidth and bytes of the last cache per clock and multiprocessor, by die.
_RATES = {"GA100": (0.89, 14.9), "GV100": (0.91, 23.3), "GP102": (0.80, 29.7), "GP100": (0.74, 19.2)}
_OTHER_RATES = (0.80, 19.2)
_LAUNCH_SECONDS = {"forward": 10.5 * MICRO, "backward": 107 * MICRO}
#: Factor on the rates' times by row length, up to so many elements.
_SHORT_ROWS = ((32, 1.55), (64, 1.1))
#: Standard deviation of ln(measured / predicted). The study's mean error of the forward on a V100 is 17.5 %;
#: rates of a die that it did not measure lie anywhere in those of the five, a factor of two apart.
_MEASURED_SPREAD, _GUESSED_SPREAD = 0.25, 0.45


@dataclass(frozen=True)
class HeuristicEmbeddingPricer:
    """Prices lookups on one GPU; vectors are (memory seconds, cache seconds, tables)."""

    device: Device
    optimizer: str = "rowwise_adagrad"

    def __post_init__(self) -> None:
        check_optimizer(self.optimizer)
        if self.device.is_cpu:
            raise PlanError("embedding lookups of a processor are priced from measurements; choose 'learned'")

    @property
    def name(self) -> str:
        """Name of the model."""
        return "heuristic"

    @property
    def provenance(self) -> str:
        """No device was measured by us."""
        return "extrapolated"

    @property
    def relative_spread(self) -> float:
        """Standard deviation of ln(measured / predicted)."""
        return _MEASURED_SPREAD if self.device.die in _RATES else _GUESSED_SPREAD

    def table_vectors(self, columns: EmbeddingColumns, phase: str) -> Floats:
        """Seconds of memory and of the last cache, and 1, of each table; shape [n, 3]."""
        check_phase(phase)
        traffic = (
            forward_traffic(columns, self._cached_rows(columns))
            if phase == "forward"
            else backward_traffic(columns, self.optimizer)
        )
        _, cache_bytes = _RATES.get(self.device.die, _OTHER_RATES)
        pace = memory_rate(self.device)
        cache_rate = cache_bytes * self.device.num_sms * self.device.clock_hertz
        slower = _slowness(columns.dim)
        return np.stack(
            [
                slower * traffic.memory_bytes / pace,
                slower * traffic.cache_bytes / max(cache_rate, pace),
                np.ones(len(columns)),
            ],
            axis=1,
        )

    def device_seconds(self, summed: Floats, phase: str) -> Floats:
        """Launch and the slower of memory and cache, shape [m]."""
        check_phase(phase)
        launch = max(_LAUNCH_SECONDS[phase], self.device.launch_seconds)
        seconds: Floats = np.maximum(summed[:, 0], summed[:, 1]) + launch * (summed[:, 2] > 0.5)
        return seconds

    def _cached_rows(self, columns: EmbeddingColumns) -> Floats:
        """Rows of a table that the last cache holds, shape [n]."""
        at_once = np.ceil(_RESIDENT_WARPS * self.device.num_sms / columns.batch_size)
        rows: Floats = np.floor(_CACHE_SHARE * self.device.l2_bytes / (at_once * columns.row_bytes))
        return rows


def memory_rate(device: Device) -> float:
    """Bytes per second that the study measured of a device's memory, in its share of the datasheet's."""
    share, _ = _RATES.get(device.die, _OTHER_RATES)
    return share * device.memory_bytes_per_second


def _slowness(dim: Floats) -> Floats:
    factor = np.ones(len(dim))
    for limit, slower in reversed(_SHORT_ROWS):
        factor = np.where(dim <= limit, slower, factor)
    return factor
