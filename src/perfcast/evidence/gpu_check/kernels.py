"""Kernels against forecasts: a calibration, and kernels that it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.core.dtype import DType
from perfcast.cost.linear import LinearCost
from perfcast.evidence.gpu_check.place import Found, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.measure.kernels import KernelCase, kernel_case, operation_of_case, prepare
from perfcast.measure.timer import Timer, time_on_cpu, time_on_cuda
from perfcast.units import MIB

#: Of products, rows, and numbers of elements, on a GPU; a dry run takes a sixteenth of each side.
_PRODUCTS = ((512, 512, 512), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 4096), (64, 8192, 8192))
_ROWS = ((4096, 1024), (8192, 4096))
_ELEMENTS = (MIB, 16 * MIB, 64 * MIB)
_ROUNDS = 5
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def check_calibration(place: Place) -> Found:
    """Lines fitted to this device, and its peaks beside the catalog's."""
    from perfcast.measure.calibrate import calibrate

    profile = calibrate(place.device, place.folder, quick=True)
    rows = []
    device, _ = place.forecaster()
    if not device.is_local:
        for label, dtype in (("fp32", DType.FP32),):
            peak = device.peak_flops_per_second(dtype, False)
            measured = profile.peak_flops_per_second.get(label)
            rows.append(CheckRow(what=f"peak {label}", unit="FLOP/s", measured=measured, forecast=peak,
                                 note="forecast is the datasheet"))  # fmt: skip
        rows.append(CheckRow(what="memory bandwidth", unit="B/s", measured=profile.dram_bytes_per_second,
                             forecast=device.memory_bytes_per_second,
                             note="forecast is the datasheet"))  # fmt: skip
    rows += [
        CheckRow(
            what=f"line of {line.family} ({line.dtype}), error left out", unit="share", measured=line.mape
        )
        for line in profile.lines
    ]
    return Found(tuple(rows), {"profile": profile.to_json()})


def check_kernels(place: Place) -> Found:
    """Kernels of sizes that the calibration does not hold, timed in turns and forecast."""
    device, cost_model = place.forecaster()
    if isinstance(cost_model, LinearCost):  # kernels are timed without the program around them
        alone = replace(cost_model.profile, host_seconds=0.0, optimizer_host_seconds=0.0)
        cost_model = LinearCost(alone)
    dtypes = ("fp32",) if place.is_dry or device.is_local else ("fp32", "bf16")
    timer: Timer = time_on_cpu if place.is_dry else time_on_cuda
    rows: list[CheckRow] = []
    for label in dtypes:
        cases = _cases(place, label)
        operations = [operation_of_case(case) for case in cases]
        with torch.no_grad():
            seconds = timer([prepare(case, place.device) for case in cases], _ROUNDS)
        found = cost_model.estimate(operations, device)
        for place_of, (case, measured) in enumerate(zip(cases, seconds, strict=True)):
            rows.append(
                CheckRow(
                    what=f"{case.key} {label}",
                    unit="s",
                    measured=measured,
                    forecast=float(found.seconds[place_of]),
                    low=float(found.seconds_low[place_of]),
                    high=float(found.seconds_high[place_of]),
                    note=found.provenance[place_of],
                )
            )
    return Found(tuple(rows), {"cost_model": cost_model.name})


def _cases(place: Place, label: str) -> list[KernelCase]:
    dtype, shrink = _DTYPES[label], 16 if place.is_dry else 1

    def filled(*shape: int) -> Callable[[str], Tensor]:
        return lambda device: torch.full(shape, 0.5, device=device, dtype=dtype)

    def case(name: str, label: str, run: Callable[..., Any], *makers: Callable[[str], Tensor]) -> KernelCase:
        return kernel_case(name, label, run, *makers)

    found = []
    for sides in _PRODUCTS:
        m, n, k = (max(side // shrink, 16) for side in sides)
        found.append(case("product", f"m={m} n={n} k={k}", torch.mm, filled(m, k), filled(k, n)))
    for height, length in _ROWS:
        rows, width = max(height // shrink, 16), max(length // shrink, 16)
        size = f"rows={rows} width={width}"
        found.append(case("softmax", size, lambda x: torch.softmax(x, -1), filled(rows, width)))
        found.append(
            case("layer_norm", size, lambda x: functional.layer_norm(x, x.shape[-1:]), filled(rows, width))
        )
        found.append(case("sum", size, lambda x: x.sum(-1), filled(rows, width)))
    for count in _ELEMENTS:
        count //= shrink
        found.append(case("add", f"n={count}", torch.add, filled(count), filled(count)))
        found.append(case("gelu", f"n={count}", functional.gelu, filled(count)))
    return found
