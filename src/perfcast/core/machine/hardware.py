"""A device as its datasheet describes it, in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from perfcast.core.dtype import DType
from perfcast.errors import PlanError

#: Whether a device can be had, or is known from what its vendor has said before.
Status = Literal["shipping", "announced"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True)
class Device:
    """One accelerator (for multi-die packages sold as several: one die) or the local processor.

    Attributes:
        name: Catalog name.
        vector_flops_per_second: Dense peak of the ordinary units, by element type.
        matrix_flops_per_second: Dense peak of tensor cores or matrix units, by element type.
        memory_bytes, memory_bytes_per_second: Capacity and bandwidth of the device memory.
        num_sms: Multiprocessors (SM, compute unit, Xe core, tensor core).
        clock_hertz: Clock at which the peaks are stated.
        l2_bytes: Last cache that all multiprocessors share.
        link_bytes_per_second: Scale-up bandwidth of one device in one direction.
        base_clock_hertz: Clock that the vendor guarantees under load; None where not published.
        max_clock_hertz: Clock to which the driver lets it rise beyond ``clock_hertz``, as GeForce boards do;
            None where that is the highest.
        operation_energy: Energy of one operation in the chip's manufacturing process relative to 16 nm.
        launch_seconds: Shortest time between two dependent kernels on one stream.
        status: An announced device has the vendor's intentions for figures; forecasts on it say so.
    """

    name: str
    title: str
    vendor: str
    architecture: str
    die: str
    year: int
    memory_bytes: int
    memory_bytes_per_second: float
    num_sms: int
    clock_hertz: float
    l2_bytes: int
    link_kind: str
    link_bytes_per_second: float
    power_watts: float | None
    launch_seconds: float
    vector_flops_per_second: Mapping[DType, float] = field(hash=False)
    matrix_flops_per_second: Mapping[DType, float] = field(hash=False)
    compute_capability: str = ""
    base_clock_hertz: float | None = None
    max_clock_hertz: float | None = None
    operation_energy: float | None = None
    note: str = ""
    status: Status = "shipping"

    @property
    def is_cpu(self) -> bool:
        """Whether this is a processor: the local one, or one of the catalog."""
        return self.vendor == "cpu"

    @property
    def is_local(self) -> bool:
        """Whether this is the machine that this runs on, as calibration found it."""
        return self.is_cpu and self.name == "cpu"

    @property
    def clock_headroom(self) -> float:
        """Stated over highest clock, at most 1: by this much a product may be faster than the stated peak."""
        return 1.0 if self.max_clock_hertz is None else self.clock_hertz / self.max_clock_hertz

    def peak_flops_per_second(self, dtype: DType, matrix_units: bool) -> float:
        """Dense peak rate for arithmetic in ``dtype``.

        Products use the matrix units where the device has them for this type, else the ordinary
        ones. Ordinary arithmetic on 8- and 16-bit and integer elements runs at the fp32 rate, since
        PyTorch's kernels widen to fp32.

        Raises:
            PlanError: The device has no unit for this type.
        """
        wanted = dtype if matrix_units else _widened(dtype)
        tables = [self.matrix_flops_per_second] * matrix_units + [self.vector_flops_per_second]
        for table in tables:
            if wanted in table:
                return table[wanted]
        has = sorted({d.label for table in tables for d in table})
        raise PlanError(
            f"{self.name} has no {wanted.label} arithmetic{' for products' if matrix_units else ''}; "
            f"it has {', '.join(has)}. Choose one of these with --dtype."
        )


def _widened(dtype: DType) -> DType:
    """The type in which PyTorch's element-wise kernels compute."""
    return DType.FP64 if dtype is DType.FP64 else DType.FP32
