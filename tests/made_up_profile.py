"""A calibration of a made-up processor: lines of products and of elementwise work."""

from __future__ import annotations

from perfcast.core.dtype import DType
from perfcast.cost.families import Features
from perfcast.cost.linear import Measurement, fit_lines
from perfcast.cost.profile import DeviceProfile

_SIZES = (100, 1000, 10_000, 100_000, 1_000_000)


def profile(num_threads: int = 2) -> DeviceProfile:
    """Elementwise work at 20 GB/s behind 3 µs."""
    measurements = [
        Measurement(f"add {size}", Features("elementwise", DType.FP32, size // 12, size), 3e-6 + size / 2e10)
        for size in _SIZES
    ]
    return DeviceProfile(
        device="cpu", processor="Made Up", num_threads=num_threads, num_cores=2, memory_bytes=2**34,
        cache_bytes=2**25, peak_flops_per_second={"fp32": 2e11}, memory_bytes_per_second=1e11,
        dram_bytes_per_second=2e10, launch_seconds=2e-6, host_seconds=3e-6, optimizer_host_seconds=0.0,
        torch_version="2.13.0", measured_at="2026-01-01T00:00:00+00:00", lines=fit_lines(measurements).lines,
    )  # fmt: skip
