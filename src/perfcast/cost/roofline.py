"""The roofline with a launch floor.

seconds = launch + max(flops / peak, bytes / bandwidth). It is a bound made into an estimate: real
kernels reach a part of the peak, so most steps take longer. The interval says by how much, from steps
that were really run (see ``spread``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.model import (
    UNKNOWN_SPREAD,
    Estimates,
    compute_seconds,
    is_free,
    is_unknown,
    memory_seconds,
    widen_announced,
)
from perfcast.cost.spread import load_spread


@dataclass(frozen=True)
class Roofline:
    """Datasheet peaks only; nothing fitted."""

    name: str = "roofline"

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation; see the module for the formula."""
        compute = compute_seconds(operations, device)
        memory = memory_seconds(operations, device)
        runs = ~is_free(operations)
        unknown = is_unknown(operations)
        bound = np.maximum(compute, memory)
        seconds = np.where(runs, device.launch_seconds + bound, 0.0)
        spread = np.where(unknown, UNKNOWN_SPREAD, load_spread(self.name))
        bound_by = np.select(
            [~runs, bound < device.launch_seconds, compute >= memory],
            ["nothing", "launch", "compute"],
            "memory",
        )
        priced = Estimates(
            seconds=seconds,
            seconds_low=np.where(runs, bound, 0.0),
            seconds_high=seconds * spread,
            bound_by=tuple(bound_by.tolist()),
            provenance=tuple("bounded" for _ in operations),
        )
        return widen_announced(priced, device)
