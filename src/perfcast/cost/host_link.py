"""Prices of what a device shares with its host: copies over the link between them, updates in host memory.

    copy     bytes / (share of the link's rate that large copies reach)
    update   bytes read and written / the host's memory bandwidth for one device

The figures and their sources stand in ``host_link.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.core.machine.host import UPDATE_ON_HOST
from perfcast.core.operation import Operation
from perfcast.cost.model import Estimates
from perfcast.errors import PlanError


@cache
def _figures() -> dict[str, Any]:
    return tomllib.loads((resources.files("perfcast.cost") / "host_link.toml").read_text(encoding="utf-8"))


def has_host_link(device: Device) -> bool:
    """Whether the rate of a device's link to its host is known, so that something can be offloaded."""
    return _link(device) is not None


def _link(device: Device) -> float | None:
    figures = _figures()
    found: float | None = figures["devices"].get(
        device.name, figures["architectures"].get(device.architecture)
    )
    return found


def host_bytes_per_second(device: Device) -> float:
    """Bandwidth of the link to the host, in one direction.

    Raises:
        PlanError: No figure for this architecture.
    """
    found = _link(device)
    if found is None:
        known = ", ".join(_figures()["architectures"])
        raise PlanError(
            f"no figure of the link between {device.name} ({device.architecture}) and its host, so "
            f"nothing can be offloaded there; known architectures: {known}"
        )
    return float(found)


def price_on_host(operations: Sequence[Operation], device: Device) -> Estimates:
    """Operations of ``core.machine.host``, with an interval as wide as the file says.

    Raises:
        PlanError: No figure for this device.
    """
    host = _figures()["host"]
    rates = {True: host["memory"], False: host["share"] * host_bytes_per_second(device)}
    seconds = np.array([o.memory_traffic_bytes / rates[o.name == UPDATE_ON_HOST] for o in operations])
    count = len(operations)
    return Estimates(
        seconds, seconds / host["spread"], seconds * host["spread"], ("link",) * count, ("datasheet",) * count
    )
