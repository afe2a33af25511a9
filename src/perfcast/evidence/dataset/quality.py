"""Which measurements to trust, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.kernel import SIZES, WORDS, KernelFamily
from perfcast.core.machine.hardware import Device
from perfcast.evidence.dataset.draft import UNKNOWN_DEVICE
from perfcast.evidence.dataset.measurements import Measurements
from perfcast.evidence.dataset.words import encode, look_up
from perfcast.evidence.dataset.work import least_work
from perfcast.units import GIGA

#: How much faster than its bound a kernel may seem: of six million calls of aiconfigurator, NeuSight, Vidur,
#: AITER and SimuMax, sound series end at 1.03 (clocks above the datasheet's, rounding); those beyond 1.05
#: belong to series that reach 1.2 to 90.
PEAK_TOLERANCE = 1.05

#: Part of the launch floor below which nothing was measured: kernels replayed in a graph overlap a little and
#: reach 0.55 of the floor; what is faster are differences of two times, or times of 1 µs cut to whole ones.
FLOOR_FRACTION = 0.5

#: vLLM's bf16 products were timed on weights that are not random, which cost less power: they run 3 % too
#: fast from here on, and 10 to 30 % at a hundred times the work.
_VLLM_LARGE_FLOPS = 100 * GIGA

#: Key heads of every gated delta net in the tables; fewer are a tensor-parallel share.
_UNSPLIT_KEY_HEADS = 16


def judge(measurements: Measurements, devices: Mapping[str, Device]) -> Objects:
    """'' for a measurement to keep, else the first reason of these, shape [n].

    'unknown device' (not in ``devices``), 'known fault: …', 'above peak', 'below launch floor', and
    'duplicate' for all but the median of calls with equal configuration, device and framework. Judge a table
    before joining it to others: faults are known by table.
    """
    verdict = np.full(len(measurements), "", dtype=object)
    known = look_up(measurements.catalog_device, lambda name: name in devices) > 0
    verdict[~known] = UNKNOWN_DEVICE
    for reason, find in _KNOWN_FAULTS.items():
        verdict[(verdict == "") & find(measurements)] = f"known fault: {reason}"
    bound, floor = _least_seconds(measurements, devices)
    verdict[(verdict == "") & (measurements.seconds * PEAK_TOLERANCE < bound)] = "above peak"
    verdict[(verdict == "") & (measurements.seconds < floor * FLOOR_FRACTION)] = "below launch floor"
    kept = np.flatnonzero(verdict == "")
    verdict[kept[~is_median_of_equals(measurements.take(kept))]] = "duplicate"
    return verdict


def is_median_of_equals(measurements: Measurements) -> Flags:
    """For each configuration, device and framework one True: at the (lower) median of the seconds."""
    kernels = measurements.kernels
    keys: dict[str, Floats | Integers] = {name: kernels.size(name) for name in SIZES[kernels.family]}
    keys |= {name: encode(kernels.word(name))[1] for name in WORDS[kernels.family]}
    keys["device"] = encode(measurements.device)[1]
    frame = pl.DataFrame(keys)
    repeated = frame.is_duplicated()
    chosen = (
        frame.with_columns(
            pl.Series("seconds", measurements.seconds), pl.Series("index", np.arange(len(measurements)))
        )
        .filter(repeated)
        .group_by(list(keys))
        .agg(pl.col("index").sort_by("seconds", "index").get((pl.len() - 1) // 2))
    )
    result = ~repeated.to_numpy()
    result[chosen["index"].to_numpy()] = True
    return result


# ---- bounds -----------------------------------------------------------------------------------------


def _least_seconds(measurements: Measurements, devices: Mapping[str, Device]) -> tuple[Floats, Floats]:
    """Roofline and launch floor of each call; 0 for unknown devices.

    What fits the last shared cache may stay there from one run to the next, so memory bounds only the rest.
    """
    names = measurements.catalog_device

    def figure(of: Callable[[Device], float]) -> Floats:
        return look_up(names, lambda name: of(devices[name]) if name in devices else np.inf)

    work = least_work(measurements.kernels)
    beyond_cache = np.maximum(work.bytes - figure(lambda d: d.l2_bytes), 0)
    memory = beyond_cache / figure(lambda d: d.memory_bytes_per_second)
    floor = figure(lambda d: d.launch_seconds)
    bound = np.maximum(work.flops / _peak_flops(measurements, devices), memory)
    return bound, np.where(np.isfinite(floor), floor, 0)


def _peak_flops(measurements: Measurements, devices: Mapping[str, Device]) -> Floats:
    """Peak of each call's format on its device; attention over an fp8 cache may multiply in fp8."""
    names, device_codes = encode(measurements.catalog_device)

    def peaks(word: str) -> Floats:
        formats, codes = encode(measurements.kernels.word(word))
        table = [
            [
                peak_flops_per_second(devices[n], FORMATS[f].arithmetic) if n in devices else np.inf
                for f in formats
            ]
            for n in names
        ]
        return np.array(table).reshape(len(names), len(formats))[device_codes, codes]

    if measurements.kernels.family is KernelFamily.ATTENTION:
        return np.maximum(peaks("dtype"), peaks("kv_dtype"))
    return peaks("dtype")


def peak_flops_per_second(device: Device, dtype: DType) -> float:
    """The highest peak in ``dtype`` or a type no narrower, in which a device without it computes.

    TF32 counts for itself alone: fp32 is measured with TF32 off.
    """
    tables = (device.matrix_flops_per_second, device.vector_flops_per_second)
    return max(
        rate
        for table in tables
        for has, rate in table.items()
        if has.bits >= dtype.bits and (has is not DType.TF32 or dtype is DType.TF32)
    )


# ---- faults of single tables ---------------------------------------------------------------------------


def _is(column: Objects, *words: str) -> Flags:
    return look_up(column, lambda word: word in words) > 0


def _vllm_large_products(measurements: Measurements) -> Flags:
    kernels = measurements.kernels
    if kernels.family is not KernelFamily.PRODUCT or measurements.source != "aiconfigurator":
        return np.zeros(len(measurements), dtype=bool)
    large = least_work(kernels).flops >= _VLLM_LARGE_FLOPS
    linear = _is(kernels.word("operation"), "linear")
    return large & linear & _is(kernels.word("framework"), "vllm") & _is(kernels.word("dtype"), "bf16")


def _p4_linear(measurements: Measurements) -> Flags:
    """The study's two tables of linear layers on the P4 disagree three- to fourfold: other kernels ran."""
    if measurements.table not in ("linear_test", "matmul_train"):
        return np.zeros(len(measurements), dtype=bool)
    linear = _is(measurements.kernels.word("operation"), "linear")
    return linear & _is(measurements.catalog_device, "p4")


def _scale_by_difference(measurements: Measurements) -> Flags:
    """Half of these are below 1 µs, and some are ninety times faster than memory: no kernel was timed."""
    if measurements.kernels.family is not KernelFamily.ROWS:
        return np.zeros(len(measurements), dtype=bool)
    kernels = measurements.kernels
    return _is(kernels.word("operation"), "quant_compute_scale") & _is(
        kernels.word("framework"), "vllm", "sglang"
    )


def _unscaled_convolution(measurements: Measurements) -> Flags:
    """Convolutions of unsplit gated delta nets take the same time for 6,144 as for 12,288 channels.

    So they were timed on some other number of them; at length they seem up to seventeen times as fast as
    memory, and take a tenth to four tenths of vLLM's time, where others agree with it within 6 %.
    """
    kernels = measurements.kernels
    if kernels.family is not KernelFamily.SCAN or not measurements.table.startswith("gdn"):
        return np.zeros(len(measurements), dtype=bool)
    unsplit: Flags = kernels.size("num_key_heads") == _UNSPLIT_KEY_HEADS
    convolution = _is(kernels.word("operation"), "causal_conv1d_fn")
    return unsplit & convolution & _is(kernels.word("framework"), "sglang", "trtllm")


_KNOWN_FAULTS: Mapping[str, Callable[[Measurements], Flags]] = {
    "vLLM timed large bf16 products on weights that are not random": _vllm_large_products,
    "two tables of linear layers on the P4 disagree fourfold": _p4_linear,
    "the scale's time is a difference of two times": _scale_by_difference,
    "the convolution was timed on another number of channels": _unscaled_convolution,
}
