"""Prices that never fall while a kernel grows with the batch, the sequence or the tokens of a step.

Fitted prices follow what was measured: tiles and waves change, and trees step from one leaf to the next, so
that 33 sequences were priced below 32. Single kernels of real devices do that too, where a library takes a
better tile for the larger size; but nothing keeps it from running the larger kernel for the smaller size,
padded. A kernel stands on the ladder of the canonical sizes of its class (``ladders``), whose prices are made
to rise, and between two of them its price is straight in logarithms. What the ladder holds below a size does
not depend on the size: prices never fall, and where the fit's rise they are the fit's at canonical sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import SIZES, WORDS, Column, KernelFamily, KernelTable
from perfcast.cost.learned.ladders import Cells, Ladder, ladder_of
from perfcast.cost.learned.predictor import KernelEstimates

#: Seconds of the kernels of a table, shape [n].
Price = Callable[[KernelTable], Floats]
#: Canonical sizes whose prices are kept.
_MOST_KEPT = 200_000


@dataclass(eq=False)
class RisingPrices:
    """Of one fitted family on one device; what the fit says of a canonical size is asked once.

    Attributes:
        price: The fit.
        physics: Seconds by physics alone, which rise with rows and bytes.
        _fitted, _physical: What they said, of cold kernels (``KernelTable.is_cold``) and of others apart.
    """

    price: Price
    physics: Price
    _fitted: dict[bool, dict[Cells, float]] = field(default_factory=dict)
    _physical: dict[bool, dict[Cells, float]] = field(default_factory=dict)

    def apply(self, kernels: KernelTable, estimates: KernelEstimates) -> KernelEstimates:
        """The fit's estimates of kernels with rising seconds; intervals keep their widths around them."""
        seconds = self.of(kernels)
        scale = seconds / estimates.seconds
        low, high = estimates.seconds_low * scale, estimates.seconds_high * scale
        return replace(estimates, seconds=seconds, seconds_low=low, seconds_high=high)

    def of(self, kernels: KernelTable) -> Floats:
        """Rising seconds of each kernel, shape [n]."""
        fitted, physical = (kept.setdefault(kernels.is_cold, {}) for kept in (self._fitted, self._physical))
        for kept in (fitted, physical):
            if len(kept) > _MOST_KEPT:
                kept.clear()
        names = (*SIZES[kernels.family], *WORDS[kernels.family])
        rows = zip(*(kernels.columns[name].tolist() for name in names), strict=True)
        ladders = [ladder_of(kernels.family, row) for row in rows]
        _ask(fitted, (c for ladder in ladders for c in ladder.cells), self.price, kernels)
        if kernels.family is KernelFamily.ROWS:
            _ask(physical, (c for ladder in ladders for c in ladder.cells), self.physics, kernels)
            own = self.physics(kernels).tolist()
            rows_seconds = zip(ladders, own, strict=True)
            return np.array([_by_physics(one, seconds, fitted, physical) for one, seconds in rows_seconds])
        return np.array([one.read([fitted[cells] for cells in one.cells]) for one in ladders])


def _by_physics(
    ladder: Ladder, seconds: float, fitted: Mapping[Cells, float], physical: Mapping[Cells, float]
) -> float:
    """Where physics gives a kernel the seconds that it gives the ladder's."""
    places = np.maximum.accumulate([physical[cells] for cells in ladder.cells])
    # Of canonical kernels of the same seconds the smallest counts.
    places = np.log(places) + 1e-12 * np.arange(len(places))
    most = np.maximum.accumulate([fitted[cells] for cells in ladder.cells])
    return float(np.exp(np.interp(np.log(seconds), places, np.log(most))))


def _ask(kept: dict[Cells, float], wanted: Iterable[Cells], price: Price, like: KernelTable) -> None:
    """Prices of what is not kept yet, all at once."""
    missing = [cells for cells in dict.fromkeys(wanted) if cells not in kept]
    if not missing:
        return
    columns: dict[str, Column] = {}
    for place, name in enumerate(SIZES[like.family]):
        columns[name] = np.array([cells[place] for cells in missing], dtype=np.float64)
    for place, name in enumerate(WORDS[like.family], len(columns)):
        columns[name] = np.array([cells[place] for cells in missing], dtype=object)
    seconds = price(KernelTable(like.family, columns, like.is_cold))
    kept.update(zip(missing, seconds.tolist(), strict=True))
