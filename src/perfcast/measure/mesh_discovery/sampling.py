"""Which pairs to measure, so that every level is hit and pairs do not grow as the square of the ranks.

Up to ``FULL_RANKS`` ranks all pairs are measured in the rounds of a tournament. Beyond that:

1. Random matchings (n / 2 disjoint pairs at a time) find the ranks that do not answer.
2. Some pivots are measured against all ranks. The fastest of each pivot's row, and some of the others in
   shells of doubling size, are measured again: that sample holds every level and fits ``levels``.
3. From the outermost level inwards every group is split: pivots against all of the group that have no place
   yet, more of them each time; each takes those that meet it below the level. A pair is measured
   again until it is clear (a sequential probability ratio test: A. Wald, 1945).
4. Within the innermost groups more pairs, to confirm the members.

Step 3 costs n · b / 2 pairs for a level that splits each group in b, and no method can do with fewer in
general: to find k hidden groups by comparing pairs takes in the order of n · k of them (S. Davidson et al.,
Top-k and clustering with noisy comparisons, 2014). With groups of fixed sizes this grows as n.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import InputError
from perfcast.measure.mesh_discovery.levels import Levels, fit_levels
from perfcast.measure.mesh_discovery.matrix import Measure, PairSamples, checked_pairs, log_costs
from perfcast.measure.mesh_discovery.rounds import all_pairs, random_matching

FULL_RANKS = 64
_FULL_REPEATS = 6
_PIVOTS = 12
_MOST_PIVOTS = 16
_FASTEST = 24
_SHELL = 8
_SHELL_REPEATS = 8
_CLEAR_ODDS = 16.0
_MOST_REPEATS = 12
_MATCHINGS = 3
_WHOLE_GROUP = 16
_CONFIRMING = 4
_INVESTIGATED = 3
_INVESTIGATIONS = 4


@dataclass(slots=True)
class Sampler:
    """Asks for measurements and keeps all of them."""

    measure: Measure
    num_ranks: int
    asked: list[tuple[Integers, Floats, Floats]] = field(default_factory=list)
    investigated: set[int] = field(default_factory=set)

    def ask(self, pairs: Integers) -> Floats:
        """``(k, 2)`` log costs of one measurement of each pair.

        Raises:
            InputError: The measurement gave another number of figures, or impossible ones.
        """
        latency, rate = self.measure(pairs)
        costs = log_costs(latency, rate, len(pairs))
        self.asked.append((pairs, np.asarray(latency), np.asarray(rate)))
        return costs

    def samples(self, since: int = 0) -> PairSamples:
        """Everything asked from the ``since``-th request on."""
        parts = self.asked[since:]
        return PairSamples.build(
            self.num_ranks,
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
        )

    def investigate(self, groups: list[tuple[int, ...]]) -> PairSamples:
        """Some ranks of each group against all others, repeatedly, unless all pairs are known."""
        if self.num_ranks > FULL_RANKS:
            ranks = {rank for group in groups for rank in group[:_INVESTIGATED]} - self.investigated
            self.investigated |= ranks
            for rank in sorted(ranks):
                pairs = _paired(rank, np.arange(self.num_ranks))
                for _ in range(_INVESTIGATIONS):
                    self.ask(pairs)
        return self.samples()

    def odds_below(self, levels: Levels, level: int, pairs: Integers) -> Floats:
        """``(k,)`` log odds that pairs meet below the level, each measured until it is clear; 0 if silent."""
        sums, counts = np.zeros((len(pairs), 2)), np.zeros(len(pairs), dtype=np.int64)
        odds, open_ = np.zeros(len(pairs)), np.arange(len(pairs))
        most = _MOST_REPEATS if (levels.repeat_variance > 0).all() else 1
        for _ in range(most):
            costs = self.ask(pairs[open_])
            open_, costs = open_[~np.isnan(costs[:, 0])], costs[~np.isnan(costs[:, 0])]
            sums[open_] += costs
            counts[open_] += 1
            odds[open_] = levels.odds_below(level, sums[open_] / counts[open_, None], counts[open_])
            open_ = open_[np.abs(odds[open_]) < _CLEAR_ODDS]
            if not len(open_):
                break
        return odds


def sample_pairs(sampler: Sampler, seed: int = 0) -> PairSamples:
    """Measure as many pairs as it takes; returns those that the levels are to be fitted on.

    Raises:
        InputError: Fewer than two ranks, or none that answers.
    """
    draw, num_ranks = np.random.default_rng(seed), sampler.num_ranks
    checked_pairs([], num_ranks)
    if num_ranks <= FULL_RANKS:
        pairs = all_pairs(range(num_ranks))
        for _ in range(_FULL_REPEATS):
            sampler.ask(pairs)
        samples = sampler.samples()
        if not samples.counts.any():
            raise InputError(f"none of {num_ranks} ranks answers another: nothing can be discovered")
        return samples
    alive = _answering(sampler, draw)
    calibration = _calibrate(sampler, alive, draw)
    levels = fit_levels(calibration)
    parents = [alive]
    for level in range(len(levels) - 1, 0, -1):
        parents = _split(sampler, levels, level, parents, draw)
    _confirm(sampler, parents, draw)
    return calibration


def _answering(sampler: Sampler, draw: np.random.Generator) -> np.ndarray:
    """The ranks that answered at least one of several others."""
    ranks = np.arange(sampler.num_ranks)
    alive = np.zeros(sampler.num_ranks, dtype=bool)
    for _ in range(_MATCHINGS):
        pairs = random_matching(ranks, draw)
        alive[pairs[~np.isnan(sampler.ask(pairs)[:, 0])].ravel()] = True
    silent = np.flatnonzero(~alive)
    if alive.any() and len(silent):
        partners = draw.choice(np.flatnonzero(alive), (len(silent), _MATCHINGS))
        pairs = np.stack((np.repeat(silent, _MATCHINGS), partners.ravel()), axis=1)
        alive[pairs[~np.isnan(sampler.ask(pairs)[:, 0]), 0]] = True
    if alive.sum() < 2:
        raise InputError(f"none of {sampler.num_ranks} ranks answers another: nothing can be discovered")
    return np.flatnonzero(alive)


def _calibrate(sampler: Sampler, alive: np.ndarray, draw: np.random.Generator) -> PairSamples:
    """Fresh repeats of pairs near and far; the first look only says which they are."""
    pivots = draw.choice(alive, min(_PIVOTS, len(alive)), replace=False)
    chosen = []
    for pivot in pivots:
        pairs = _paired(pivot, alive)
        costs = sampler.ask(pairs)
        answered = np.flatnonzero(~np.isnan(costs[:, 0]))
        order = answered[costs[answered].sum(axis=1).argsort(kind="stable")]
        picks = [order[:_FASTEST]]
        start = _FASTEST
        while start < len(order):
            shell = order[start : 2 * start]
            picks.append(draw.choice(shell, min(_SHELL, len(shell)), replace=False))
            start *= 2
        chosen.append(pairs[np.concatenate(picks)])
    before, pairs = len(sampler.asked), np.concatenate(chosen)
    for _ in range(_SHELL_REPEATS):
        sampler.ask(pairs)
    return sampler.samples(before)


def _split(
    sampler: Sampler, levels: Levels, level: int, parents: list[np.ndarray], draw: np.random.Generator
) -> list[np.ndarray]:
    """The groups of the level below ``level`` in all parents at once."""
    children: list[np.ndarray] = []
    without = [draw.permutation(parent) for parent in parents]
    num_pivots = 1
    while without:
        rows = [(part, part[: min(num_pivots, -(-len(part) // 2))]) for part in without]
        pairs = np.concatenate([_crossed(pivots, part) for part, pivots in rows])
        odds = sampler.odds_below(levels, level, pairs) if len(pairs) else np.empty(0)
        at, remaining = 0, []
        for part, pivots in rows:
            count = len(pivots) * len(part) - len(pivots)
            found, left = _claimed(part, len(pivots), odds[at : at + count])
            at += count
            children += found
            if len(left):
                remaining.append(left)
        without, num_pivots = remaining, min(2 * num_pivots, _MOST_PIVOTS)
    return children


def _crossed(pivots: np.ndarray, part: np.ndarray) -> Integers:
    """Every pivot with every other rank of the part, of which the pivots are the first."""
    return np.concatenate([_paired(pivot, part) for pivot in pivots])


def _claimed(part: np.ndarray, num_pivots: int, odds: Floats) -> tuple[list[np.ndarray], np.ndarray]:
    """Groups around the pivots, in turn, and the ranks that belong to none of them."""
    free = np.ones(len(part), dtype=bool)
    groups = []
    for index, row in enumerate(odds.reshape(num_pivots, len(part) - 1)):
        if free[index]:
            mine = np.insert(row > 0, index, True) & free
            groups.append(part[mine])
            free &= ~mine
    return groups, part[free]


def _confirm(sampler: Sampler, groups: list[np.ndarray], draw: np.random.Generator) -> None:
    """All pairs of a small group, some random matchings of a large one; each twice."""
    pairs = [
        all_pairs(group)
        if len(group) <= _WHOLE_GROUP
        else np.concatenate([random_matching(group, draw) for _ in range(_CONFIRMING)])
        for group in groups
        if len(group) > 1
    ]
    if pairs:
        together = np.concatenate(pairs)
        for _ in range(2):
            sampler.ask(together)


def _paired(pivot: int, ranks: np.ndarray) -> Integers:
    others = ranks[ranks != pivot]
    return np.stack((np.full(len(others), pivot), others), axis=1)
