"""From pairs of ranks to the mesh of a cluster: the front door of discovery."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.errors import InputError
from perfcast.measure.mesh_discovery.assign import groups_of
from perfcast.measure.mesh_discovery.confidence import confidence_of
from perfcast.measure.mesh_discovery.faults import (
    Hierarchy,
    explain_slow_links,
    hierarchy_of,
    usual_size,
)
from perfcast.measure.mesh_discovery.fit import fit_axes
from perfcast.measure.mesh_discovery.found import DiscoveredMesh, Groups
from perfcast.measure.mesh_discovery.matrix import Measure, PairSamples
from perfcast.measure.mesh_discovery.misfits import name_misfits
from perfcast.measure.mesh_discovery.sampling import Sampler, sample_pairs


def discover_mesh(measure: Measure | PairSamples, num_ranks: int, *, seed: int = 0) -> DiscoveredMesh:
    """Find the hierarchy of a cluster, the place of every rank, each axis' latency and bandwidth, and faults.

    Args:
        measure: Either measures pairs when asked (then it is asked for those that are needed), or
            measurements made before.
        num_ranks: Ranks 0 … n − 1.
        seed: Of the choice of pairs.

    Raises:
        InputError: Fewer than two ranks, none that answers, impossible figures, or samples of another
            number of ranks.
    """
    if isinstance(measure, PairSamples):
        return discover_from_samples(measure, num_ranks)
    return discover_with_samples(measure, num_ranks, seed=seed)[0]


def discover_with_samples(
    measure: Measure, num_ranks: int, *, seed: int = 0
) -> tuple[DiscoveredMesh, PairSamples]:
    """As ``discover_mesh``, with all that was measured."""
    sampler = Sampler(measure, num_ranks)
    calibration = sample_pairs(sampler, seed)
    found = hierarchy_of(sampler.samples(), calibration)
    found = explain_slow_links(found, sampler.investigate)
    return _mesh_of(found), sampler.samples()


def discover_from_samples(samples: PairSamples, num_ranks: int) -> DiscoveredMesh:
    """As ``discover_mesh``, from measurements made before: no pair can be added or repeated.

    Raises:
        InputError: Measurements of another number of ranks, or none that answered.
    """
    if samples.num_ranks != num_ranks:
        raise InputError(f"the measurements are of {samples.num_ranks} ranks, not of {num_ranks}")
    if not samples.counts.any():
        raise InputError(f"none of {num_ranks} ranks answers another: nothing can be discovered")
    return _mesh_of(explain_slow_links(hierarchy_of(samples, samples), None))


def _mesh_of(found: Hierarchy) -> DiscoveredMesh:
    dead = tuple(np.flatnonzero(found.labels[-1] < 0).tolist())
    misfits = name_misfits(found, dead)
    confidence, doubts = confidence_of(found)
    axes = fit_axes(found)
    labels = _with_dead(found.labels, dead)
    rows, shape = nested_groups(labels)
    return DiscoveredMesh(
        num_ranks=found.samples.num_ranks,
        shape=shape,
        ranks=tuple(rank for group in rows[-1] for rank in group),
        groups=rows,
        axes=axes,
        confidence=confidence,
        doubts=doubts,
        misfits=misfits,
        num_measured_pairs=len(found.samples.pairs),
        num_measurements=found.samples.num_measurements,
    )


def _with_dead(labels: Integers, dead: tuple[int, ...]) -> Integers:
    """Dead devices put where exactly they are lacking: all in one group of each level, or nowhere."""
    if not dead:
        return labels
    placed = labels.copy()
    placed[-1, list(dead)] = 0
    for row in range(len(labels) - 2, -1, -1):
        groups = groups_of(labels[row])
        usual = usual_size(np.array([len(group) for group in groups]))
        odd = [group for group in groups if len(group) != usual]
        if len(odd) != 1 or len(odd[0]) + len(dead) != usual:
            return labels
        placed[row, list(dead)] = labels[row, odd[0][0]]
    return placed


def nested_groups(labels: Integers) -> tuple[tuple[Groups, ...], tuple[int, ...]]:
    """Groups of every level, outer first, ordered by lowest rank in their parent; and the shape, if any."""
    order = np.flatnonzero(labels[-1] >= 0)
    keys = [_lowest_ranks(row)[order] for row in labels]
    order = order[np.lexsort((order, *keys))]
    rows = []
    for row in labels[::-1]:
        starts = np.flatnonzero(np.diff(row[order])) + 1
        rows.append(tuple(tuple(part.tolist()) for part in np.split(order, starts)))
    if any(len({len(group) for group in groups}) > 1 for groups in rows):
        return tuple(rows), ()
    counts = [len(groups) for groups in rows] + [len(order)]
    return tuple(rows), tuple(below // above for above, below in pairwise(counts))


def _lowest_ranks(row: Integers) -> Integers:
    """``(n,)``: the lowest rank of each rank's group."""
    lowest = np.empty_like(row)
    for group in groups_of(row):
        lowest[group] = group[0]
    return lowest
