"""A curve that follows the measured points: straight between knots, never falling.

Between two knots the time is affine in the size (a latency and a rate of that stretch). A straight line on
logarithmic axes would be as simple but lies above every curve of the kind latency + bytes / rate between
two of its points, by 6 % where the two parts are equal and the knots a factor of four apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class Interpolated:
    """Knots, the first at size 0.

    Attributes:
        sizes_bytes: Rising, from 0.
        knot_seconds: Never falling.
        beyond_bytes_per_second: Rate at which every byte beyond the last knot moves; may be infinite.
    """

    sizes_bytes: tuple[float, ...]
    knot_seconds: tuple[float, ...]
    beyond_bytes_per_second: float

    def seconds(self, sizes_bytes: Floats) -> Floats:
        """Seconds of messages of any shape of array."""
        within = np.interp(sizes_bytes, self.sizes_bytes, self.knot_seconds)
        beyond = np.maximum(sizes_bytes - self.sizes_bytes[-1], 0.0)
        return np.asarray(within + beyond / self.beyond_bytes_per_second)


def fit_interpolated(
    sizes_bytes: Floats, seconds: Floats, knots_per_octave: int | None = None
) -> Interpolated:
    """Knots at the measured sizes, or at the medians of so many bins per doubling of the size.

    A median belongs to any rising curve whose points it stands for, so bins average noise out without
    moving the curve. Times that fall are pooled with their neighbours (``rising_medians``). The first
    stretch is continued to size 0, to a latency not below zero; the last two are continued to larger
    sizes, but no faster than at the last knot's own bytes per second.

    Args:
        sizes_bytes: Rising, all different.
        seconds: One for each, above zero.
        knots_per_octave: None takes every size.
    """
    if knots_per_octave is not None:
        sizes_bytes, seconds = _medians_of_bins(sizes_bytes, seconds, knots_per_octave)
    rising = rising_medians(seconds)
    if len(rising) < 2:
        return Interpolated((0.0, float(sizes_bytes[0])), (0.0, float(rising[0])), sizes_bytes[0] / rising[0])
    first_slope = (rising[1] - rising[0]) / (sizes_bytes[1] - sizes_bytes[0])
    latency = max(0.0, float(rising[0] - first_slope * sizes_bytes[0]))
    back = min(3, len(rising))
    last_slope = (rising[-1] - rising[-back]) / (sizes_bytes[-1] - sizes_bytes[-back])
    last_slope = min(float(last_slope), float(rising[-1] / sizes_bytes[-1]))
    return Interpolated(
        (0.0, *map(float, sizes_bytes)),
        (latency, *map(float, rising)),
        1 / last_slope if last_slope > 0 else float("inf"),
    )


def rising_medians(values: Floats) -> Floats:
    """The never-falling sequence nearest to the values in total absolute difference.

    Neighbours out of order are pooled and stand at their median (pool adjacent violators): one disturbed
    measurement pulls no others up, as it would with means.
    """
    if (values[1:] >= values[:-1]).all():
        return np.array(values, dtype=np.float64)
    pools: list[tuple[list[float], float]] = []
    for value in values.tolist():
        members, middle = [value], value
        while pools and pools[-1][1] > middle:
            members = sorted(pools.pop()[0] + members)
            middle = 0.5 * (members[(len(members) - 1) // 2] + members[len(members) // 2])
        pools.append((members, middle))
    return np.array([middle for members, middle in pools for _ in members], dtype=np.float64)


def _medians_of_bins(sizes_bytes: Floats, seconds: Floats, per_octave: int) -> tuple[Floats, Floats]:
    bins = np.floor(np.log2(sizes_bytes) * per_octave + 1e-9)
    edges = np.flatnonzero(np.diff(bins)) + 1
    sizes = np.array([np.median(part) for part in np.split(sizes_bytes, edges)])
    return sizes, np.array([np.median(part) for part in np.split(seconds, edges)])
