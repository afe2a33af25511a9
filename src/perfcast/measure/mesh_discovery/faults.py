"""What does not fit: slow links, dead devices, groups of unequal size.

A slow link makes every pair that crosses it slow, and so draws levels of its own into the hierarchy, where
its group stands alone. Therefore each group that breaks the regularity is tried as the one behind a slow
link: its crossing pairs are set aside, levels and groups are found from the rest, and the group is placed
by its nearest neighbours (a slow link delays near and far alike) or, if the link hides all differences, in
the one place that lacks it. The explanation holds if it leaves fewer levels, or fewer irregular groups, and
if the crossing pairs are indeed slower than their levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.measure.mesh_discovery.assign import assign_ranks, groups_of, level_of_pairs
from perfcast.measure.mesh_discovery.levels import Levels, fit_levels
from perfcast.measure.mesh_discovery.matrix import PairSamples

_MOST_SUSPECTS = 8
_LEAST_SLOWDOWN = 1.2
_LEAST_DEVIATIONS = 6.0
_DISTINCT = 5.0
_MOST_SLOW_LINKS = 3

#: Measures some ranks of each group against all others, so that they can be placed; returns all samples.
Investigate = Callable[[list[tuple[int, ...]]], PairSamples]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A fault that discovery names.

    Attributes:
        kind: 'dead_device' (never answered), 'slow_link' (of a device or a group to all others),
            'slow_pair' (between two devices), or 'unequal_group' (fewer members than most).
        ranks: The device, the members of the group, or the two devices.
        note: In words.
        bandwidth_factor: Times the bandwidth that the level has; NaN where it does not apply.
        latency_factor: Times the latency that the level has; NaN where it does not apply.
    """

    kind: str
    ranks: tuple[int, ...]
    note: str
    bandwidth_factor: float = math.nan
    latency_factor: float = math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """Levels, groups, and the pairs that they were found from.

    Attributes:
        labels: ``(L, n)`` as in ``assign``.
        slow_links: Groups behind slow links.
        is_certain: Whether every group behind a slow link has one place only.
    """

    samples: PairSamples
    calibration: PairSamples
    levels: Levels
    labels: Integers
    slow_links: tuple[tuple[int, ...], ...] = ()
    is_certain: bool = True

    @property
    def irregularities(self) -> int:
        """Levels, plus groups of another size than most of their level."""
        rows = [np.array([len(group) for group in groups_of(row)]) for row in self.labels]
        return len(self.labels) + sum(int((sizes != usual_size(sizes)).sum()) for sizes in rows)


def usual_size(sizes: np.ndarray) -> int:
    """The most frequent size, the larger of two as frequent."""
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[counts == counts.max()].max())


def hierarchy_of(samples: PairSamples, calibration: PairSamples) -> Hierarchy:
    """Levels from the calibration pairs and groups from all, taken at face value."""
    levels = fit_levels(calibration)
    return Hierarchy(samples, calibration, *_used(levels, assign_ranks(samples, levels), samples))


def _used(levels: Levels, labels: Integers, samples: PairSamples) -> tuple[Levels, Integers]:
    """Without the levels on which no pair meets."""
    known = samples.answered().pairs
    known = known[(labels[-1, known] >= 0).all(axis=1)]
    kept = np.unique(level_of_pairs(labels, known))
    kept = np.union1d(kept, [len(labels) - 1])
    return replace(levels, centres=levels.centres[kept]), labels[kept]


def explain_slow_links(found: Hierarchy, investigate: Investigate | None) -> Hierarchy:
    """The simplest hierarchy that some slow links leave; the same one if there are none."""
    for _ in range(_MOST_SLOW_LINKS):
        suspects = _suspects(found)
        if investigate and suspects:
            found = _rebuilt(replace(found, samples=investigate(suspects)), found.levels, found.slow_links)
            suspects = _suspects(found)
        best = found
        for suspect in suspects:
            tried = _without_link(found, suspect)
            if tried is not None and tried.irregularities < best.irregularities:
                best = tried
        if best is found:
            return found
        found = best
    return found


def _suspects(found: Hierarchy) -> list[tuple[int, ...]]:
    """Groups of unusual size up to half of the ranks, those that break most levels first."""
    seen: dict[tuple[int, ...], int] = {}
    alive = int((found.labels[-1] >= 0).sum())
    for row in found.labels[:-1]:
        groups = groups_of(row)
        usual = usual_size(np.array([len(group) for group in groups]))
        for group in groups:
            if len(group) != usual and len(group) <= alive // 2:
                ranks = tuple(group.tolist())
                seen[ranks] = seen.get(ranks, 0) + 1
    fresh = [ranks for ranks in seen if ranks not in found.slow_links]
    return sorted(fresh, key=lambda ranks: (-seen[ranks], len(ranks)))[:_MOST_SUSPECTS]


def _without_link(found: Hierarchy, suspect: tuple[int, ...]) -> Hierarchy | None:
    """The hierarchy if the group's link is slow; None if its pairs are as fast as they should be."""
    links = (*found.slow_links, suspect)
    calibration = found.calibration.select(~crossing(found.calibration, links))
    if not calibration.counts.any():
        return None
    levels = fit_levels(calibration)
    if len(levels) > len(found.levels):
        return None
    tried = _rebuilt(replace(found, calibration=calibration), levels, links)
    mine = tried.labels[:-1, list(suspect)]
    if not (mine == mine[:, :1]).all(axis=1).any() or slowness(tried, suspect) is None:
        return None  # Several groups that are nearer to each other than to the rest: a level, not a link.
    return tried


def _rebuilt(found: Hierarchy, levels: Levels, links: tuple[tuple[int, ...], ...]) -> Hierarchy:
    """Groups anew from these levels: slow links' pairs are set aside, and their groups placed afterwards."""
    kept = found.samples.select(~crossing(found.samples, links))
    labels = assign_ranks(_with_ranks(kept, found.labels), levels)
    labels[:, found.labels[-1] < 0] = -1
    is_certain = True
    for link in links:
        is_certain &= place_group(labels, link, found.samples, levels)
    levels, labels = _used(levels, labels, found.samples)
    return Hierarchy(found.samples, found.calibration, levels, labels, links, is_certain)


def _with_ranks(samples: PairSamples, labels: Integers) -> PairSamples:
    """The samples, extended so that ranks whose every pair was set aside keep a place of their own."""
    alone = np.setdiff1d(np.flatnonzero(labels[-1] >= 0), samples.pairs[samples.counts > 0])
    if not len(alone):
        return samples
    others = np.where(alone == samples.pairs[0, 0], samples.pairs[0, 1], samples.pairs[0, 0])
    pairs = np.sort(np.stack((alone, others), axis=1), axis=1)
    far = np.full((len(alone), 2), 1e3)
    return PairSamples(
        samples.num_ranks,
        np.concatenate((samples.pairs, pairs)),
        np.concatenate((samples.counts, np.ones(len(alone), dtype=np.int64))),
        np.concatenate((samples.costs, far)),
        np.concatenate((samples.scatter, np.zeros_like(far))),
    )


def crossing(samples: PairSamples, links: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """``(k,)``: whether a pair has one end in one of the groups and the other outside of it."""
    mask = np.zeros(len(samples.pairs), dtype=bool)
    for link in links:
        inside = np.isin(samples.pairs, link)
        mask |= inside[:, 0] != inside[:, 1]
    return mask


def place_group(labels: Integers, ranks: tuple[int, ...], samples: PairSamples, levels: Levels) -> bool:
    """Put a group where its pairs say it belongs (``labels`` changes); whether there was one place only."""
    mine = np.array(ranks)
    whole = [row for row in range(len(labels) - 1) if len(np.unique(labels[row, mine])) == 1]
    if not whole:
        return False
    lowest = 0 if len(ranks) == 1 else whole[0] + 1
    near = _crossing_costs(samples, mine, levels)
    inside = np.isin(np.arange(labels.shape[1]), mine)
    labels[-1, mine] = labels[-1, ~inside & (labels[-1] >= 0)][0]
    is_certain = True
    for row in range(len(labels) - 2, lowest - 1, -1):
        siblings = (labels[row + 1] == labels[row + 1, mine[0]]) & ~inside
        children = [np.flatnonzero(siblings & (labels[row] == x)) for x in np.unique(labels[row, siblings])]
        usual = usual_size(np.array([len(group) for group in groups_of(np.where(inside, -1, labels[row]))]))
        child = _nearest(children, near)
        if child is None:
            lacking = [group for group in children if usual - len(group) == len(ranks)]
            child = lacking[0] if len(lacking) == 1 else None
        if child is None:
            return False
        labels[row, mine] = labels[row, child[0]]
    return is_certain


def _crossing_costs(samples: PairSamples, mine: np.ndarray, levels: Levels) -> tuple[Floats, Floats]:
    """``(n,)`` mean cost of each rank to the group in standard deviations of a measurement, and weights."""
    known = samples.answered()
    known = known.select(crossing(known, (tuple(mine.tolist()),)))
    outer = np.where(np.isin(known.pairs[:, 0], mine), known.pairs[:, 1], known.pairs[:, 0])
    variance = levels.variance(known.counts)
    single = levels.variance(np.ones(1, dtype=np.int64))
    scores = (known.costs / np.sqrt(single)).sum(axis=1) / math.sqrt(2)
    weights = (single / variance).mean(axis=1)
    totals = np.bincount(outer, weights, minlength=samples.num_ranks)
    sums = np.bincount(outer, weights * scores, minlength=samples.num_ranks)
    means = np.divide(sums, totals, out=np.full(samples.num_ranks, np.nan), where=totals > 0)
    return np.asarray(means), np.asarray(totals, dtype=np.float64)


def _nearest(children: list[np.ndarray], near: tuple[Floats, Floats]) -> np.ndarray | None:
    """The one child that is clearly nearer than the others; None if none is."""
    means, weights = near
    totals = np.array([weights[child].sum() for child in children])
    if len(children) == 1:
        return children[0]
    if not len(children) or (totals == 0).any():
        return None
    values = np.array([np.nansum(means[child] * weights[child]) for child in children]) / totals
    best, second = np.argsort(values, kind="stable")[:2]
    distance = (values[second] - values[best]) / math.sqrt(1 / totals[best] + 1 / totals[second])
    return children[int(best)] if distance > _DISTINCT else None


def slowness(found: Hierarchy, ranks: tuple[int, ...]) -> tuple[float, float] | None:
    """Bandwidth and latency of a group's link as parts of what its level has; None if it is not slow."""
    known = found.samples.answered()
    known = known.select(crossing(known, (ranks,)))
    at = level_of_pairs(found.labels, known.pairs)
    residuals = known.costs - found.levels.centres[at]
    variance = found.levels.variance(known.counts)
    for level in np.unique(at):
        mine = at == level
        weights = 1 / variance[mine]
        mean = (weights * residuals[mine]).sum(axis=0) / weights.sum(axis=0)
        deviations = mean * np.sqrt(weights.sum(axis=0))
        if ((mean > math.log(_LEAST_SLOWDOWN)) & (deviations > _LEAST_DEVIATIONS)).any():
            return math.exp(-mean[1]), math.exp(mean[0])
    return None
