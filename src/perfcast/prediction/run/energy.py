"""What devices draw: the part of a step that computes at the rated power, the rest at less, servers beside.

    watts of a device = rated · (busy + waiting ratio · (1 - busy) + node ratio - 1)

The node ratio carries processors, network and fans of its server (measured while devices compute).
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.catalogs.runs import RunFigures
from perfcast.core.machine.hardware import Device

#: Causes of a step's seconds in which the device computes.
_BUSY_CAUSES = ("compute", "recompute", "optimizer")


def busy_share(seconds_by_cause: Mapping[str, float]) -> float:
    """Part of a step in which a device computes."""
    total = sum(seconds_by_cause.values())
    return sum(seconds_by_cause.get(cause, 0.0) for cause in _BUSY_CAUSES) / total if total else 0.0


def device_watts(device: Device, busy: float, figures: RunFigures) -> float | None:
    """Mean power of a device and its share of the server; None where no rated power is published."""
    if device.power_watts is None:
        return None
    node = figures.figures["node_power_ratio"].si_value
    waiting = figures.figures["waiting_power_ratio"].si_value
    return device.power_watts * (busy + waiting * (1.0 - busy) + node - 1.0)
