"""Fitted lines: latency, rate and bandwidth of each family of operations, measured on the device.

    seconds = host + max(compute, memory)
    compute = latency + W / rate            W = flops, or for products 2·batch·(m + a)(n + b)(k + c)
    memory  = latency + B / bandwidth + max(B - cache, 0) · (1 / beyond - 1 / bandwidth)

as in the cost model of an automatic-parallelism project (max of two linear models per operator family
and element type), with two terms of physics more. A product pays for a few rows and columns more than it
has, since tiles have edges, operands are packed (m·k and k·n values moved) and the result is written
(m·n): a, b and c of one fit stand for all three. Traffic beyond the cache moves at memory's bandwidth:
two slopes, the second never the smaller. Both keep the estimate monotone in work.

The fit is on relative error, since sizes span six decades: least squares of log(fitted / measured) with
the soft-L1 loss, and again without what then lies a factor of five off. ``host`` is what the program
around a kernel takes (interpreter, autograd), one figure per device and one for optimizers that loop over
parameters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from perfcast.core.arrays import Flags, Floats
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.families import PRODUCT_FAMILIES, Features, features_of
from perfcast.cost.model import UNKNOWN_SPREAD, Estimates, is_free, roofline_seconds
from perfcast.cost.profile import DeviceProfile, Line, RefusedFamily
from perfcast.cost.spread import load_spread
from perfcast.errors import CalibrationError
from perfcast.units import GIGA, MIB

#: A family with fewer measurements is not fitted; its operations stay bounded.
MIN_MEASUREMENTS = 4
_HELD_OUT_SHARE = 5
_OUTLIER_RATIO = 5.0
_SOFT_SCALE = 0.1
_MOST_OUTLIERS = 0.2
_MOST_ROUNDS = 4
_FLOATS = (DType.FP64, DType.FP32, DType.BF16, DType.FP16, DType.FP8)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timed operation; ``key`` names the case and decides whether it is held out."""

    key: str
    features: Features
    seconds: float


# ---- pricing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearCost:
    """Lines of one profile; see the module for the formula."""

    profile: DeviceProfile
    name: str = "linear"

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation by the line of its family and element type.

        One whose family was not calibrated is an explicit bound: its traffic at the bandwidth beyond
        the caches, marked 'bounded', with the interval of an unknown operation.
        """
        lines = {(line.family, line.dtype): line for line in self.profile.lines}
        bound = roofline_seconds(operations, device)
        seconds, spread = np.zeros(len(operations)), np.ones(len(operations))
        bound_by, provenance = [], []
        for i, operation in enumerate(operations):
            features = features_of(operation)
            line = _line_for(features, lines)
            if line is None:
                seconds[i] = self._bounded_seconds(features)
                spread[i] = UNKNOWN_SPREAD
                limit, source = "memory", "bounded"
            else:
                seconds[i], limit = line_seconds(line, features)
                spread[i] = max(load_spread(self.name), line.spread)
                source = _provenance(features, line)
            seconds[i] += self._host_seconds(features.family)
            bound_by.append(limit)
            provenance.append(source)
        runs = ~is_free(operations)
        seconds = np.where(runs, np.maximum(seconds, bound), 0.0)
        return Estimates(
            seconds=seconds,
            seconds_low=np.where(runs, bound, 0.0),
            seconds_high=np.where(runs, seconds * spread, 0.0),
            bound_by=tuple(b if r else "nothing" for b, r in zip(bound_by, runs, strict=True)),
            provenance=tuple(provenance),
        )

    def _bounded_seconds(self, features: Features) -> float:
        traffic = features.memory_traffic_bytes / self.profile.dram_bytes_per_second
        return self.profile.launch_seconds + traffic

    def _host_seconds(self, family: str) -> float:
        if family == "first_touch":
            return 0.0
        return self.profile.optimizer_host_seconds if family == "update" else self.profile.host_seconds


def line_seconds(line: Line, features: Features) -> tuple[float, str]:
    """Seconds by a line, without the program around it, and what bounds them."""
    work = _padded_flops(features, (line.edge_m, line.edge_n, line.edge_k))
    compute = float(work) / line.flops_per_second
    memory = float(
        _memory_seconds(
            features.memory_traffic_bytes,
            line.bytes_per_second,
            line.cache_bytes,
            line.bytes_per_second_beyond,
        )
    )
    busy = max(compute, memory)
    if busy < line.latency_seconds:
        return line.latency_seconds + busy, "launch"
    return line.latency_seconds + busy, "compute" if compute >= memory else "memory"


def _line_for(features: Features, lines: dict[tuple[str, str], Line]) -> Line | None:
    """The family's line; integers and truth values move like fp32, byte for byte."""
    line = lines.get((features.family, features.dtype.label))
    if line is None and features.dtype not in _FLOATS:
        line = lines.get((features.family, DType.FP32.label))
    return line


def _provenance(features: Features, line: Line) -> str:
    is_inside = (
        features.memory_traffic_bytes <= line.most_bytes and features.executed_flops <= line.most_flops
    )
    return "interpolated" if is_inside and features.dtype.label == line.dtype else "extrapolated"


def _padded_flops(features: Features, edges: tuple[float, float, float]) -> float:
    """flops · (1 + a/m)(1 + b/n)(1 + c/k)."""
    flops = float(features.executed_flops)
    if features.shape is None:
        return flops
    for size, edge in zip(features.shape[1:], edges, strict=True):
        flops *= 1.0 + edge / max(size, 1.0)
    return flops


def _memory_seconds(traffic: Floats | float, bandwidth: float, cache: float, beyond: float) -> Floats | float:
    extra = np.maximum(traffic - cache, 0.0) if math.isfinite(cache) else 0.0
    return traffic / bandwidth + extra * max(1.0 / beyond - 1.0 / bandwidth, 0.0)


# ---- fitting -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fits:
    """What measurements give: a line per family and element type, or why there is none."""

    lines: tuple[Line, ...]
    refused: tuple[RefusedFamily, ...] = ()


def fit_lines(measurements: Sequence[Measurement]) -> Fits:
    """A line of each family and element type that was measured often enough, refused where it is none.

    Raises:
        CalibrationError: A time is not positive.
    """
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        if not (math.isfinite(measurement.seconds) and measurement.seconds > 0):
            raise CalibrationError(f"{measurement.key}: measured {measurement.seconds} s, which cannot be")
        features = measurement.features
        groups.setdefault((features.family, features.dtype.label), []).append(measurement)
    lines, refused = [], []
    for (family, dtype), group in sorted(groups.items()):
        if len(group) < MIN_MEASUREMENTS:
            continue
        try:
            lines.append(fit_line(family, dtype, group))
        except CalibrationError as error:
            refused.append(RefusedFamily(family, dtype, len(group), str(error)))
    return Fits(tuple(lines), tuple(refused))


def fit_line(family: str, dtype: str, measurements: Sequence[Measurement]) -> Line:
    """Fit one family; quality is of a fit without the held-out fifth, the line of a fit with all.

    Raises:
        CalibrationError: More work takes less time, or the line says nothing of what was left out of it
            (``Line.quality``); the message is a part of a sentence.
    """
    ordered = sorted(measurements, key=lambda m: m.key)
    columns = _Columns.of(ordered)
    _refuse_negative_slope(family, columns)
    is_held_out = np.array([_is_held_out(m.key) for m in ordered])
    fitted = _fit_without_outliers(family, columns)
    if is_held_out.any() and (~is_held_out).sum() >= MIN_MEASUREMENTS:
        judged, predicted = (
            columns.where(is_held_out),
            _fit_without_outliers(family, columns.where(~is_held_out)),
        )
    else:
        judged, predicted = columns, fitted
    ratio = np.exp(_log_seconds(predicted, judged) - np.log(judged.seconds))
    logs = np.log(judged.seconds)
    variance = float(((logs - np.log(columns.seconds).mean()) ** 2).sum())
    r_squared = 1.0 - float((np.log(ratio) ** 2).sum()) / variance if variance > 0 else 0.0
    latency, rate, a, b, c, bandwidth, cache, beyond = fitted.tolist()
    all_ratios = columns.seconds / np.exp(_log_seconds(fitted, columns))
    line = Line(
        family,
        dtype,
        latency_seconds=latency,
        flops_per_second=rate,
        edge_m=a,
        edge_n=b,
        edge_k=c,
        bytes_per_second=bandwidth,
        cache_bytes=cache,
        bytes_per_second_beyond=min(beyond, bandwidth),
        count=len(ordered),
        r_squared=r_squared,
        mape=float(np.abs(ratio - 1.0).mean()),
        least_flops=float(columns.flops.min()),
        most_flops=float(columns.flops.max()),
        least_bytes=float(columns.traffic.min()),
        most_bytes=float(columns.traffic.max()),
        largest_ratio=max(float(np.quantile(all_ratios, 0.95)), 1.0),
    )
    if line.quality == "refused":
        raise CalibrationError(line.described_quality)
    return line


@dataclass(frozen=True)
class _Columns:
    """Measurements of one family as arrays; sizes are [n, 3] for m, n and k."""

    flops: Floats
    traffic: Floats
    sizes: Floats
    seconds: Floats

    @classmethod
    def of(cls, measurements: Sequence[Measurement]) -> _Columns:
        return cls(
            np.array([float(m.features.executed_flops) for m in measurements]),
            np.array([float(m.features.memory_traffic_bytes) for m in measurements]),
            np.array([m.features.shape[1:] if m.features.shape else (1.0,) * 3 for m in measurements]),
            np.array([m.seconds for m in measurements]),
        )

    def where(self, chosen: Flags) -> _Columns:
        return _Columns(self.flops[chosen], self.traffic[chosen], self.sizes[chosen], self.seconds[chosen])


def _log_seconds(parameters: Floats, columns: _Columns) -> Floats:
    latency, rate, a, b, c, bandwidth, cache, beyond = parameters
    edges = np.array([a, b, c])
    work = columns.flops * (1.0 + edges / np.maximum(columns.sizes, 1.0)).prod(axis=1)
    memory = _memory_seconds(columns.traffic, bandwidth, cache, min(beyond, bandwidth))
    return np.asarray(np.log(latency + np.maximum(work / rate, memory)), dtype=np.float64)


#: Bounds of latency, rate, edges, bandwidth, cache, bandwidth beyond it: wide, but of this world.
_LOWER = np.array([1e-8, 1e-3 * GIGA, 1e-2, 1e-2, 1e-2, 1e-2 * GIGA, 0.25 * MIB, 1e-2 * GIGA])
_UPPER = np.array([1e-2, 1e7 * GIGA, 256.0, 256.0, 256.0, 1e6 * GIGA, 256.0 * MIB, 1e6 * GIGA])


def _fit_without_outliers(family: str, columns: _Columns) -> Floats:
    """Fit, set aside what lies a factor of five off (at most a fifth of the measurements), fit again.

    An outlier that pulls the first fit towards itself shows in the second.
    """
    fitted = _fit(family, columns)
    was_outlier = np.zeros(len(columns.seconds), dtype=bool)
    for _ in range(_MOST_ROUNDS):
        distance = np.abs(_log_seconds(fitted, columns) - np.log(columns.seconds))
        is_outlier = distance > math.log(_OUTLIER_RATIO)
        if (is_outlier == was_outlier).all() or is_outlier.mean() > _MOST_OUTLIERS:
            break
        fitted, was_outlier = _fit(family, columns.where(~is_outlier)), is_outlier
    return fitted


def _fit(family: str, columns: _Columns) -> Floats:
    """Parameters in the order of ``_log_seconds``; those that a family does not have stay fixed."""
    is_product = family in PRODUCT_FAMILIES
    free = np.array([True, columns.flops.max() > 0, is_product, is_product, is_product, True, True, True])
    best, least = None, math.inf
    for start in _starts(columns, is_product):
        fixed = np.log(start)

        def residuals(theta: Floats, fixed: Floats = fixed) -> Floats:
            full = fixed.copy()
            full[free] = theta
            return _log_seconds(np.exp(full), columns) - np.log(columns.seconds)

        bounds = (np.log(_LOWER[free]), np.log(_UPPER[free]))
        # Coarse first: from afar the sharp loss has no slope to follow. Sharp at once: from near, outliers
        # cannot lead it away.
        for scales in ((1.0, _SOFT_SCALE), (_SOFT_SCALE,)):
            theta = np.clip(fixed[free], bounds[0] + 1e-9, bounds[1] - 1e-9)
            for scale in scales:
                result = least_squares(
                    residuals,
                    theta,
                    bounds=bounds,
                    loss="soft_l1",
                    f_scale=scale,
                    max_nfev=400,
                    x_scale="jac",
                )
                theta = np.clip(result.x, bounds[0] + 1e-9, bounds[1] - 1e-9)
            if result.cost < least:
                full = fixed.copy()
                full[free] = result.x
                best, least = np.exp(full), result.cost
    assert best is not None
    if not is_product:
        best[2:5] = 0.0
    return np.asarray(best, dtype=np.float64)


def _starts(columns: _Columns, is_product: bool) -> list[Floats]:
    """Compute-bound, memory-bound and balanced beginnings."""
    latency = 0.5 * float(columns.seconds.min())
    rate = max(float(np.quantile(columns.flops / columns.seconds, 0.9)), 1.0)
    bandwidth = max(float(np.quantile(columns.traffic / columns.seconds, 0.9)), 1.0)
    edge = 8.0 if is_product else 1.0
    return [
        np.array([latency, rate * r, edge, edge, edge, bandwidth * w, cache, bandwidth * w / 2])
        for r, w in ((1.0, 1.0), (1.0, 8.0), (8.0, 1.0))
        for cache in (4.0 * MIB, 32.0 * MIB)
    ]


def _refuse_negative_slope(family: str, columns: _Columns) -> None:
    """The median slope of log seconds over log work (Theil and Sen's) must not fall."""
    work = np.log(np.maximum(columns.flops if family in PRODUCT_FAMILIES else columns.traffic, 1.0))
    seconds = np.log(columns.seconds)
    i, j = np.triu_indices(len(work), k=1)
    apart = np.abs(work[j] - work[i]) > math.log(2.0)
    if not apart.any():
        return
    slope = float(np.median((seconds[j] - seconds[i])[apart] / (work[j] - work[i])[apart]))
    if slope < 0:
        raise CalibrationError(f"time falls with work (log-log slope {slope:.2f})")


def _is_held_out(key: str) -> bool:
    return hashlib.sha256(key.encode()).digest()[0] % _HELD_OUT_SHARE == 0
