"""Kernels that memory or plain arithmetic bounds: max(c_f · n / P, c_b · 4 n / B) for n fp32 elements.

c_f and c_b are the study's constants by operator; P and B are what it measured of a device, in shares of the
datasheet's (``cost/embedding/heuristic`` says those of memory). Of devices that it did not measure the
medians stand. Source: owensgroup/ml_perf_model, the constants of its element-wise models and its table of
hardware (P in GFLOP/s: A100 15026.6, V100 15441.5, GV100 13035.9, Titan Xp 10768.6, P100 9343.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.embedding.heuristic import memory_rate
from perfcast.published.comparison import print_part

_FP32_BYTES = 4
#: Measured over the datasheet's fp32 peak, by die; and the median.
_PEAK_SHARE = {"GA100": 0.77, "GV100": 0.98, "GP102": 0.89, "GP100": 0.98}
_OTHER_PEAK_SHARE = 0.89
#: Of the memory's pace, where a concatenation reads and writes.
_CONCATENATION_SHARE = 0.79


@dataclass(frozen=True, slots=True)
class Work:
    """Of each element: floating-point operations, and elements that cross the memory interface."""

    flops: float
    elements: float


_ONE_IN_ONE_OUT, _TWO_IN_ONE_OUT = Work(1, 2), Work(1, 3)
_MOVED = Work(0, 2)

#: By PyTorch's name of the operator, without the underscore of those in place.
OPERATORS: Mapping[str, Work] = {
    "relu": _ONE_IN_ONE_OUT,
    "threshold_backward": _ONE_IN_ONE_OUT,
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div"), _TWO_IN_ONE_OUT),
    "sigmoid": Work(4, 2),
    "sigmoid_backward": Work(2, 2),
    "binary_cross_entropy": Work(7, 3),
    "binary_cross_entropy_backward": Work(4, 3),
    "mse_loss": Work(3, 3),
    "mse_loss_backward": _TWO_IN_ONE_OUT,
    "sum": Work(1, 1),
    "gelu": Work(175, 2),
    "gelu_backward": Work(255, 2),
    "_softmax": Work(174, 2),
    "_softmax_backward_data": Work(2, 4),
    "native_dropout_backward": Work(2, 3),
    "tanh": Work(180, 2),
    "tanh_backward": Work(260, 2),
    "pow": Work(180, 2),
    **dict.fromkeys(("copy", "clone", "_to_copy", "contiguous", "ones_like", "zero"), _MOVED),
    "cat": Work(0, 2 / _CONCATENATION_SHARE),
    "index_select": _MOVED,
}

#: Kernels of the NeuSight study's tables by its names; 'u' is of a tensor and a number.
MEASURED: Mapping[str, Work] = {
    **dict.fromkeys(("add", "mul", "div"), _TWO_IN_ONE_OUT),
    **dict.fromkeys(("addu", "mulu", "divu", "relu"), _ONE_IN_ONE_OUT),
    "pow": Work(180, 3),
    "powu": Work(180, 2),
    "gelu": OPERATORS["gelu"],
    "tanh": OPERATORS["tanh"],
    "softmax": OPERATORS["_softmax"],
}


def work_seconds(work: Work, elements: Floats, device: Device) -> Floats:
    """Seconds of kernels of so many elements, shape [n]."""
    peak = _PEAK_SHARE.get(device.die, _OTHER_PEAK_SHARE) * device.vector_flops_per_second[DType.FP32]
    arithmetic = work.flops * elements / peak
    seconds: Floats = np.maximum(arithmetic, work.elements * _FP32_BYTES * elements / memory_rate(device))
    return seconds


def operation_seconds(operation: Operation, device: Device) -> float | None:
    """Seconds of an operation of ``OPERATORS``; None for any other."""
    work = OPERATORS.get(operation.name.removeprefix("aten.").removesuffix("_"))
    if work is None or not operation.outputs:
        return None
    if work is _TWO_IN_ONE_OUT and sum(bool(tensor.shape) for tensor in operation.inputs) < 2:
        work = _ONE_IN_ONE_OUT  # a tensor and a number
    counted = operation.inputs if operation.name == "sum" else operation.outputs
    elements = np.array([float(max(tensor.num_elements for tensor in counted))])
    return float(work_seconds(work, elements, device)[0])


if __name__ == "__main__":
    print_part("multi_gpu_2024.memory_bound", "multi_gpu_2024")
