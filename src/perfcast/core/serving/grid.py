"""Seconds on a grid, between whose points they are linear: curves, and surfaces in two arguments.

Values have the shape (stages, points …, bounds): stages of a pipeline that differ, and what bounds each part
of the time. Beyond the last point the last piece goes on; before the first the first value stands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perfcast.core.arrays import Floats, Integers


def rising(values: Floats, axes: Sequence[int]) -> Floats:
    """Values that never fall along the axes: at each point the least total there and beyond it, split between
    bounds as before. What is said to take less with more work can be padded to that."""
    total = values.sum(axis=-1)
    least = total
    for axis in axes:
        least = np.flip(np.minimum.accumulate(np.flip(least, axis), axis=axis), axis)
    factor = np.divide(least, total, out=np.ones_like(total), where=total > 0)
    scaled: Floats = values * factor[..., None]
    return scaled


def _located(points: Floats, at: Floats) -> tuple[Integers, Floats]:
    """The piece in which each argument lies, and how far along it: 0 at its beginning, 1 at its end."""
    piece = np.clip(np.searchsorted(points, at, side="right") - 1, 0, len(points) - 2)
    along = (at - points[piece]) / (points[piece + 1] - points[piece])
    return piece, np.maximum(along, 0.0)


def _place(points: list[float], at: float) -> tuple[int, float]:
    """As ``_located``, of one."""
    piece = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    return piece, max((at - points[piece]) / (points[piece + 1] - points[piece]), 0.0)


@dataclass(frozen=True, eq=False)
class Curve:
    """Seconds over one argument.

    Attributes:
        points: Rising, at least two, shape (p,).
        values: Shape (stages, p, bounds).
    """

    points: Floats
    values: Floats

    def at(self, arguments: Floats) -> Floats:
        """Seconds, shape (stages, n, bounds)."""
        piece, along = _located(self.points, arguments)
        return self.values[:, piece] + along[:, None] * (self.values[:, piece + 1] - self.values[:, piece])

    @cached_property
    def _lists(self) -> tuple[list[float], list[list[float]]]:
        return self.points.tolist(), self.values.sum(axis=-1).tolist()

    def totals(self, argument: float) -> list[float]:
        """Of all bounds, one for each stage."""
        points, rows = self._lists
        piece, along = _place(points, argument)
        return [row[piece] + along * (row[piece + 1] - row[piece]) for row in rows]


@dataclass(frozen=True, eq=False)
class Surface:
    """Seconds over two arguments, linear in each.

    Attributes:
        rows, columns: Rising, at least two of each, shapes (r,) and (c,).
        values: Shape (stages, r, c, bounds).
    """

    rows: Floats
    columns: Floats
    values: Floats

    def at(self, row_arguments: Floats, column_arguments: Floats) -> Floats:
        """Seconds, shape (stages, n, bounds)."""
        row, down = _located(self.rows, row_arguments)
        column, along = _located(self.columns, column_arguments)
        down, along = down[:, None], along[:, None]
        upper = self.values[:, row, column] * (1 - along) + self.values[:, row, column + 1] * along
        lower = self.values[:, row + 1, column] * (1 - along) + self.values[:, row + 1, column + 1] * along
        return upper * (1 - down) + lower * down

    @cached_property
    def _lists(self) -> tuple[list[float], list[float], list[list[list[float]]]]:
        return self.rows.tolist(), self.columns.tolist(), self.values.sum(axis=-1).tolist()

    def totals(self, row_argument: float, column_argument: float) -> list[float]:
        """Of all bounds, one for each stage."""
        rows, columns, stages = self._lists
        row, down = _place(rows, row_argument)
        column, along = _place(columns, column_argument)
        found = []
        for stage in stages:
            above, below = stage[row], stage[row + 1]
            upper = above[column] * (1 - along) + above[column + 1] * along
            lower = below[column] * (1 - along) + below[column + 1] * along
            found.append(upper * (1 - down) + lower * down)
        return found
