"""What recorded work would take elsewhere: the recorded time times a ratio of two prices.

The ratio of what a cost model says of the new operation on the new device to what it says of the recorded one
on the recorded device keeps what only the recording knows (how well this kernel does), and takes from the
model only how that changes. Work that no rule knows follows the memory bandwidth, with a wide interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.interval import common_part
from perfcast.cost.model import CostModel, is_free, is_unknown
from perfcast.traces.forecast.operations import lower_for

#: Of work that only memory bandwidth prices: the ratio may be this many times larger or smaller.
BOUNDED_SPREAD = 2.0
#: The cost model of lines that a calibration made; what it has no line of is a bound.
CALIBRATED = "linear"
#: What a work's new price rests on: two prices, memory bandwidth alone (no rule, or a family that nobody
#: calibrated), or nothing: it keeps its time.
Provenance = Literal["priced", "memory bandwidth", "not calibrated", "as recorded", "not resolved"]
PRICED: Provenance = "priced"
BOUNDED: Provenance = "memory bandwidth"
NOT_CALIBRATED: Provenance = "not calibrated"
AS_RECORDED: Provenance = "as recorded"
#: Priced, but a size of it may or may not follow the batch.
UNRESOLVED: Provenance = "not resolved"


@dataclass(frozen=True)
class Ratios:
    """New over recorded seconds of each work, shape [n], with an interval and what it rests on."""

    ratio: Floats
    low: Floats
    high: Floats
    provenance: tuple[Provenance, ...]

    def provenance_where(self, scales: Flags) -> list[Provenance]:
        """What each work's time rests on, where those that do not scale stay as recorded."""
        return [
            word if is_scaled else AS_RECORDED
            for word, is_scaled in zip(self.provenance, scales.tolist(), strict=True)
        ]


def sum_by_provenance(provenance: Sequence[Provenance], seconds: Sequence[float]) -> dict[Provenance, float]:
    """Seconds of works by what their prices rest on."""
    sums: dict[Provenance, float] = {}
    for word, own in zip(provenance, seconds, strict=True):
        sums[word] = sums.get(word, 0.0) + own
    return sums


@dataclass(frozen=True)
class Side:
    """Where work runs, and what prices it there."""

    device: Device
    cost_model: CostModel
    dtype: str


def price_ratios(
    recorded: Sequence[Operation | None],
    wanted: Sequence[Operation | None],
    before: Side,
    after: Side,
    bytes_ratio: float = 1.0,
) -> Ratios:
    """Ratios of works by their operations; None stands for a work that no rule knows.

    Args:
        bytes_ratio: How much more data such a work moves than it did.

    Raises:
        PlanError: A device lacks arithmetic in a precision that was recorded.
    """
    bandwidth = before.device.memory_bytes_per_second / after.device.memory_bytes_per_second
    bounded = bandwidth * bytes_ratio
    count = len(recorded)
    ratio = np.full(count, bounded)
    low, high = ratio / BOUNDED_SPREAD, ratio * BOUNDED_SPREAD
    provenance: list[Provenance] = [BOUNDED] * count
    prices = price_pairs(recorded, wanted, before, after)
    known = prices.is_known
    ratio[known] = prices.after[known] / prices.before[known]
    low[known] = ratio[known] * prices.low[known] / prices.after[known]
    high[known] = ratio[known] * prices.high[known] / prices.after[known]
    for index in np.flatnonzero(known).tolist():
        provenance[index] = PRICED
    for index in np.flatnonzero(prices.is_bounded).tolist():
        provenance[index] = NOT_CALIBRATED
        ratio[index] = bandwidth * _traffic_ratio(recorded[index], wanted[index])
        low[index], high[index] = ratio[index] / BOUNDED_SPREAD, ratio[index] * BOUNDED_SPREAD
    return Ratios(ratio, low, high, tuple(provenance))


def _traffic_ratio(recorded: Operation | None, wanted: Operation | None) -> float:
    """How many times more data an operation moves."""
    if recorded is None or wanted is None or not recorded.memory_traffic_bytes:
        return 1.0
    return wanted.memory_traffic_bytes / recorded.memory_traffic_bytes


@dataclass(frozen=True)
class PairPrices:
    """Prices of works as recorded and as wanted, shape [n], seconds; nothing where ``is_known`` is False.

    Attributes:
        low, high: Of the wanted ones.
        is_bounded: Either price is a bound alone: the operation's family was not calibrated.
        common: Of the variance of a wanted price's error, what it has in common with others of its kind.
    """

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    common: Floats
    is_known: Flags
    is_bounded: Flags


def price_pairs(
    recorded: Sequence[Operation | None], wanted: Sequence[Operation | None], before: Side, after: Side
) -> PairPrices:
    """Both prices of each work, each different pair priced once.

    Raises:
        PlanError: A device lacks arithmetic in a precision that was recorded.
    """
    count = len(recorded)
    zeros = [np.zeros(count) for _ in range(5)]
    no, other_no = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    found = PairPrices(zeros[0], zeros[1], zeros[2], zeros[3], zeros[4], no, other_no)
    pairs: dict[tuple[Operation, Operation], list[int]] = {}
    for index, (old, new) in enumerate(zip(recorded, wanted, strict=True)):
        if old is not None and new is not None:
            pairs.setdefault((old, new), []).append(index)
    if not pairs:
        return found
    old_ops, new_ops = [old for old, _ in pairs], [new for _, new in pairs]
    knows = ~(is_unknown(old_ops) | is_unknown(new_ops) | is_free(old_ops) | is_free(new_ops))
    was = before.cost_model.estimate(lower_for(old_ops, before.device, before.dtype), before.device)
    will = after.cost_model.estimate(lower_for(new_ops, after.device, after.dtype), after.device)
    for place, indices in enumerate(pairs.values()):
        if knows[place] and was.seconds[place] > 0:
            found.is_known[indices] = True
            found.is_bounded[indices] = any(
                side.cost_model.name == CALIBRATED and prices.provenance[place] == "bounded"
                for side, prices in ((before, was), (after, will))
            )
            found.before[indices], found.after[indices] = was.seconds[place], will.seconds[place]
            found.low[indices], found.high[indices] = will.seconds_low[place], will.seconds_high[place]
            found.common[indices] = common_part(will.provenance[place], will.errs_as_one)
    return found


@dataclass(frozen=True)
class Rates:
    """What a processor reached in a recording: flops and bytes per second."""

    flops_per_second: float
    bytes_per_second: float

    def seconds(self, operation: Operation) -> float:
        """Time of an operation at these rates: its traffic, and the arithmetic of a product on top.

        A product on one thread packs its operands before it computes, so that the two add up.
        """
        busy = operation.memory_traffic_bytes / self.bytes_per_second
        if operation.uses_matrix_units:
            busy += operation.executed_flops / self.flops_per_second
        return busy


def recorded_rates(operations: Sequence[Operation | None], seconds: Floats) -> Rates | None:
    """Rates that half of a recording's time reached: of products in flops, of the rest in bytes.

    None where nothing that a rule knows took time; where there are only products, traffic is for free.
    """
    flops, traffic = [], []
    for operation, own in zip(operations, seconds.tolist(), strict=True):
        if operation is None or own <= 0 or operation.is_free:
            continue
        if operation.uses_matrix_units and operation.executed_flops:
            flops.append((operation.executed_flops / own, own))
        elif operation.memory_traffic_bytes:
            traffic.append((operation.memory_traffic_bytes / own, own))
    if not flops and not traffic:
        return None
    return Rates(_weighted_median(flops), _weighted_median(traffic))


def _weighted_median(pairs: list[tuple[float, float]]) -> float:
    """Median of values with weights; infinite where there are none."""
    half, total = sum(weight for _, weight in pairs) / 2, 0.0
    for value, weight in sorted(pairs):
        total += weight
        if total >= half:
            return value
    return float("inf")
