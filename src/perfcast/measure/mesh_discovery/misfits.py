"""The faults of a finished hierarchy, named: dead devices, slow links and pairs, unequal groups."""

from __future__ import annotations

import math

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.measure.mesh_discovery.assign import groups_of, level_of_pairs
from perfcast.measure.mesh_discovery.faults import Hierarchy, Misfit, crossing, slowness, usual_size

_LEAST_PAIR_SLOWDOWN = 1.5
_LEAST_PAIR_DEVIATIONS = 6.0
_MOST_NAMED = 32
_SHOWN_RANKS = 8


def name_misfits(found: Hierarchy, dead: tuple[int, ...]) -> tuple[Misfit, ...]:
    """All of them, dead devices first."""
    silent = [Misfit("dead_device", (rank,), f"rank {rank} never answered any other rank") for rank in dead]
    links = list(found.slow_links)
    misfits = [*silent, *(_slow_link(found, link) for link in links)]
    for _ in range(_MOST_NAMED):
        hidden = _slowest_device(found, tuple(links))
        if hidden is None:
            break
        links.append(hidden)
        misfits.append(_slow_link(found, hidden))
    return (*misfits, *_slow_pairs(found, tuple(links)), *_unequal_groups(found.labels))


def _slow_link(found: Hierarchy, ranks: tuple[int, ...]) -> Misfit:
    bandwidth, latency = slowness(found, ranks) or (math.nan, math.nan)
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"the group of {describe_ranks(ranks)}"
    note = (
        f"{who}: its link has {bandwidth:.2g} of the bandwidth and {latency:.2g} times the latency of others"
    )
    return Misfit("slow_link", ranks, note, bandwidth, latency)


def _slowest_device(found: Hierarchy, links: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """A group or device whose pairs to all others of its parent are slow, and that no group rests on yet."""
    known = found.samples.answered()
    known = known.select(~crossing(known, links))
    known = known.select((found.labels[-1, known.pairs] >= 0).all(axis=1))
    at = level_of_pairs(found.labels, known.pairs)
    variance = found.levels.variance(known.counts)
    residuals = known.costs - found.levels.centres[at]
    worst, slowest = 0.0, None
    members = np.vstack((np.arange(found.labels.shape[1]), found.labels))
    for level in range(len(found.labels)):
        mine = at == level
        ends = members[level, known.pairs[mine]]
        shares = _median_by_end(ends, residuals[mine], variance[mine])
        if shares is None:
            continue
        label, slowdown = shares
        if slowdown > worst:
            worst = slowdown
            slowest = tuple(np.flatnonzero(members[level] == label).tolist())
    return slowest if slowest is not None and slowness(found, slowest) else None


def _median_by_end(ends: np.ndarray, residuals: np.ndarray, variance: np.ndarray) -> tuple[int, float] | None:
    """The end most of whose pairs are slow beyond doubt, and the (lower) median of its residuals."""
    flat = ends.ravel()
    best = None
    for axis in range(2):
        values = np.repeat(residuals[:, axis], 2)
        precision = np.bincount(flat, np.repeat(1 / variance[:, axis], 2))
        found, starts, counts = np.unique(np.sort(flat), return_index=True, return_counts=True)
        ordered = values[np.lexsort((values, flat))]
        medians = ordered[starts + (counts - 1) // 2]
        clear = (medians > math.log(_LEAST_PAIR_SLOWDOWN)) & (counts > 1)
        clear &= medians * np.sqrt(precision[found]) > _LEAST_PAIR_DEVIATIONS
        medians = np.where(clear, medians, 0.0)
        if medians.any() and (best is None or medians.max() > best[1]):
            best = int(found[medians.argmax()]), float(medians.max())
    return best


def _slow_pairs(found: Hierarchy, links: tuple[tuple[int, ...], ...]) -> list[Misfit]:
    """Single pairs far slower than their level, with all other pairs of both ends as they should be."""
    known = found.samples.answered()
    known = known.select(~crossing(known, links) & (known.counts > 1))
    known = known.select((found.labels[-1, known.pairs] >= 0).all(axis=1))
    residuals = known.costs - found.levels.centres[level_of_pairs(found.labels, known.pairs)]
    deviations = residuals / np.sqrt(found.levels.variance(known.counts))
    slow = (residuals > math.log(_LEAST_PAIR_SLOWDOWN)) & (deviations > _LEAST_PAIR_DEVIATIONS)
    at = np.flatnonzero(slow.any(axis=1))
    at = at[np.argsort(-residuals[at].max(axis=1), kind="stable")][:_MOST_NAMED]
    return [
        Misfit(
            "slow_pair",
            tuple(known.pairs[i].tolist()),
            f"ranks {known.pairs[i, 0]} and {known.pairs[i, 1]}: {math.exp(-residuals[i, 1]):.2g} of the "
            f"bandwidth and {math.exp(residuals[i, 0]):.2g} times the latency of their level",
            math.exp(-residuals[i, 1]),
            math.exp(residuals[i, 0]),
        )
        for i in at
    ]


def _unequal_groups(labels: Integers) -> list[Misfit]:
    """Groups with another number of children than most of their level."""
    misfits: list[Misfit] = []
    below = np.arange(labels.shape[1])
    for row in labels:
        groups = groups_of(row)
        children = np.array([len(np.unique(below[group])) for group in groups])
        usual = usual_size(children)
        for group, count in zip(groups, children.tolist(), strict=True):
            if count != usual and len(misfits) < _MOST_NAMED:
                ranks = tuple(group.tolist())
                note = f"the group of {describe_ranks(ranks)} has {count} members, most others have {usual}"
                misfits.append(Misfit("unequal_group", ranks, note))
        below = row
    return misfits


def describe_ranks(ranks: tuple[int, ...]) -> str:
    """``'ranks 1, 2, 3, … (64)'``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:_SHOWN_RANKS]))
    return f"ranks {shown}, … ({len(ranks)})" if len(ranks) > _SHOWN_RANKS else f"ranks {shown}"
