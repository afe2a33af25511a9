"""Processors that issue a device's kernels, and which one a device is taken to have."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from perfcast.core.machine.hardware import Device
from perfcast.errors import UnknownNameError


@dataclass(frozen=True)
class HostProcessor:
    """One processor, relative to the reference.

    Attributes:
        slowness: How many times as long as the reference it takes for one operator.
        spread: How far one of this name may be from that, as a factor either way, 90 % of the time.
        is_chosen: Whether it is what such a device usually has, and nobody said so.
    """

    name: str
    title: str
    slowness: float
    spread: float
    is_chosen: bool = False


@cache
def _figures() -> dict[str, Any]:
    path = resources.files("perfcast.cost.host") / "processors.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def processor_names() -> tuple[str, ...]:
    """All that can be named."""
    return tuple(_figures()["processors"])


def resolve_processor(name: str | None, device: Device) -> HostProcessor:
    """The processor of a name; None takes what machines with the device usually have.

    Raises:
        UnknownNameError: No processor of this name.
    """
    figures = _figures()
    if name is not None:
        return _processor(name)
    usual = figures["devices"].get(device.name) or figures["architectures"].get(device.architecture)
    found = _processor(usual or figures["other"]["processor"])
    spread = max(found.spread, float(figures["chosen_spread"]))
    return HostProcessor(found.name, found.title, found.slowness, spread, is_chosen=True)


def _processor(name: str) -> HostProcessor:
    entry = _figures()["processors"].get(name.lower())
    if entry is None:
        known = processor_names()
        raise UnknownNameError("host", name, known, f"Known: {', '.join(known)}.")
    return HostProcessor(name.lower(), entry["title"], float(entry["slowness"]), float(entry["spread"]))
