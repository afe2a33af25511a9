"""NeuSight as a cost model: prices of the operations of a captured graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.hardware import Device
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
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.neusight.nets import VENDORS, net_of
from perfcast.published.neusight.predictor import Calls, NeuSight, TrainedNet, load_neusight
from perfcast.published.neusight.rules import PRICED_KINDS, NetKernel, calls_in


@dataclass(frozen=True)
class NeuSightCost:
    """Each operation as the study would count it.

    Operations that no net prices take bytes / peak bandwidth and are tagged 'bounded', with the roofline's
    interval; the others 'neusight', with what 5 % and 95 % of validation rows took against their prediction.
    No time is forced above the roofline, so a best estimate below it stays as the nets answered.
    """

    predictor: NeuSight
    name: str = "neusight"

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation once.

        Raises:
            PlanError: A device of another vendor, or a product in another precision than fp32, of which the
                nets have never seen any.
        """
        _check_precision(operations)
        _check_vendor(self.predictor.vendor, device)
        compute, memory = compute_seconds(operations, device), memory_seconds(operations, device)
        runs = ~is_free(operations)
        counted = [
            calls_in(operation) if run else None for operation, run in zip(operations, runs, strict=True)
        ]
        seconds, low, high = self._sum_calls(counted, device)
        priced = np.array([calls is not None for calls in counted], dtype=bool) & np.isfinite(seconds)
        bounded = np.where(runs, memory, 0.0)
        roofline = np.where(runs, np.maximum(compute, memory), 0.0)
        spread = np.where(is_unknown(operations), UNKNOWN_SPREAD, load_spread("roofline"))
        best = np.where(priced, seconds, bounded)
        bound_by = np.select([~runs, priced & (compute >= memory)], ["nothing", "compute"], "memory")
        return Estimates(
            seconds=best,
            seconds_low=np.where(priced, np.minimum(np.maximum(low, roofline), best), bounded),
            seconds_high=np.where(priced, high, bounded * spread),
            bound_by=tuple(bound_by.tolist()),
            provenance=tuple(np.where(priced, self.name, "bounded").tolist()),
        )

    def _sum_calls(
        self, counted: Sequence[list[NetKernel] | None], device: Device
    ) -> tuple[Floats, Floats, Floats]:
        """Seconds of each operation's calls, and their low and high sums; 0 without calls."""
        by_net: dict[str, list[tuple[int, NetKernel]]] = defaultdict(list)
        for index, calls in enumerate(counted):
            for call in calls or ():
                by_net[net_of(call.operation) or ""].append((index, call))
        sums = np.zeros((3, len(counted)))
        for name, indexed in by_net.items():
            net = self.predictor.nets[name]
            seconds = _predict(net, [call for _, call in indexed], device)
            where = np.array([index for index, _ in indexed], dtype=np.int64)
            ratios = (1.0, min(net.ratio_low, 1.0), max(net.ratio_high, 1.0))
            for row, ratio in zip(sums, ratios, strict=True):
                np.add.at(row, where, seconds * ratio)
        return sums[0], sums[1], sums[2]


def _predict(net: TrainedNet, calls: Sequence[NetKernel], device: Device) -> Floats:
    table = Calls(
        np.array([call.operation for call in calls], dtype=object),
        np.array([call.shape for call in calls], dtype=np.float64),
        np.array([call.work for call in calls], dtype=np.float64),
    )
    figures = collect_study_figures((device,), np.zeros(len(calls), dtype=np.int64))
    return net.predict(table, figures)


def _check_precision(operations: Sequence[Operation]) -> None:
    for operation in operations:
        if operation.kind in PRICED_KINDS and operation.compute_dtype is not DType.FP32:
            raise PlanError(
                f"neusight was trained on fp32 kernels and knows no {operation.compute_dtype.label} "
                f"products; use --dtype fp32 or another cost model"
            )


def _check_vendor(vendor: str, device: Device) -> None:
    if device.vendor != vendor:
        command = f"perfcast train neusight --vendor {device.vendor} --data DIR"
        raise PlanError(
            f"this neusight learned from {vendor} devices and {device.name} is of vendor {device.vendor}; "
            + (f"use one trained by `{command}`" if device.vendor in VENDORS else "use another cost model")
        )


def load_neusight_cost(folder: Path) -> NeuSightCost:
    """The cost model on the predictor in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    return NeuSightCost(load_neusight(folder))
