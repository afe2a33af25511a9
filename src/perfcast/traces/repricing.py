"""What recorded work would take elsewhere: the recorded time times a ratio of two prices.

The ratio of what a cost model says of the new operation on the new device to what it says of the recorded one
on the recorded device keeps what only the recording knows (how well this kernel does), and takes from the
model only how that changes. Work that no rule knows follows the memory bandwidth, with a wide interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfcast.core.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.model import CostModel, is_free, is_unknown
from perfcast.traces.recorded_operations import lower_for

Floats = NDArray[np.float64]

#: Of work that only memory bandwidth prices: the ratio may be this many times larger or smaller.
BOUNDED_SPREAD = 2.0
PRICED, BOUNDED, KEPT = "priced", "memory bandwidth", "kept"


@dataclass(frozen=True)
class Ratios:
    """New over recorded seconds of each work, shape [n], with an interval and what it rests on."""

    ratio: Floats
    low: Floats
    high: Floats
    provenance: tuple[str, ...]


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
    provenance = [BOUNDED] * count
    pairs: dict[tuple[Operation, Operation], list[int]] = {}
    for index, (old, new) in enumerate(zip(recorded, wanted, strict=True)):
        if old is not None and new is not None:
            pairs.setdefault((old, new), []).append(index)
    if not pairs:
        return Ratios(ratio, low, high, tuple(provenance))
    old_ops, new_ops = [old for old, _ in pairs], [new for _, new in pairs]
    knows = ~(is_unknown(old_ops) | is_unknown(new_ops) | is_free(old_ops) | is_free(new_ops))
    was = before.cost_model.estimate(lower_for(old_ops, before.device, before.dtype), before.device)
    will = after.cost_model.estimate(lower_for(new_ops, after.device, after.dtype), after.device)
    for place, indices in enumerate(pairs.values()):
        if knows[place] and was.seconds[place] > 0:
            own = will.seconds[place] / was.seconds[place]
            ratio[indices] = own
            low[indices] = own * will.seconds_low[place] / will.seconds[place]
            high[indices] = own * will.seconds_high[place] / will.seconds[place]
            for index in indices:
                provenance[index] = PRICED
    return Ratios(ratio, low, high, tuple(provenance))


def work_ratios(
    recorded: Sequence[Operation | None],
    wanted: Sequence[Operation | None],
    seconds: Floats,
    overhead_seconds: float,
    default: float,
) -> Ratios:
    """Ratios on the same processor without a cost model: time beyond the overhead follows the work.

    t' = a + (t − a) · w'/w, with the work w in flops where the operation has any, else in bytes. Such ratios
    may be a third off.

    Args:
        seconds: Recorded, of each.
        overhead_seconds: a, what an operator takes that does nothing.
        default: Of works that no rule knows: their time follows the batch.
    """
    count = len(recorded)
    growth = np.full(count, default)
    provenance = [BOUNDED] * count
    for index, (old, new) in enumerate(zip(recorded, wanted, strict=True)):
        if old is not None and new is not None:
            was, will = (old.executed_flops, new.executed_flops)
            if not (was and will and old.uses_matrix_units):
                was, will = old.memory_traffic_bytes, new.memory_traffic_bytes
            growth[index] = will / was if was else 1.0
            provenance[index] = PRICED
    beyond = np.maximum(seconds - overhead_seconds, 0.0) / np.where(seconds > 0, seconds, 1.0)
    ratio = 1 + beyond * (growth - 1)
    spread = np.abs(ratio - 1) / 3
    return Ratios(ratio, ratio - spread, ratio + spread, tuple(provenance))
