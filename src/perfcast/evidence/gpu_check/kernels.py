"""Kernels against forecasts: a calibration, and kernels that it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.cost.linear import LinearCost
from perfcast.cost.model import Estimates
from perfcast.evidence.gpu_check.place import Found, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.measure.few.bench import Timed, open_bench
from perfcast.measure.few.cases import FewCase
from perfcast.measure.kernels import KernelCase, kernel_case, operation_of_case, prepare
from perfcast.measure.timer import time_on_cpu
from perfcast.units import MIB

#: Of products, rows, and numbers of elements, on a GPU; a dry run takes a sixteenth of each side.
_PRODUCTS = ((512, 512, 512), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 4096), (64, 8192, 8192))
_ROWS = ((4096, 1024), (8192, 4096))
_ELEMENTS = (MIB, 16 * MIB, 64 * MIB)
_ROUNDS = 5
_GROUP = 6
_DTYPES = {"fp32": (DType.FP32, torch.float32), "bf16": (DType.BF16, torch.bfloat16)}


def check_calibration(place: Place) -> Found:
    """Lines fitted to this device, and how well they say what was left out of their fit."""
    from perfcast.measure.calibrate import calibrate

    profile = calibrate(place.device, place.folder, quick=True)
    rows = [
        CheckRow(
            what=f"line of {line.family} ({line.dtype}), error left out", unit="share", measured=line.mape
        )
        for line in profile.lines
    ]
    return Found(tuple(rows), {"profile": profile.to_json()})


def check_kernels(place: Place) -> Found:
    """Kernels of sizes that the calibration does not hold, timed in turns and forecast; the rates they reach.

    On a GPU they are replayed as CUDA graphs, from memory, under load, as ``perfcast measure kernels`` times
    them: a short kernel would else be paced by its launches.
    """
    device, cost_model = place.forecaster()
    if isinstance(cost_model, LinearCost):  # kernels are timed without the program around them
        alone = replace(cost_model.profile, host_seconds=0.0, optimizer_host_seconds=0.0)
        cost_model = LinearCost(alone)
    rows: list[CheckRow] = []
    for label in ("fp32",) if place.is_dry else ("fp32", "bf16"):
        cases = _cases(place, label)
        times = _timed(place, cases, label)
        operations = [operation_of_case(case) for case in cases]
        found = None if cost_model is None else cost_model.estimate(operations, device)
        rows += [
            _row(f"{case.key} {label}", one, found, place_of)
            for place_of, (case, one) in enumerate(zip(cases, times, strict=True))
        ]
        if not place.is_dry:
            rows += _rates(operations, times, label, device if place.catalog_name() else None)
    return Found(tuple(rows), {"cost_model": cost_model.name if cost_model else None})


def _timed(place: Place, cases: Sequence[KernelCase], label: str) -> list[Timed]:
    if not place.is_dry:
        bench = open_bench(place.device)
        bench.load_seconds()
        few = [FewCase(case, _DTYPES[label][0]) for case in cases]
        return [
            one for start in range(0, len(few), _GROUP) for one in bench.time(few[start : start + _GROUP])
        ]
    with torch.no_grad():
        return [Timed(s) for s in time_on_cpu([prepare(case, place.device) for case in cases], _ROUNDS)]


def _row(what: str, timed: Timed, found: Estimates | None, place_of: int) -> CheckRow:
    row = CheckRow(what=what, unit="s", measured=timed.seconds, note=timed.reason)
    if found is None:
        return row
    source = found.provenance[place_of]
    return replace(
        row, forecast=float(found.seconds[place_of]), low=float(found.seconds_low[place_of]),
        high=float(found.seconds_high[place_of]), note=f"{source}; {row.note}" if row.note else source,
    )  # fmt: skip


def _rates(
    operations: Sequence[Operation], times: Sequence[Timed], label: str, device: Device | None
) -> list[CheckRow]:
    """The fastest product, and the traffic of the largest kernels, beside the datasheet of a known device."""
    dtype = _DTYPES[label][0]
    timed = [(one, t.seconds) for one, t in zip(operations, times, strict=True) if t.seconds]
    flops = [one.flops / seconds for one, seconds in timed if one.kind is OperationKind.MATMUL]
    largest = max((one.memory_traffic_bytes for one, _ in timed), default=0)
    bytes_ = [
        one.memory_traffic_bytes / seconds for one, seconds in timed if one.memory_traffic_bytes > largest / 2
    ]
    note = "the fastest here; forecast is the datasheet" if device else "the fastest here"
    rows = []
    if flops:
        peak = device.peak_flops_per_second(dtype, True) if device else None
        rows.append(
            CheckRow(what=f"products {label}", unit="FLOP/s", measured=max(flops), forecast=peak, note=note)
        )
    if bytes_:
        rate = device.memory_bytes_per_second if device else None
        rows.append(
            CheckRow(what=f"memory {label}", unit="B/s", measured=max(bytes_), forecast=rate, note=note)
        )
    return rows


def _cases(place: Place, label: str) -> list[KernelCase]:
    dtype, shrink = _DTYPES[label][1], 16 if place.is_dry else 1

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
