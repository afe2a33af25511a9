"""Plans whose steps are known, and few others: what a job takes where one quantity of it is another.

With another memory of a device a plan's step takes as long as before; only which plans fit changes. With
links between servers that are x times as fast nothing is shorter by more than x, and the ranks' own work not
at all; with slower ones nothing is shorter:

    step ≥ max(own work, step as it was / x)        step ≥ step as it was, for x < 1

Own work is what ranks compute, in the mean over them. (What hides behind it is not known, so that waiting
may shrink by more than x where less of a collective is left over.) Plans whose bound is above the fastest
step found cannot win and are not timed. Those that compute all layers again stay, since others are derived
from them (``fewest_layers``), and so do the fastest as it was, which are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import RECOMPUTE
from perfcast.core.plans.table import COLUMNS, PlanTable, join
from perfcast.memory_use.footprint import FootprintColumns
from perfcast.searches.evaluation.evaluate import Evaluation, join_evaluations, take_memory

#: Plans that are timed first, by their bounds; the fastest of them is what the other bounds are held against.
_NUM_FIRST = 128
#: Over the fastest step: up to where a plan is timed, so that plans which cost the same are all there.
_NEAR = 0.005
#: The same of plans that compute all layers again.
_NEAR_FULL = 0.6
#: Causes of a step's time that faster links cannot shorten.
_OWN = ("compute", "recompute", "optimizer")

Evaluate = Callable[[PlanTable, FootprintColumns], Evaluation]


@dataclass(frozen=True, eq=False)
class Known:
    """Steps of plans, of the same job on the same devices.

    Attributes:
        faster: Factor on the network's bandwidth, over that of these steps.
    """

    evaluation: Evaluation
    faster: float = 1.0

    def evaluate(
        self, plans: PlanTable, memory: FootprintColumns, most_bytes: float, evaluate: Evaluate
    ) -> Evaluation:
        """All plans on the same network; on another those that may win.

        Args:
            memory: Of the plans.
            most_bytes: That a device may hold.
            evaluate: Plans that are not known.
        """
        at = self._places(plans)
        if self.faster != 1.0:
            return self._fastest(at, plans, memory, evaluate)
        missing = np.flatnonzero(at < 0)
        found = self.evaluation
        if len(missing):
            found = join_evaluations(found, evaluate(plans.take(missing), take_memory(memory, missing)))
            at[missing] = len(self.evaluation) + np.arange(len(missing))
        return replace(
            found.take(at),
            plans=plans,
            peak_bytes=memory.peak_bytes,
            device_bytes=memory.device_bytes,
            fits=memory.device_bytes <= most_bytes,
        )

    def _places(self, plans: PlanTable) -> Integers:
        """Of each plan among the known ones; -1: it is not known."""
        known = self.evaluation.plans
        both = join([known, plans])
        first, place = different_rows([getattr(both, name) for name in COLUMNS])
        at = first[place[len(known) :]]
        return np.where(at < len(known), at, -1)

    def _fastest(
        self, at: Integers, plans: PlanTable, memory: FootprintColumns, evaluate: Evaluate
    ) -> Evaluation:
        before, bounds = self.evaluation.step_seconds, least_seconds(self.evaluation, self.faster)
        least = np.where(at < 0, 0.0, bounds[np.maximum(at, 0)])
        was = np.where(at < 0, np.inf, before[np.maximum(at, 0)])
        chosen = was <= (1 + _NEAR) * was.min()
        chosen[np.argsort(least, kind="stable")[:_NUM_FIRST]] = True
        first = evaluate(plans.take(chosen), take_memory(memory, chosen))
        limits = np.where(plans.recompute == RECOMPUTE.index("full"), 1 + _NEAR_FULL, 1 + _NEAR)
        rest = np.flatnonzero(~chosen & (least <= limits * first.step_seconds.min()))
        if not len(rest):
            return first
        order = np.argsort(np.concatenate([np.flatnonzero(chosen), rest]), kind="stable")
        second = evaluate(plans.take(rest), take_memory(memory, rest))
        return join_evaluations(first, second).take(order)


def least_seconds(known: Evaluation, faster: float) -> Floats:
    """What the steps of plans take at least where the network is so many times as fast, shape [n]."""
    if faster <= 1:
        return known.step_seconds
    own = np.sum([known.seconds_by_cause[cause] for cause in _OWN], axis=0)
    return np.asarray(np.maximum(own, known.step_seconds / faster), dtype=np.float64)
