"""Prices of whole graphs as the NeuSight study makes them, whichever of its predictors prices the kernels.

Every predictor of the study sees the same kernels (``neusight.rules``). Operations that are none of them take
bytes / peak bandwidth there; here, where their arithmetic takes longer at the datasheet's peak, that: the
study has none such, but a predictor of batched products alone leaves linear layers to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from perfcast.core.arrays import Flags, Floats, Objects
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.model import (
    UNKNOWN_SPREAD,
    Estimates,
    compute_seconds,
    is_free,
    is_unknown,
    memory_seconds,
)
from perfcast.cost.spread import load_spread
from perfcast.errors import PlanError
from perfcast.published.comparison import print_part
from perfcast.published.nets.direct import square_convolutions
from perfcast.published.neusight.nets import PRODUCT_NETS, VENDORS, net_of
from perfcast.published.neusight.rules import PRICED_KINDS, NetKernel, calls_in
from perfcast.published.registry import KernelPredictor


@dataclass(frozen=True, eq=False)
class PricedCalls:
    """Seconds of n kernels with their interval, shape [n] each; NaN where a predictor has no model."""

    seconds: Floats
    low: Floats
    high: Floats


class CallPricer(Protocol):
    """Prices the kernels that the study counts.

    Attributes:
        vendor: Whose devices it learned from.
    """

    @property
    def name(self) -> str:
        """Of the predictor."""
        ...

    @property
    def vendor(self) -> str:
        """Whose devices it learned from."""
        ...

    def price(self, calls: Sequence[NetKernel], device: Device) -> PricedCalls:
        """Seconds of each kernel."""
        ...


@dataclass(frozen=True)
class StudyCost:
    """Each operation as the study would count it.

    Operations of which a kernel has no model take the roofline's time and are tagged 'bounded', with its
    interval; the others carry the predictor's name, with what 5 % and 95 % of measured kernels took against
    their prediction. No time is forced above the roofline, so a best estimate below it stays as it is.
    """

    pricer: CallPricer

    @property
    def name(self) -> str:
        """Of the predictor."""
        return self.pricer.name

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation once.

        Raises:
            PlanError: A device of another vendor, or a product in another precision than fp32, of which the
                predictor has never seen any.
        """
        check_precision(self.name, operations)
        _check_vendor(self.name, self.pricer.vendor, device)
        compute, memory = compute_seconds(operations, device), memory_seconds(operations, device)
        runs = ~is_free(operations)
        sums, priced = self._sum_calls(operations, runs, device)
        bounded = np.where(runs, np.maximum(compute, memory), 0.0)
        spread = np.where(is_unknown(operations), UNKNOWN_SPREAD, load_spread("roofline"))
        best = np.where(priced, sums.seconds, bounded)
        bound_by = np.select([~runs, compute >= memory], ["nothing", "compute"], "memory")
        return Estimates(
            seconds=best,
            seconds_low=np.where(priced, np.minimum(np.maximum(sums.low, bounded), best), bounded),
            seconds_high=np.where(priced, np.maximum(sums.high, best), bounded * spread),
            bound_by=tuple(bound_by.tolist()),
            provenance=tuple(np.where(priced, self.name, "bounded").tolist()),
        )

    def _sum_calls(
        self, operations: Sequence[Operation], runs: Flags, device: Device
    ) -> tuple[PricedCalls, Flags]:
        """Sums over each operation's kernels, and of which operations every kernel has a model."""
        counted = [calls_in(o) or [] if run else [] for o, run in zip(operations, runs, strict=True)]
        calls = [call for found in counted for call in found]
        owner = np.repeat(np.arange(len(counted)), [len(found) for found in counted]).astype(np.int64)
        each = self.pricer.price(calls, device)
        sums = np.zeros((3, len(counted)))
        for total, values in zip(sums, (each.seconds, each.low, each.high), strict=True):
            np.add.at(total, owner, values)
        has_calls = np.array([bool(found) for found in counted], dtype=bool)
        return PricedCalls(*sums), has_calls & np.isfinite(sums[0])


#: (low, high) of measured / predicted by net, on devices learned from (True) and on others (False).
Ratios = Mapping[tuple[str, bool], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class TablePricer:
    """A predictor of tables of kernels as a pricer of calls.

    Attributes:
        ratios: A net without an entry is as uncertain as an operation that nobody knows.
        devices: Catalog names of the devices that it learned from.
    """

    predictor: KernelPredictor
    vendor: str
    ratios: Ratios
    devices: frozenset[str]

    @property
    def name(self) -> str:
        """Of the predictor."""
        return self.predictor.name

    def price(self, calls: Sequence[NetKernel], device: Device) -> PricedCalls:
        """Seconds of each kernel, and their interval by net."""
        nets = [net_of(call.operation) or "convolution" for call in calls]
        seconds = np.full(len(calls), np.nan)
        kinds = np.array([_FAMILIES.get(net, KernelFamily.ROWS).value for net in nets])
        for family, tabulate in _TABLES.items():
            index = np.flatnonzero(kinds == family.value)
            if len(index):
                table = tabulate([calls[i] for i in index.tolist()])
                seconds[index] = self.predictor.predict(table, (device,), np.zeros(len(index), np.int64))
        nothing_known = (1 / UNKNOWN_SPREAD, UNKNOWN_SPREAD)
        is_known = device.name in self.devices
        ratios = np.array([self.ratios.get((net, is_known), nothing_known) for net in nets]).reshape(-1, 2)
        low, high = np.minimum(ratios[:, 0], 1.0), np.maximum(ratios[:, 1], 1.0)
        return PricedCalls(seconds, seconds * low, seconds * high)


def build_table_cost(predictor: KernelPredictor, record: Mapping[str, Any]) -> StudyCost:
    """The cost model on a predictor of tables and the record of its training.

    A net's interval holds on the devices that it learned from. How it errs on others was not measured, so
    there it is that of an unknown operation; 'ratios' of the record say it of lines and scaled kernels.
    """
    ratios = {(net, True): (of["ratio_low"], of["ratio_high"]) for net, of in record["nets"].items()}
    for net, of in record.get("ratios", {}).items():
        ratios |= {(net, place == "known"): (low, high) for place, (low, high) in of.items()}
    devices = frozenset(record.get("devices", ()))
    return StudyCost(TablePricer(predictor, record["vendor"], ratios, devices))


def _products(calls: Sequence[NetKernel]) -> KernelTable:
    sizes = np.array([call.shape for call in calls], dtype=np.float64).T
    return build_kernel_table(
        KernelFamily.PRODUCT, len(calls), operation=_names(calls), dtype="fp32", layout="nn",
        framework="pytorch", **dict(zip(("batch", "m", "k", "n"), sizes, strict=True)),
    )  # fmt: skip


def _rows(calls: Sequence[NetKernel]) -> KernelTable:
    num_rows, row_length = np.array([call.shape for call in calls], dtype=np.float64).T
    written = 4.0 * num_rows * row_length
    moved = np.array([call.work[0] for call in calls]) * num_rows * row_length
    words = {name: np.full(len(calls), word, dtype=object) for name, word in _WORDS.items()}
    columns = {"num_rows": num_rows, "row_length": row_length, "read_bytes": moved - written}
    return KernelTable(
        KernelFamily.ROWS, {**columns, "written_bytes": written, "operation": _names(calls), **words}
    )


def _convolutions(calls: Sequence[NetKernel]) -> KernelTable:
    return square_convolutions(np.array([call.shape for call in calls], dtype=np.float64), _names(calls))


#: Families of nets; all others are of rows.
_FAMILIES = {**dict.fromkeys(PRODUCT_NETS, KernelFamily.PRODUCT), "convolution": KernelFamily.CONVOLUTION}
_TABLES = {
    KernelFamily.PRODUCT: _products,
    KernelFamily.ROWS: _rows,
    KernelFamily.CONVOLUTION: _convolutions,
}
_WORDS = {"dtype": "fp32", "framework": "pytorch"}


def _names(calls: Sequence[NetKernel]) -> Objects:
    return np.array([call.operation for call in calls], dtype=object)


def check_precision(name: str, operations: Sequence[Operation]) -> None:
    """Refuse products that are not fp32.

    Raises:
        PlanError: There is one; names the way out.
    """
    for operation in operations:
        if operation.kind in PRICED_KINDS and operation.compute_dtype is not DType.FP32:
            raise PlanError(
                f"{name} was trained on fp32 kernels and knows no {operation.compute_dtype.label} "
                f"products; use --dtype fp32 or another cost model"
            )


def _check_vendor(name: str, vendor: str, device: Device) -> None:
    if device.vendor != vendor:
        command = f"perfcast train {name} --vendor {device.vendor} --data DIR"
        raise PlanError(
            f"this {name} learned from {vendor} devices and {device.name} is of vendor {device.vendor}; "
            + (f"use one trained by `{command}`" if device.vendor in VENDORS else "use another cost model")
        )


if __name__ == "__main__":
    print_part("kernels.graph", "neusight", "habitat", "li2020")
