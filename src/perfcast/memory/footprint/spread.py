"""How far measured peaks are from the closed form (``perfcast validate memory --write-spread``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from perfcast.frameworks.load import framework_names, load_framework


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over estimated peaks, 5th and 95th percentile; reserved over allocated, median and 95th."""

    allocated_low: float
    allocated_high: float
    reserved: float
    reserved_high: float


@cache
def load_spread(framework: str) -> Spread:
    """The spread of a framework, or of that which it is like; of all of them together where none of their
    runs was measured."""
    spreads, name = _load(), framework
    while name and name not in spreads:
        name = load_framework(name).like if name in framework_names() else ""
    return spreads[name or "any"]


@cache
def _load() -> Mapping[str, Spread]:
    file = resources.files("perfcast.memory").joinpath("data", "footprint_spread.json")
    return {name: Spread(**figures) for name, figures in json.loads(file.read_text("utf-8")).items()}
