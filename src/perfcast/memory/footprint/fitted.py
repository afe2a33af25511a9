"""What was fitted on measured peaks: a few habits of frameworks, and how far the closed form is from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Measured over estimated peaks, 5th and 95th percentile; reserved over allocated, median and 95th."""

    allocated_low: float
    allocated_high: float
    reserved: float
    reserved_high: float


def fitted_habits(framework: str) -> dict[str, Any]:
    """Fields of ``Habits`` that no public program states (``perfcast validate memory --write-spread``)."""
    return dict(_load()["habits"].get(framework, {}))


def load_spread(framework: str) -> Spread:
    """The spread of a framework; of all of them together where none of its runs was measured."""
    spreads = _load()["spread"]
    return Spread(**spreads.get(framework, spreads["any"]))


@lru_cache
def _load() -> dict[str, Any]:
    text = resources.files("perfcast.memory").joinpath("data", "footprint_fit.json").read_text("utf-8")
    fitted: dict[str, Any] = json.loads(text)
    return fitted
