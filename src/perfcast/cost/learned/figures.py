"""Datasheet figures of devices in columns, one value per kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.kernel import encode_words
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.sustained import sustained_share

#: Arithmetic of a format by its measured name; fp64 was measured by nobody, but is priced.
ARITHMETIC: dict[str, DType] = {
    "fp64": DType.FP64,
    **{name: description.arithmetic for name, description in FORMATS.items()},
}

#: Where a device lacks a format, libraries fall back to a wider one at that one's rate.
_WIDER: dict[DType, tuple[DType, ...]] = {
    DType.FP4: (DType.FP8, DType.BF16, DType.FP16, DType.FP32),
    DType.FP8: (DType.BF16, DType.FP16, DType.FP32),
    DType.INT8: (DType.BF16, DType.FP16, DType.FP32),
    DType.BF16: (DType.FP16, DType.FP32),
    DType.FP16: (DType.BF16, DType.FP32),
    DType.TF32: (DType.FP32,),
}


#: Formats whose products add up in single precision.
_SINGLE_PRECISION_SUMS = (DType.TF32, DType.BF16, DType.FP16, DType.FP8)
#: Of one multiprocessor in 16 bits: Blackwell's tensor cores.
_MOST_FLOPS_PER_CYCLE = 8192.0


@dataclass(frozen=True)
class Figures:
    """Columns of shape [n].

    Attributes:
        matrix_flops_per_second: Peak of the units that do a product in the kernel's format.
        sustained_share: Part of that peak which the device can hold, see ``sustained``.
        operand_share: Of what matrix units at their full rate read in a cycle, see ``operand_share``.
        vector_flops_per_second: Peak of ordinary fp32 arithmetic.
        uses_matrix_units: Whether the format runs on matrix units.
        power_watts: NaN where unknown.
    """

    matrix_flops_per_second: Floats
    sustained_share: Floats
    operand_share: Floats
    vector_flops_per_second: Floats
    memory_bytes_per_second: Floats
    memory_bytes: Floats
    l2_bytes: Floats
    num_sms: Floats
    clock_hertz: Floats
    year: Floats
    power_watts: Floats
    uses_matrix_units: Flags

    def take(self, index: Integers | Flags) -> Figures:
        """The rows that ``index`` selects."""
        return Figures(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def collect_figures(devices: Sequence[Device], device_index: Integers, formats: Objects) -> Figures:
    """One row per kernel: ``devices[device_index[i]]`` computing in ``formats[i]``.

    Raises:
        KeyError: A format that ``ARITHMETIC`` does not list.
    """
    names, which = encode_words(formats)
    units = [[matrix_unit(device, ARITHMETIC[name]) for name in names] for device in devices]
    shape = (len(devices), len(names))
    rates = np.array([rate for row in units for rate, _ in row]).reshape(shape)
    on_matrix = np.array([matrix for row in units for _, matrix in row], dtype=bool).reshape(shape)
    operands = np.array([operand_share(d, ARITHMETIC[name]) for d in devices for name in names]).reshape(
        shape
    )
    shares = np.array([[sustained_share(d, False), sustained_share(d, True)] for d in devices])

    def column(values: list[float]) -> Floats:
        return np.array(values, dtype=np.float64)[device_index]

    uses_matrix_units = on_matrix[device_index, which]
    return Figures(
        matrix_flops_per_second=rates[device_index, which],
        sustained_share=shares[device_index, uses_matrix_units.astype(np.int64)],
        operand_share=operands[device_index, which],
        vector_flops_per_second=column([d.vector_flops_per_second[DType.FP32] for d in devices]),
        memory_bytes_per_second=column([d.memory_bytes_per_second for d in devices]),
        memory_bytes=column([d.memory_bytes for d in devices]),
        l2_bytes=column([d.l2_bytes for d in devices]),
        num_sms=column([equivalent_sms(d) for d in devices]),
        clock_hertz=column([d.clock_hertz for d in devices]),
        year=column([d.year for d in devices]),
        power_watts=column([np.nan if d.power_watts is None else d.power_watts for d in devices]),
        uses_matrix_units=uses_matrix_units,
    )


def equivalent_sms(device: Device) -> float:
    """Multiprocessors, or as many as its rate makes of the largest ones that GPUs have.

    A systolic array of a tensor processor does the work of many of them at a time.
    """
    widest = max((*device.matrix_flops_per_second.values(), *device.vector_flops_per_second.values()))
    sixteen_bit = [device.matrix_flops_per_second.get(d) for d in (DType.BF16, DType.FP16)]
    peak = next((rate for rate in sixteen_bit if rate), widest)
    return max(float(device.num_sms), peak / (device.clock_hertz * _MOST_FLOPS_PER_CYCLE))


def operand_share(device: Device, dtype: DType) -> float:
    """Operands that matrix units read in a cycle, over those that the rest of the chip is made to feed.

    GeForce boards run products that add up in single precision at half the rate of the same die's other
    boards, fed as these are: one half. Integers run at the full rate, so that int8 is four times fp16, not
    twice (NVIDIA, GA102, Ada and RTX Blackwell whitepapers, tables of peak rates).
    """
    int8, fp16 = (device.matrix_flops_per_second.get(d) for d in (DType.INT8, DType.FP16))
    halves = int8 is not None and fp16 is not None and int8 > 3.9 * fp16
    return 0.5 if halves and dtype in _SINGLE_PRECISION_SUMS else 1.0


def matrix_unit(device: Device, dtype: DType) -> tuple[float, bool]:
    """Peak of products in a type, or in the narrowest wider one that the device has; on matrix units?"""
    for candidate in (dtype, *_WIDER.get(dtype, ())):
        if candidate in device.matrix_flops_per_second:
            return device.matrix_flops_per_second[candidate], True
        if candidate in device.vector_flops_per_second:
            return device.vector_flops_per_second[candidate], False
    return device.vector_flops_per_second[DType.FP32], False


def streams_weights(operation: Operation, device: Device) -> bool:
    """Whether a product's traffic takes longer than its arithmetic at the device's peaks."""
    rate, _ = matrix_unit(device, operation.compute_dtype)
    return operation.flops / rate < operation.memory_traffic_bytes / device.memory_bytes_per_second
