"""What kernels that PyTorch launches one by one take beyond their prices, by vendor and family.

Prices are of kernels measured one after the other, and of the best that libraries have. What a profiler says
of a kernel also holds the time in which a device begins and ends it, which decides tiny ones; and libraries
of two vendors are not equally good at the same work. Of a vendor's kernels of a family

    seconds = factor · price + kernel_seconds · kernels

with a deviation, ln(recorded / stated) of a recording's kernels of the family together. Fitted to recordings
by ``perfcast train recorded-kernels``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, get_args

from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation, OperationKind

#: 'elementwise' goes through its data once in order, 'rows' may not: copies, reductions, softmax, lookups.
KernelFamily = Literal[
    "product", "convolution", "attention", "normalization", "batch normalization", "elementwise", "rows"
]
KERNEL_FAMILIES: tuple[KernelFamily, ...] = get_args(KernelFamily)

_KINDS: Mapping[OperationKind, KernelFamily] = {
    OperationKind.MATMUL: "product",
    OperationKind.BATCHED_MATMUL: "product",
    OperationKind.GROUPED_MATMUL: "product",
    OperationKind.RECURRENT: "product",
    OperationKind.CONVOLUTION: "convolution",
    OperationKind.ATTENTION: "attention",
    OperationKind.LINEAR_ATTENTION: "attention",
    OperationKind.NORMALIZATION: "normalization",
    OperationKind.ELEMENTWISE: "elementwise",
    OperationKind.FILL: "elementwise",
    OperationKind.OPTIMIZER: "elementwise",
}
#: How much of what a recorded kernel takes beyond what is stated of it, in logarithms, it also takes on
#: another device: its program's and its rule's share, not its library's. By what the devices have in common.
SAME_ARCHITECTURE, SAME_VENDOR, OTHER_VENDOR = 0.95, 0.8, 0.5
#: They are assumed: each may be off by half of what it lacks to 1 (a standard deviation).
SHARING_DOUBT = 0.5


@dataclass(frozen=True)
class EagerKernels:
    """Constants of a vendor's kernels of one family.

    Attributes:
        factor: Of the price.
        kernel_seconds: Of each kernel beside it.
        deviation: Standard deviation of ln(recorded / stated), of a family's kernels of a recording together.
    """

    factor: float
    kernel_seconds: float
    deviation: float

    def seconds(self, price_seconds: float, num_kernels: float) -> float:
        """What such kernels take."""
        return self.factor * price_seconds + self.kernel_seconds * num_kernels


VendorKernels = Mapping[KernelFamily, EagerKernels]


def family_of(operation: Operation | None) -> KernelFamily:
    """The family of an operation's kernels; work without a rule goes through its data."""
    if operation is None:
        return "rows"
    found = _KINDS.get(operation.kind, "rows")
    return "batch normalization" if found == "normalization" and "batch_norm" in operation.name else found


def sharing(before: Device, after: Device) -> float:
    """How much of a kernel's residual two devices share, 0 to 1."""
    if before.architecture == after.architecture:
        return SAME_ARCHITECTURE
    return SAME_VENDOR if before.vendor == after.vendor else OTHER_VENDOR


@cache
def load_eager_kernels() -> Mapping[str, VendorKernels]:
    """The shipped ones, by vendor; 'other' is of vendors of which there is no recording."""
    path = resources.files("perfcast.traces.forecast") / "eager_kernels.toml"
    return parse_eager_kernels(path.read_text(encoding="utf-8"))


def parse_eager_kernels(text: str) -> Mapping[str, VendorKernels]:
    """Those of a file's text.

    Raises:
        KeyError, ValueError: A family or a figure is missing, or is no number.
    """
    data = tomllib.loads(text)["vendors"]
    return {
        vendor: {
            family: EagerKernels(
                float(families[family]["factor"]),
                float(families[family]["kernel_seconds"]),
                float(families[family]["deviation"]),
            )
            for family in KERNEL_FAMILIES
        }
        for vendor, families in data.items()
    }


def kernels_of(device: Device, constants: Mapping[str, VendorKernels]) -> VendorKernels:
    """Constants of a device's vendor."""
    return constants.get(device.vendor, constants["other"])
