"""How far measured peaks are from the closed form (``perfcast validate memory --write-spread``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over estimated peaks, 5th and 95th percentile; reserved over allocated, median and 95th."""

    allocated_low: float
    allocated_high: float
    reserved: float
    reserved_high: float


def load_spread(framework: str) -> Spread:
    """The spread of a framework; of all of them together where none of its runs was measured."""
    spreads = _load()
    return spreads.get(framework, spreads["any"])


@cache
def _load() -> Mapping[str, Spread]:
    file = resources.files("perfcast.memory_use").joinpath("data", "footprint_spread.json")
    return {name: Spread(**figures) for name, figures in json.loads(file.read_text("utf-8")).items()}
