"""Which experts of the busiest rank are asked for, and how often, under a law of popularity.

Balanced routing gives every expert the same number of rows, one row to as many experts as there are where
rows are fewer than experts. Under ``power_law_a`` the popularity of an expert is drawn from a density
∝ x^-a between 1 and 0.8 tokens (between 0.01 and 2 where there are fewer rows than experts), normalised,
rounded, and no expert gets more rows than there are tokens; the rank that is looked at is the one with most
rows. This is the law by which the public benchmark collection of aiconfigurator draws its routings. A few
draws with a fixed seed stand for the expectation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.core.kernel import encode_words

#: Rows of a block of the grouped products for which padding is counted.
TILE_ROWS = (16, 64, 128)

_NUM_DRAWS = 8
_SEED = 20250101
_POWER_LAW = "power_law_"


@dataclass(frozen=True)
class Routing:
    """Load of the busiest rank, shape [n] each.

    Attributes:
        rows: Pairs of a token and a local expert.
        tokens: Tokens with at least one local expert.
        touched: Local experts with at least one row.
        largest: Rows of the busiest expert.
        tiles: Blocks of ``TILE_ROWS`` rows, each expert's rows padded to whole blocks, shape [n, 3].
    """

    rows: Floats
    tokens: Floats
    touched: Floats
    largest: Floats
    tiles: Floats

    def take(self, index: Integers) -> Routing:
        """The rows that ``index`` selects."""
        return Routing(**{f.name: getattr(self, f.name)[index] for f in fields(self)})


def route(
    num_tokens: Floats,
    experts_per_token: Floats,
    num_experts: Floats,
    expert_parallel: Floats,
    distribution: Objects,
) -> Routing:
    """Routing of each kernel; ``distribution`` is ``balanced`` or ``power_law_`` and an exponent.

    Raises:
        ValueError: Another distribution, or more ranks than experts.
    """
    if np.any(expert_parallel > num_experts):
        raise ValueError("expert_parallel is larger than num_experts")
    names, which = encode_words(distribution)
    exponents = np.array([_exponent(name) for name in names])[which]
    keys = np.stack([exponents, num_experts, expert_parallel, num_tokens, experts_per_token], axis=1)
    different, back = _different_rows(keys)
    parts = [_route_group(different[start:stop]) for start, stop in _runs(different[:, :3])]
    joined = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Routing)}
    return Routing(**joined).take(back)


def _exponent(name: str) -> float:
    """Exponent of a law's name; balanced routing is the exponent -1."""
    if name == "balanced":
        return -1.0
    try:
        exponent = float(name.removeprefix(_POWER_LAW))
    except ValueError:
        exponent = np.nan
    if not name.startswith(_POWER_LAW) or not exponent >= 0:
        raise ValueError(f"unknown distribution {name!r}; expected 'balanced' or 'power_law_' and a number")
    return exponent


def _different_rows(keys: Floats) -> tuple[Floats, Integers]:
    """Different rows in lexicographic order, and where each row is among them."""
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    fresh = np.ones(len(keys), dtype=bool)
    fresh[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    back = np.empty(len(keys), dtype=np.int64)
    back[order] = np.cumsum(fresh) - 1
    return ordered[fresh], back


def _runs(keys: Floats) -> list[tuple[int, int]]:
    """Bounds of runs of equal rows."""
    edges = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
    bounds = [0, *edges.tolist(), len(keys)]
    return list(pairwise(bounds))


def _route_group(keys: Floats) -> Routing:
    """Routing of calls that share exponent, experts and ranks; keys as in ``route``, shape [p, 5]."""
    if not len(keys):
        empty = np.zeros(0)
        return Routing(empty, empty, empty, empty, np.zeros((0, len(TILE_ROWS))))
    exponent, num_experts, num_ranks = keys[0, :3]
    tokens, rows = keys[:, 3], keys[:, 3] * keys[:, 4]
    if exponent < 0:
        return _balanced(tokens, rows, num_experts, num_ranks)
    return _power_law(tokens, rows, int(num_experts), int(num_ranks), exponent)


def _balanced(tokens: Floats, rows: Floats, num_experts: float, num_ranks: float) -> Routing:
    local = max(num_experts // num_ranks, 1.0)
    load = rows / num_experts
    touched = np.minimum(np.ceil(local * load), local)
    largest = np.maximum(load, 1.0)
    return Routing(
        rows=np.maximum(local * load, touched),
        tokens=np.minimum(tokens, np.maximum(local * load, touched)),
        touched=touched,
        largest=largest,
        tiles=np.stack([touched * np.ceil(largest / tile) for tile in TILE_ROWS], axis=1),
    )


def _power_law(tokens: Floats, rows: Floats, num_experts: int, num_ranks: int, exponent: float) -> Routing:
    local = num_experts // num_ranks
    loads, added = _draw_loads(tokens, rows, num_experts, num_ranks * local, exponent)
    ranks = loads.reshape(*loads.shape[:2], num_ranks, local)
    busiest = ranks.sum(axis=3).argmax(axis=2)
    mine = np.take_along_axis(ranks, busiest[:, :, None, None], axis=2)[:, :, 0]
    added = added / num_ranks
    idle = (mine < 0.5).sum(axis=2)
    filled = np.minimum(idle, np.maximum(added, 0.0))
    missed = np.prod(1.0 - mine / tokens[:, None, None], axis=2)
    own_rows = np.maximum(mine.sum(axis=2) + added, 1.0)
    own_tokens = np.minimum(tokens[:, None] * (1.0 - missed) + filled, tokens[:, None])
    touched = np.minimum(np.maximum(local - idle + filled, 1.0), own_rows)
    tiles = [np.maximum(np.ceil(mine / tile).sum(axis=2) + filled, own_rows / tile) for tile in TILE_ROWS]
    return Routing(
        rows=own_rows.mean(axis=1),
        tokens=np.minimum(own_tokens, own_rows).mean(axis=1),
        touched=touched.mean(axis=1),
        largest=np.maximum(mine.max(axis=2), 1.0).mean(axis=1),
        tiles=np.maximum(np.stack(tiles, axis=2), 1.0).mean(axis=1),
    )


def _draw_loads(
    tokens: Floats, rows: Floats, num_experts: int, kept: int, exponent: float
) -> tuple[Floats, Floats]:
    """Rows of ``kept`` experts in each draw, shape [p, draws, kept], and rows that rounding left over."""
    uniform = np.random.default_rng(_SEED).random((_NUM_DRAWS, num_experts))
    crowded = rows > num_experts
    low = np.where(crowded, 1.0, 0.01)[:, None, None]
    high = np.where(crowded, 0.8 * tokens, 2.0)[:, None, None]
    if abs(exponent - 1.0) < 1e-9:
        popularity = low * (high / low) ** uniform
    else:
        power = 1.0 - exponent
        popularity = (low**power + (high**power - low**power) * uniform) ** (1.0 / power)
    share = popularity / popularity.sum(axis=2, keepdims=True)
    loads = np.minimum(np.round(share * rows[:, None, None]), tokens[:, None, None])
    return loads[:, :, :kept], rows[:, None] - loads.sum(axis=2)
