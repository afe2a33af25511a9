"""Plans that compute as few layers again as their memory asks for, tried where they can be among the fastest.

Of plans that differ only in how many layers of each part they compute again, a larger number takes less
memory and more time. So of each plan that fits with all layers and not with none, the smallest number that
fits stands for all between. It takes at least what the plan would without computing anything again, whatever
memory that took; and computing all again takes at most half as long once more, since a backward is no shorter
than its forward. By these two bounds plans are left out that cannot be as fast as asked for.

Where activations move to the host neither holds (copies may take longer than computing again): such plans
compute all layers again or none, unless ``Space.recompute_layers`` lists numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import OFFLOAD, RECOMPUTE
from perfcast.core.plans.table import COLUMNS, PlanTable
from perfcast.memory_use.footprint import FootprintColumns
from perfcast.searches.evaluation.evaluate import Evaluation, join_evaluations
from perfcast.searches.space.definition import MAPPING, Space
from perfcast.searches.space.listing import largest_parts

#: Such plans are looked for up to so much slower than the fastest of the others.
MARGIN = 0.05
#: Most seconds of a step in which every layer is computed again, of one in which none is.
_MOST_RATIO = 1.5
_FULL, _NONE = RECOMPUTE.index("full"), RECOMPUTE.index("none")
_ACTIVATIONS = OFFLOAD.index("activations")


@dataclass(frozen=True)
class Weigher:
    """How plans of a search are weighed.

    Attributes:
        num_layers: Of the model.
        most_bytes: That a device may hold.
        memory: Of plans.
        evaluate: Plans with their memory.
    """

    num_layers: int
    most_bytes: float
    memory: Callable[[PlanTable], FootprintColumns]
    evaluate: Callable[[PlanTable, FootprintColumns], Evaluation]

    def fits(self, plans: PlanTable) -> Flags:
        """Which plans a device can hold."""
        return np.asarray(self.memory(plans).device_bytes <= self.most_bytes)


def with_fewest_layers(weigher: Weigher, space: Space, found: Evaluation, margin: float) -> Evaluation:
    """The same plans, and behind them those that compute some layers again.

    Args:
        found: Plans that fit, with all layers computed again or none.
        margin: How much slower than the fastest of them a plan may be that is looked for.
    """
    if space.recompute_layers is not None or "recompute_layers" in space.fixed or not len(found):
        return found
    limit = (1 + margin) * float(found.step_seconds.min())
    rows = (found.plans.recompute == _FULL) & (found.plans.offload != _ACTIVATIONS)
    rows &= found.step_seconds <= _MOST_RATIO * limit
    plans = _may_keep_some(weigher, space, found.plans.take(rows))
    if not len(plans):
        return found
    without = replace(plans, recompute=np.full(len(plans), _NONE, dtype=np.int64))
    bound = weigher.evaluate(without, weigher.memory(without)).step_seconds
    partial = fewest_layers(weigher, plans.take(bound <= limit))
    if not len(partial):
        return found
    return join_evaluations(found, weigher.evaluate(partial, weigher.memory(partial)))


def _may_keep_some(weigher: Weigher, space: Space, plans: PlanTable) -> PlanTable:
    """Plans with more than one layer a part that do not fit (or may not be) without computing any again."""
    most = _largest_parts(weigher.num_layers, plans)
    several = plans.take(most > 1)
    if not len(several) or "none" not in [space.fixed.get("recompute"), *_tried(space)]:
        return several
    first, place = _cores(several)
    cores = several.take(first)
    fits = weigher.fits(replace(cores, recompute=np.full(len(cores), _NONE, dtype=np.int64)))
    return several.take(~fits[place])


def _tried(space: Space) -> list[str]:
    return [] if "recompute" in space.fixed else list(space.recomputes)


def fewest_layers(weigher: Weigher, plans: PlanTable) -> PlanTable:
    """Plans with the smallest number of layers from which on they fit; without those that need all.

    Args:
        plans: With all layers computed again they fit.
    """
    first, place = _cores(plans)
    cores = plans.take(first)
    most = _largest_parts(weigher.num_layers, cores)
    too_few, enough = np.zeros_like(most), most.copy()
    while len(rows := np.flatnonzero(enough - too_few > 1)):
        tried = (too_few[rows] + enough[rows]) // 2
        fits = weigher.fits(replace(cores.take(rows), recompute_layers=tried))
        enough[rows] = np.where(fits, tried, enough[rows])
        too_few[rows] = np.where(fits, too_few[rows], tried)
    some = (enough < most)[place]
    return replace(plans.take(some), recompute_layers=enough[place][some])


def _cores(plans: PlanTable) -> tuple[Integers, Integers]:
    """Different plans but for how they lie in the network, and which of them each one is."""
    return different_rows([getattr(plans, name) for name in COLUMNS if name not in MAPPING])


def _largest_parts(num_layers: int, plans: PlanTable) -> Integers:
    parts = (plans.pipeline_parallel, plans.virtual_stages_per_rank, plans.split)
    return largest_parts(num_layers, *parts, plans.splits)
