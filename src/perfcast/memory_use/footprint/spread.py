"""How far measured peaks are from the closed form, by what they consist of.

Weights and states are counted exactly, activations by a list of saved tensors, workspaces by rules of thumb:
a peak errs by its parts, and a small one by what no part holds. With B_k the bytes of each kind of term and
B their sum, a 90 % interval reaches from B / (1 + below) to B · (1 + above), where for each side

    (side · B)² = fixed² + (whole · B)² + Σ over kinds (share_k · B_k)²

Figures are quantiles on measurements left out (``perfcast validate memory --write-spread``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.forecast.footprint import Term
from perfcast.core.tensor import Category
from perfcast.frameworks.load import load_framework

#: What errs alike: what stays from step to step and cache, what waits for a backward, all else.
TermKind = Literal["states", "activations", "other"]
TERM_KINDS: tuple[TermKind, ...] = ("states", "activations", "other")
#: Whose peaks nobody measured; captured programs; what answers.
ANY, CAPTURED, SERVING = "any", "captured", "serving"
_KIND_OF: Mapping[str, TermKind] = {
    Category.PARAMETER: "states",
    Category.GRADIENT: "states",
    Category.OPTIMIZER_STATE: "states",
    Category.KV_CACHE: "states",
    Category.ACTIVATION: "activations",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an interval.

    Attributes:
        fixed_bytes: Whatever the peak.
        whole: Of all bytes, as a share.
        states, activations, other: Of the bytes of each kind.
    """

    fixed_bytes: float
    whole: float
    states: float
    activations: float
    other: float

    def shares(self, num_bytes: Floats) -> Floats:
        """Half-widths over the sums, shape [n].

        Args:
            num_bytes: Of ``TERM_KINDS``, shape [n, 3].
        """
        total = num_bytes.sum(axis=1)
        kinds = np.array([self.states, self.activations, self.other]) * num_bytes
        squares = self.fixed_bytes**2 + (self.whole * total) ** 2 + (kinds**2).sum(axis=1)
        found: Floats = np.sqrt(squares) / np.maximum(total, 1.0)
        return found


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one framework's peaks.

    Attributes:
        reserved, reserved_high: Over allocated, median and 95th percentile.
    """

    below: Side
    above: Side
    reserved: float
    reserved_high: float

    def bounds(self, terms: Sequence[Term]) -> tuple[int, int]:
        """90 % interval of the sum of some terms, in bytes."""
        row = bytes_by_kind(terms)[None, :]
        total = float(row.sum())
        return (
            round(total / (1 + float(self.below.shares(row)[0]))),
            round(total * (1 + float(self.above.shares(row)[0]))),
        )


def bytes_by_kind(terms: Sequence[Term]) -> Floats:
    """Bytes of ``TERM_KINDS``, shape [3]."""
    found = dict.fromkeys(TERM_KINDS, 0.0)
    for term in terms:
        found[_KIND_OF.get(term.category, "other")] += term.num_bytes
    return np.array(list(found.values()))


def load_spread(framework: str) -> Spread:
    """The spread of a framework, of the one that it is like, or of those that nothing was fitted to."""
    return _load()[spread_name(framework, _load())]


def spread_name(framework: str, measured: Mapping[str, object]) -> str:
    """Which of some spreads are a framework's."""
    if framework in measured:
        return framework
    like = load_framework(framework).like
    return like if like in measured else ANY


@cache
def _load() -> Mapping[str, Spread]:
    file = resources.files("perfcast.memory_use").joinpath("data", "footprint_spread.json")
    return parse_spreads(file.read_text("utf-8"))


def parse_spreads(text: str) -> dict[str, Spread]:
    """Spreads by framework, from JSON."""
    return {
        name: Spread(
            Side(**row["below"]), Side(**row["above"]), float(row["reserved"]), float(row["reserved_high"])
        )
        for name, row in json.loads(text).items()
    }
