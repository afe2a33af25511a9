"""Unions and intersections of intervals in time, vectorised."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats


def union(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Starts and ends of the union's parts, in order, apart from each other; empty intervals vanish."""
    lasts = ends > starts
    starts, ends = starts[lasts], ends[lasts]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    is_new = np.concatenate([[True], starts[1:] > ends[:-1]])
    is_last = np.concatenate([is_new[1:], [True]])
    return starts[is_new], ends[is_last]


def total_seconds(spans: tuple[Floats, Floats]) -> float:
    """Length of a union."""
    return float((spans[1] - spans[0]).sum())


def clip(starts: Floats, ends: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """The intervals within a window; those outside become empty."""
    low_ends = np.clip(starts, low, high)
    return low_ends, np.maximum(low_ends, np.clip(ends, low, high))


def gaps(spans: tuple[Floats, Floats], low: float, high: float) -> tuple[Floats, Floats]:
    """What a union leaves of a window."""
    starts = np.concatenate([[low], spans[1]])
    ends = np.concatenate([spans[0], [high]])
    lasts = ends > starts
    return starts[lasts], ends[lasts]


def without(whole: tuple[Floats, Floats], holes: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """What a union leaves of another."""
    if not len(holes[0]) or not len(whole[0]):
        return whole
    low, high = float(whole[0][0]), float(whole[1][-1])
    outside, inside = gaps(whole, low, high), union(*clip(*holes, low, high))
    covered = union(np.concatenate([outside[0], inside[0]]), np.concatenate([outside[1], inside[1]]))
    return gaps(covered, low, high)


def overlap_seconds(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> float:
    """Length of the intersection of two unions."""
    both = union(np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]]))
    return total_seconds(first) + total_seconds(second) - total_seconds(both)
