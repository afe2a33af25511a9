"""Kernels that stream memory, where nobody measured them alone: what whole steps of vision models show.

    seconds = launch + constant · seconds of its traffic (``families.streaming``)

A kernel whose traffic is far larger than the last-level cache runs at some 0.9 of the memory's rate on boards
whose soldered memory keeps no check bits; of less, the cache keeps a part. The law stands in for the measured
rows (``families.rows``) on such boards, of which no row kernel was ever measured. On all others its constants
alone are used, for operations that nobody measured on any device: batch norm, pooling and resizing, whose
tensors are read more than once or by too few threads.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.families import family_of
from perfcast.cost.learned.families.streaming import stream_seconds

Kind = OperationKind

#: Of a kernel on the device.
LAUNCH_SECONDS = 3e-6
#: Kinds that stream; lookups, sorting and losses of few elements keep their price.
_STREAMING = frozenset(
    {Kind.ELEMENTWISE, Kind.NORMALIZATION, Kind.POOLING, Kind.COPY, Kind.REDUCTION, Kind.SOFTMAX, Kind.FILL}
)


@dataclass(frozen=True)
class Stream:
    """One operation's part of the law: its class, and seconds with constant 1."""

    name: str
    seconds: float


def stream_of(operation: Operation, device: Device) -> Stream | None:
    """The class of an operation and its ideal seconds; None for one that does not stream."""
    if operation.kind not in _STREAMING:
        return None
    name = class_of(operation)
    if name.startswith("resize") and not name.endswith("nhwc"):
        return Stream(name, _resize_seconds(operation, device))
    return Stream(name, _stream_seconds(operation, device))


def _stream_seconds(operation: Operation, device: Device) -> float:
    traffic = float(operation.memory_traffic_bytes)
    return stream_seconds(traffic, device.memory_bytes_per_second, float(device.l2_bytes))


def _resize_seconds(operation: Operation, device: Device) -> float:
    """A thread for each pixel, which goes over all images and channels; cycles of one of its turns.

    (PyTorch, aten/src/ATen/native/cuda/UpSampleBilinear2d.cu, ``upsample_bilinear2d_out_frame``.)
    """
    shape = operation.outputs[0].shape
    turns = float(np.prod(shape[:2])) if len(shape) > 2 else 1.0
    waves = np.ceil(np.prod(shape[2:]) / (device.num_sms * _THREADS_PER_SM))
    waiting = float(turns * waves * _RESIZE_CYCLES / device.clock_hertz)
    return max(waiting, _stream_seconds(operation, device))


_THREADS_PER_SM = 1024
_RESIZE_CYCLES = 500.0


def class_of(operation: Operation) -> str:
    """The class whose constant an operation takes."""
    kind, name = operation.kind, operation.name.removesuffix("_")
    family = family_of(operation)
    if kind is Kind.COPY and "upsample" in name:
        return f"resize{_layout(operation)}"
    if kind is Kind.NORMALIZATION:
        is_image = family.startswith("batch_norm")
        return f"{family}{_layout(operation)}" if is_image else family
    if kind is Kind.POOLING:
        return f"{family}{_layout(operation)}"
    if kind is Kind.ELEMENTWISE:
        return "broadcast" if _is_broadcast(operation) else "elementwise"
    if kind is Kind.REDUCTION:
        return f"reduction{_layout(operation)}"
    if kind is Kind.COPY:
        return family if name in ("_to_copy", "clone", "copy") else f"{family}_{name}"
    return family


def _layout(operation: Operation) -> str:
    tensors = (*operation.inputs, *operation.outputs)
    largest = max(tensors, key=_elements, default=None)
    return ".nhwc" if largest is not None and largest.is_channels_last else ".nchw"


def _elements(tensor: TensorType) -> int:
    return tensor.num_elements


def _is_broadcast(operation: Operation) -> bool:
    sizes = [t.num_elements for t in operation.inputs if t.num_elements > 1]
    return len(sizes) > 1 and min(sizes) < max(sizes)


@cache
def load_constants() -> Mapping[str, float]:
    """Constant of each class; 1 for one that is not listed."""
    path = resources.files("perfcast.cost.learned") / "streams.toml"
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))["constants"])


def price_streams(
    operations: Sequence[Operation],
    device: Device,
    is_measured: bool,
    spans: Sequence[Floats],
    widths: Mapping[bool, tuple[float, float]],
) -> None:
    """Prices of kernels that nobody measured, in place.

    Args:
        is_measured: Whether some kernel over rows was measured on the device.
        spans: Seconds, low and high of each operation, shape [n].
        widths: Logarithms of low and high over the estimate, as steps of models and devices left out show
            them, of forwards and (True) of what gradients alone run.
    """
    follows_law = not is_measured and streams_at_full_rate(device)
    for place, operation in enumerate(operations):
        stream = stream_of(operation, device)
        if stream is None:
            continue
        constant = load_constants().get(stream.name, 1.0)
        low, high = np.exp(widths["_backward" in stream.name]).tolist()
        if follows_law:
            beyond_l2 = (
                max(operation.memory_traffic_bytes - device.l2_bytes, 0) / device.memory_bytes_per_second
            )
            seconds = LAUNCH_SECONDS + max(constant * stream.seconds, beyond_l2)
            priced = (seconds, max(seconds * low, beyond_l2), seconds * high)
        elif stream.name.startswith(_NEVER_MEASURED):
            scale = max(1.0, constant / _PASSES.get(stream.name.partition(".")[0], 1.0))
            seconds = spans[0][place] * scale
            priced = (seconds, max(seconds * low, min(spans[1][place], seconds)), seconds * high)
        else:
            continue
        for span, value in zip(spans, priced, strict=True):
            span[place] = value


def stream_kernels(seconds: Floats, kernels: KernelTable, device: Device) -> Floats:
    """The law for kernels over rows by the names of tables where it holds, else ``seconds``; shape [n]."""
    if not streams_at_full_rate(device) or not kernels.is_cold:
        return seconds
    traffic = (kernels.size("read_bytes") + kernels.size("written_bytes")).tolist()
    found = seconds.copy()
    for place, (name, each) in enumerate(zip(kernels.word("operation").tolist(), traffic, strict=True)):
        stated = _OF_TABLES.get(name, name if name in load_constants() else "")
        if stated:
            ideal = stream_seconds(each, device.memory_bytes_per_second, float(device.l2_bytes))
            found[place] = LAUNCH_SECONDS + load_constants().get(stated, 1.0) * ideal
    return found


#: Names of tables of kernels, and the class that each has here.
_OF_TABLES: Mapping[str, str] = {
    **dict.fromkeys(
        ("add", "mul", "div", "gelu", "relu", "tanh", "transcendental", "elementwise"), "elementwise"
    ),
    "ln": "layer_norm",
    "ln_backward": "layer_norm_backward",
    "softmax": "softmax",
    "copy": "copy",
    "reduction_columns": "reduction.nchw",
    "reduction_rows": "reduction.nchw",
    "reduction": "reduction.nchw",
}

_NEVER_MEASURED = ("batch_norm", "max_pool", "avg_pool", "adaptive_pool", "resize")
#: Traffic that ``rows`` counts for them, over reading and writing once.
_PASSES = {"batch_norm": 1.5, "batch_norm_backward": 5 / 3}


def streams_at_full_rate(device: Device) -> bool:
    """Whether a board has soldered memory that gives no part of its rate to check bits.

    GeForce boards have no ECC (their clock is the driver's to raise), GDDR7 has it on its own dies. Boards
    of data centres that keep check bits in GDDR6 reach 0.78 (L4, T4) to 0.87 (A40) of the stated rate.
    """
    return device.vendor == "nvidia" and (
        device.max_clock_hertz is not None or device.compute_capability == "12.0"
    )
