"""Canonical sizes of each class of kernels: those that differ in nothing but what grows with a step.

A product grows in rows; one of transposed operands, which a gradient of weights is, in what it sums over;
batched ones in their number; convolutions in images; experts in tokens. Attention and scans grow with
sequences and with their length. Canonical sizes are powers of two, and quarters between them about a kernel.
Kernels over rows grow in rows and in bytes, some of which do not grow (a norm's weights): theirs are whole
rows, and ``rising`` finds a kernel among them by the seconds that physics gives it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import SIZES, KernelFamily
from perfcast.cost.collective_fit.interpolate import rising_medians
from perfcast.cost.learned.families.row_operations import Pattern, pattern_of

#: A kernel by its sizes and words, in the order of ``SIZES`` and ``WORDS``.
Cells = tuple[float | str, ...]
#: Canonical sizes of an octave, over its first.
_QUARTERS = (1.25, 1.5, 1.75)
#: Powers of two that a line has whatever the kernel's size: to a million rows.
_LONGEST = 21
#: The same of a grid: to 2,048 sequences, of 131,072 tokens times the least.
_MOST_BATCHES, _LONGEST_GRID = 12, 18
#: Fewer tokens of a sequence are one tile.
_TILE = 16.0
#: Elements of a row where nobody owns rows.
_ROW = 1024.0
_ELEMENT_BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0}
_USUAL_ELEMENT_BYTES = 2.0


@dataclass(frozen=True)
class Axis:
    """Canonical sizes along which a kernel grows.

    Attributes:
        wholes: Powers of two from the least to the one at or above the kernel's size, or beyond it.
        quarters: Of the kernel's octave, between its ends; none where the kernel has a canonical size.
        size: The kernel's own.
        end: Place among ``wholes`` of the one at or above the size.
    """

    wholes: tuple[float, ...]
    quarters: tuple[float, ...]
    size: float
    end: int

    @property
    def steps(self) -> tuple[float, ...]:
        """All canonical sizes, quarters last."""
        return (*self.wholes, *self.quarters)


@dataclass(frozen=True)
class Ladder:
    """Canonical kernels below one kernel and about it.

    Attributes:
        cells: The kernels; of two axes, the second varies fastest.
        axes: One or two.
    """

    cells: tuple[Cells, ...]
    axes: tuple[Axis, ...]

    def read(self, seconds: Sequence[float]) -> float:
        """The rising price of the kernel, from the fit's of ``cells``."""
        if len(self.axes) == 1:
            return _between(self.axes[0], _rising_line(seconds, self.axes[0]))
        first, second = self.axes
        fitted = np.array(seconds).reshape(len(first.steps), len(second.steps))
        along = [_between(second, line.tolist()) for line in _rising_grid(fitted, first, second)]
        return _between(first, along)


def ladder_of(family: KernelFamily, cells: Cells) -> Ladder:
    """Canonical kernels of the class of one."""
    return _LADDERS[family](cells)


def _rising_line(fitted: Sequence[float], axis: Axis) -> list[float]:
    """Rising prices at the ends of the kernel's octave and its quarters.

    The never-falling prices nearest to the fit's, of as many canonical sizes whatever the kernel's: where
    neighbours are out of order, their median. Quarters lie within the ends of their octave.
    """
    wholes = np.concatenate(
        [rising_medians(np.array(fitted[:_LONGEST])), fitted[_LONGEST : len(axis.wholes)]]
    )
    wholes = np.maximum.accumulate(wholes)
    high = float(wholes[axis.end])
    if not axis.quarters:
        return [high]
    low = float(wholes[axis.end - 1])
    quarters = np.clip(rising_medians(np.array(fitted[len(axis.wholes) :])), low, high)
    return [low, *quarters.tolist(), high]


def _most_below(values: Floats) -> Floats:
    """The most of each value and of all before it on both axes."""
    most: Floats = np.maximum.accumulate(np.maximum.accumulate(values, axis=0), axis=1)
    return most


def _rising_ends(fitted: Floats) -> Floats:
    """Rising prices of a grid of whole sizes: midway between the most below each and the least above it.

    Of as many sizes whatever the kernel's; beyond those, the most below.
    """
    inner = fitted[:_MOST_BATCHES, :_LONGEST_GRID]
    least_above = np.minimum.accumulate(np.minimum.accumulate(inner[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
    ends = fitted.copy()
    ends[:_MOST_BATCHES, :_LONGEST_GRID] = np.sqrt(_most_below(inner) * least_above)
    return _most_below(ends)


def _rising_grid(fitted: Floats, first: Axis, second: Axis) -> Floats:
    """Rising prices in the kernel's cell: its ends and quarters on both axes, shape [1 or 5, 1 or 5].

    Quarters of one axis lie within the ends of their octave, quarters of both within those of one.
    """
    rows, columns = len(first.wholes), len(second.wholes)
    ends = _rising_ends(fitted[:rows, :columns])[: first.end + 1, : second.end + 1]
    low_row, low_column = max(first.end - 1, 0), max(second.end - 1, 0)
    along = fitted[: first.end + 1, columns:]  # wholes of the first axis, quarters of the second
    across = fitted[rows:, : second.end + 1]
    if along.size:
        along = np.clip(_most_below(along), ends[:, low_column, None], ends[:, -1, None])
    if across.size:
        across = np.clip(_most_below(across), ends[low_row, None, :], ends[-1, None, :])
    inner = fitted[rows:, columns:]
    if inner.size:
        low = np.maximum(along[low_row][None, :], across[:, low_column, None])
        high = np.minimum(along[-1][None, :], across[:, -1, None])
        inner = np.clip(_most_below(inner), low, high)

    def row(ends_of: Floats, quarters: Floats) -> Floats:
        if not second.quarters:
            return ends_of[..., -1:]
        return np.concatenate([ends_of[..., [low_column]], quarters, ends_of[..., -1:]], axis=-1)

    if not first.quarters:
        return row(ends[-1:], along[-1:])
    return np.concatenate(
        [row(ends[[low_row]], along[[low_row]]), row(across, inner), row(ends[-1:], along[-1:])]
    )


def _between(axis: Axis, values: Sequence[float]) -> float:
    if not axis.quarters:
        return values[-1]
    places = (axis.wholes[axis.end - 1], *axis.quarters, axis.wholes[axis.end])
    at = bisect_right(places, axis.size) - 1
    low, high = values[at], values[at + 1]
    if not low > 0:
        return low
    part = math.log(axis.size / places[at]) / math.log(places[at + 1] / places[at])
    return float(min(low * (high / low) ** part, high))


def axis_to(size: float, least: float = 1.0, num_wholes: int = 1) -> Axis:
    """Canonical sizes from a power of two to a size; one below that counts as that.

    Args:
        num_wholes: That there are at least.
    """
    size = max(size, least)
    low, high = math.floor(math.log2(least)), math.ceil(math.log2(size))
    end = max(high - low, 0)
    whole = tuple(2.0 ** (low + power) for power in range(max(end + 1, num_wholes)))
    quarters = () if whole[end] == size else tuple(quarter * whole[end - 1] for quarter in _QUARTERS)
    return Axis(whole, quarters, size, end)


def _line(cells: Cells, place: int) -> Ladder:
    """Canonical sizes of one column."""
    axis = axis_to(float(cells[place]), num_wholes=_LONGEST)
    kernels = tuple((*cells[:place], step, *cells[place + 1 :]) for step in axis.steps)
    return Ladder(kernels, (axis,))


def _grid(cells: Cells, places: tuple[int, ...], least: float) -> Ladder:
    """Canonical numbers of sequences (the first column), and sizes of the columns ``places``."""
    batches = axis_to(float(cells[0]), num_wholes=_MOST_BATCHES)
    sizes = axis_to(float(cells[places[0]]), least, _LONGEST_GRID)
    kernels = []
    for batch in batches.steps:
        for size in sizes.steps:
            changed = [batch, *cells[1:]]
            for place in places:
                changed[place] = size
            kernels.append(tuple(changed))
    return Ladder(tuple(kernels), (batches, sizes))


def _places(family: KernelFamily) -> dict[str, int]:
    return {name: place for place, name in enumerate(SIZES[family])}


_PRODUCT, _ATTENTION, _SCAN = (
    _places(family) for family in (KernelFamily.PRODUCT, KernelFamily.ATTENTION, KernelFamily.SCAN)
)


def _product(cells: Cells) -> Ladder:
    operation, layout = cells[len(_PRODUCT)], str(cells[len(_PRODUCT) + 1])
    if operation != "linear":
        return _line(cells, _PRODUCT["batch"])
    return _line(cells, _PRODUCT["k" if layout.startswith("t") else "m"])


def _attention(cells: Cells) -> Ladder:
    """Queries grow with keys where both are a whole sequence's.

    Of one query, kernels of one key were measured to take several times as long as those of two to a hundred:
    two is the least.
    """
    queries, keys = float(cells[_ATTENTION["num_queries"]]), float(cells[_ATTENTION["num_keys"]])
    if queries == keys and queries > 1:
        return _grid(cells, (_ATTENTION["num_queries"], _ATTENTION["num_keys"]), _TILE)
    least = max(2.0 ** math.floor(math.log2(max(min(queries, keys), 1.0))), 2.0)
    return _grid(cells, (_ATTENTION["num_keys"],), least)


def _scan(cells: Cells) -> Ladder:
    length = float(cells[_SCAN["sequence_length"]])
    return _grid(cells, (_SCAN["sequence_length"],), _TILE if length > 1 else 1.0)


def _rows(cells: Cells) -> Ladder:
    """Whole rows of as many bytes as their elements have, up to what has the kernel's rows and bytes."""
    num_rows, length, read, written = (float(cells[place]) for place in range(4))
    operation, dtype = str(cells[4]), str(cells[5])
    element = _ELEMENT_BYTES.get(dtype, _USUAL_ELEMENT_BYTES)
    is_stream = pattern_of(operation, str(cells[6])) is Pattern.STREAM
    row = _ROW if is_stream else max(length, 1.0)
    most = max(num_rows, num_rows * length / row, read / (row * element), written / (row * element))
    axis = replace(axis_to(most), quarters=())
    kernels = tuple(
        (step, row, step * row * element, step * row * element, *cells[4:]) for step in axis.steps
    )
    return Ladder(kernels, (axis,))


_LADDERS: Mapping[KernelFamily, Callable[[Cells], Ladder]] = {
    KernelFamily.PRODUCT: _product,
    KernelFamily.CONVOLUTION: lambda cells: _line(cells, 0),
    KernelFamily.ATTENTION: _attention,
    KernelFamily.EXPERTS: lambda cells: _line(cells, 0),
    KernelFamily.ROWS: _rows,
    KernelFamily.SCAN: _scan,
}
