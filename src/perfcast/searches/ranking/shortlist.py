"""Which plans are simulated: those whose step may turn out best when it is played event by event.

By how much events are faster than the formula at most depends on the schedule and on what the host does
meanwhile. A plan's bound is its formula less that shortfall, a measured figure and no proof. The best by
formula of each of the best kinds are played first, since they are shown (``kinds``), then plans by their
bounds, until the next bound is above the best step played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.plan import SCHEDULES
from perfcast.searches.ranking.kinds import best_of_kinds
from perfcast.searches.ranking.simulator import Simulated

#: Of the formula that a simulated step was faster at most, rounded up. Of 2,945 plans of small spaces, which
#: ``benchmarks/search_exhaustive.py`` prints and checks: 1F1B 9.6 % (nanotron's host-bound pipelines), GPipe
#: 3.2, zero bubble 4.3 %; of 496 plans drawn from three large spaces: interleaved 8.5, DualPipe 6.7 %. One
#: kind is known to go further: 1F1B under ZeRO 2 whose collectives are not overlapped, by up to 17.5 %.
SHORTFALL: Mapping[str, float] = MappingProxyType(
    {"1f1b": 0.10, "gpipe": 0.04, "interleaved": 0.09, "zero_bubble": 0.05, "dualpipe": 0.07}
)


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Plans in the order in which they are simulated.

    Attributes:
        places: Of the plans; the first ``least`` are simulated in any case.
        bounds: What each may cost at least, of all plans, [n].
        cost_of: Of a simulated plan.
    """

    places: Sequence[int]
    least: int
    bounds: Floats
    cost_of: Callable[[Simulated], float]

    def stops(self, place: int, before: Sequence[Simulated]) -> bool:
        """Whether this plan and all behind it are out of reach."""
        if len(before) < self.least:
            return False
        return bool(self.bounds[place] > min(map(self.cost_of, before)))


def make_shortlist(
    costs: Floats,
    schedules: Integers,
    kinds: Integers,
    *,
    least: int,
    most: int,
    cost_of: Callable[[Simulated], float],
) -> Shortlist:
    """The best plans of kinds by formula, then all by bound.

    Args:
        costs: By formula, less is better, [n].
        schedules: Of each plan, as indices into ``SCHEDULES``, [n].
        kinds: Of each plan (``kinds_of``), [n].
        least: Kinds whose best is simulated in any case.
        most: Plans that are simulated at most.
        cost_of: A simulated plan's cost, in the unit of ``costs``.
    """
    shortfalls = np.array([SHORTFALL[name] for name in SCHEDULES])
    bounds = (1 - shortfalls[schedules]) * costs
    first = best_of_kinds(np.argsort(costs, kind="stable"), kinds)[: min(least, most)]
    others = np.argsort(bounds, kind="stable")
    rest = others[~np.isin(others, first)][: most - len(first)]
    return Shortlist([*first.tolist(), *rest.tolist()], len(first), bounds, cost_of)
