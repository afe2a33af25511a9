"""How sure a discovered hierarchy is, from 0 to 1, and why not more.

The product of chances that

* the number of levels is right: the odds against the next best number, from ``levels``;
* no level hides two: the pairs of a level should differ by noise alone (chi-squared against the repeats),
  without a tail of fast ones;
* every rank has its group: the log odds of all pairs that tie it to its group, and that keep groups apart;
* what is irregular is understood: one smaller group is credible, groups torn apart are not;
* a group behind a slow link has one place only.

Chances for what cannot be computed (a hidden level, a torn group) are constants that
``benchmarks/discovery.py`` checks: of the discoveries with a confidence of 0.9 or more, more than that are
right. Levels less than a tenth apart in both figures count as one level, whatever the confidence.
"""

from __future__ import annotations

import math

import numpy as np

from perfcast.measure.mesh_discovery.assign import groups_of, level_of_pairs
from perfcast.measure.mesh_discovery.faults import Hierarchy, crossing, usual_size
from perfcast.measure.mesh_discovery.levels import Levels
from perfcast.measure.mesh_discovery.matrix import PairSamples

_DOUBTFUL = 0.95
_CLEAR_EXCESS = 5.0
_FAST = -4.0
_MOST_FAST_SHARE = 1e-3
_LEAST_SEPARATION = 2.5
_HIDDEN_LEVEL_CHANCE = 0.6
_NEAR_LEVELS_CHANCE = 0.8
_TORN_CHANCE = 0.3
_IRREGULAR_CHANCE = 0.6
_UNEQUAL_CHANCE = 0.97
_NO_REPEATS_CHANCE = 0.97
_CERTAIN = 50.0

Chance = tuple[float, str]


def confidence_of(found: Hierarchy) -> tuple[float, tuple[str, ...]]:
    """The product of the chances, and in words the doubts behind those below 0.95."""
    known = found.samples.answered()
    known = known.select(~crossing(known, found.slow_links))
    known = known.select((found.labels[-1, known.pairs] >= 0).all(axis=1))
    chances = (
        _number_of_levels(found.levels),
        _near_levels(found.levels),
        _hidden_levels(found, known),
        _members(found, known),
        _regularity(found),
        (1.0 if found.is_certain else _TORN_CHANCE, "a group behind a slow link fits in several places"),
    )
    doubts = tuple(doubt for chance, doubt in chances if chance < _DOUBTFUL)
    return math.prod(chance for chance, _ in chances), doubts


def _number_of_levels(levels: Levels) -> Chance:
    advantage = min(levels.advantage, _CERTAIN)
    return 1 / (1 + math.exp(-advantage)), "another number of levels explains the pairs nearly as well"


def _near_levels(levels: Levels) -> Chance:
    distance = levels.separation()
    chance = 1.0 if distance > _LEAST_SEPARATION else _NEAR_LEVELS_CHANCE
    return chance, f"two levels lie {distance:.1f} standard deviations of the noise apart: too close to tell"


def _hidden_levels(found: Hierarchy, known: PairSamples) -> Chance:
    """Pairs of one level that differ by more than repeats of one pair, or some that are far too fast."""
    residuals = known.costs - found.levels.centres[level_of_pairs(found.labels, known.pairs)]
    at = level_of_pairs(found.labels, known.pairs)
    variance = found.levels.variance(known.counts)
    fast = int(((residuals / np.sqrt(variance)) < _FAST).sum())
    if fast > max(1.0, _MOST_FAST_SHARE * len(known.pairs)):
        return _HIDDEN_LEVEL_CHANCE, f"{fast} pairs are much faster than their level: it may hide another"
    if not (known.repeat_variance() > 0).all():
        return _NO_REPEATS_CHANCE, "no pair was measured twice, so that noise is not known"
    noise = known.repeat_variance() / known.counts[:, None]
    for level in np.unique(at):
        mine = at == level
        excess = (residuals[mine] ** 2 / noise[mine]).mean(axis=0) - 1
        if (excess * math.sqrt(mine.sum() / 2) > _CLEAR_EXCESS).any():
            depth = len(found.labels) - 1 - int(level)
            spread = math.sqrt(float((excess * noise[mine].mean(axis=0)).max()))
            return _HIDDEN_LEVEL_CHANCE, (
                f"pairs of axis_{depth} differ by {spread:.0%} more than noise: levels that close would hide"
            )
    return 1.0, ""


def _members(found: Hierarchy, known: PairSamples) -> Chance:
    """Every rank's ties to its groups, and every two groups' distance, as log odds that may all fail."""
    failures, num_ranks = 0.0, found.samples.num_ranks
    for level in range(1, len(found.labels)):
        parents, groups = found.labels[level], found.labels[level - 1]
        ends = known.pairs
        inside = parents[ends[:, 0]] == parents[ends[:, 1]]
        odds = found.levels.odds_below(level, known.costs[inside], known.counts[inside])
        ends = ends[inside]
        same = groups[ends[:, 0]] == groups[ends[:, 1]]
        ties = np.bincount(ends[same].ravel(), np.repeat(odds[same], 2), minlength=num_ranks)
        sizes = np.bincount(groups[groups >= 0])
        mine = (groups >= 0) & (sizes[np.maximum(groups, 0)] > 1)
        mine[[rank for link in found.slow_links for rank in link]] = False
        failures += float(np.exp(-np.clip(ties[mine], -1.0, _CERTAIN)).sum())
        keys = np.sort(groups[ends[~same]], axis=1) @ np.array([num_ranks + 1, 1])
        if len(keys):
            apart = np.bincount(np.unique(keys, return_inverse=True)[1], -odds[~same])
            failures += float(np.exp(-np.clip(apart, -1.0, _CERTAIN)).sum())
    return 1 / (1 + failures), "some ranks could belong to another group just as well"


def _regularity(found: Hierarchy) -> Chance:
    """Groups torn apart (a small one beside one that lacks as many), or other numbers of children."""
    below = np.arange(found.labels.shape[1])
    chance, doubt = 1.0, ""
    for level, row in enumerate(found.labels):
        groups = groups_of(row)
        sizes = np.array([len(group) for group in groups])
        children = np.array([len(np.unique(below[group])) for group in groups])
        usual, odd = usual_size(children), children != usual_size(children)
        if len(groups) > 1 and odd.any():
            lacking = usual_size(sizes) - sizes[odd]
            is_torn = bool(np.isin(lacking, sizes[odd]).any()) and odd.sum() > 1
            dead = int((found.labels[-1] < 0).sum())
            if is_torn and level > 0:
                chance, doubt = min(chance, _TORN_CHANCE), "two groups look like one that was torn apart"
            elif is_torn or level > 0 or (children[odd] > usual).any():
                chance = min(chance, _IRREGULAR_CHANCE)
                doubt = (
                    doubt or f"groups of different size ({min(children)} to {max(children)}) within one level"
                )
            elif dead == 0:
                chance = min(chance, _UNEQUAL_CHANCE)
        below = row
    return chance, doubt
