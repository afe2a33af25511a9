"""Plans whose steps are known, and few others: what a job takes where one quantity of it is another.

With another memory of a device a plan's step takes as long as before; only which plans fit changes. With
another network or another batch it takes at least what its bound says (``least_seconds``), by what it took
as it was. Plans whose bound is above the fastest step found cannot win and are not timed. Those that compute
all layers again and do not fit otherwise stay, since others are derived from them (``fewest_layers``), and
so do the fastest as it was, which are looked up.

Where a plan that is timed turns out faster than its bound, bounds prove nothing, and every plan is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import OFFLOAD, RECOMPUTE
from perfcast.core.plans.table import COLUMNS, PlanTable, join
from perfcast.memory_use.footprint import FootprintColumns
from perfcast.searches.evaluation.evaluate import Evaluation, join_evaluations, take_memory

#: Plans that are timed first, by their bounds; the fastest of them is what the other bounds are held against.
_NUM_FIRST = 128
#: Over the fastest step: up to where a plan is timed, so that plans which cost the same are all there.
_NEAR = 0.005
#: The same of plans that compute all layers again, of which others are derived.
_NEAR_FULL = 0.6
#: Causes of a step's time that faster links cannot shorten.
_OWN = ("compute", "recompute", "optimizer")
#: Those that every micro-batch has alike.
_OF_MICRO_BATCHES = ("compute", "recompute")
#: By how much a step of another batch was shorter than its formula says at most, rounded up: 3.8 % over the
#: plans of six searches (zero bubble with as few micro-batches as stages; gradients reduced once a
#: micro-batch, 3.0 %). A plan that is timed and lies below its bound has every plan timed.
_SHORTFALL = 0.05

Evaluate = Callable[[PlanTable, FootprintColumns], Evaluation]


@dataclass(frozen=True, eq=False)
class KnownSteps:
    """Steps of plans under one condition.

    Attributes:
        network: Factor on the network's bandwidth, over that of the job.
        batch: Factor on the global batch, over that of the job.
    """

    evaluation: Evaluation
    network: float = 1.0
    batch: float = 1.0


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a job where it is asked for under a condition.

    Attributes:
        steps: Of the same job on the same devices; the first as it is.
        network, batch: Of the condition, as of ``KnownSteps``.
    """

    steps: tuple[KnownSteps, ...]
    network: float = 1.0
    batch: float = 1.0

    @property
    def is_whole(self) -> bool:
        """Whether all plans are given back, not only those that may win."""
        return (self.network, self.batch) == (self.steps[0].network, self.steps[0].batch)

    def evaluate(
        self, plans: PlanTable, memory: FootprintColumns, most_bytes: float, evaluate: Evaluate
    ) -> Evaluation:
        """All plans on the same network with the same batch; otherwise those that may win.

        Args:
            memory: Of the plans.
            most_bytes: That a device may hold.
            evaluate: Plans that are not known.
        """
        if not self.is_whole:
            return self._fastest(plans, memory, evaluate)
        found = self._looked_up(plans, memory, evaluate)
        return replace(
            found,
            plans=plans,
            peak_bytes=memory.peak_bytes,
            device_bytes=memory.device_bytes,
            fits=memory.device_bytes <= most_bytes,
        )

    def _looked_up(self, plans: PlanTable, memory: FootprintColumns, evaluate: Evaluate) -> Evaluation:
        """Steps of all plans, timed where they are not known."""
        parts, places, left = [], [], np.arange(len(plans))
        for known in self.steps:
            if not len(left) or (known.network, known.batch) != (self.network, self.batch):
                continue
            at = _places(known.evaluation.plans, plans.take(left), COLUMNS)
            parts.append(known.evaluation.take(at[at >= 0]))
            places.append(left[at >= 0])
            left = left[at < 0]
        if len(left):
            parts.append(evaluate(plans.take(left), take_memory(memory, left)))
            places.append(left)
        return _in_order(parts, places)

    def _fastest(self, plans: PlanTable, memory: FootprintColumns, evaluate: Evaluate) -> Evaluation:
        least, was = self._bounds(plans)
        order = np.argsort(np.where(least > 0, least, np.inf), kind="stable")
        chosen = was <= (1 + _NEAR) * was.min()
        chosen[order[:_NUM_FIRST]] = True
        places = [np.flatnonzero(chosen)]
        parts = [evaluate(plans.take(chosen), take_memory(memory, chosen))]
        limits = np.where(_are_derived_from(plans), 1 + _NEAR_FULL, 1 + _NEAR)
        for _ in range(2):
            near = least <= limits * min(part.step_seconds.min() for part in parts)
            holds = all(
                (part.step_seconds >= least[at]).all() for part, at in zip(parts, places, strict=True)
            )
            rest = np.flatnonzero(~chosen & (near | (not holds)))
            if not len(rest):
                break
            places.append(rest)
            parts.append(evaluate(plans.take(rest), take_memory(memory, rest)))
            chosen[rest] = True
        return _in_order(parts, places)

    def _bounds(self, plans: PlanTable) -> tuple[Floats, Floats]:
        """What every plan takes at least, 0 where nothing is known of it, and what it took as it was; [n]."""
        least, was = np.zeros(len(plans)), np.full(len(plans), np.inf)
        names = [name for name in COLUMNS if name != "num_micro_batches"]
        for number, known in enumerate(self.steps):
            faster, larger = self.network / known.network, self.batch / known.batch
            if faster != 1 and larger != 1:
                continue
            at = _places(known.evaluation.plans, plans, names)
            there = np.flatnonzero(at >= 0)
            bounds = least_seconds(known.evaluation, faster, larger)[at[there]]
            least[there] = np.maximum(least[there], bounds)
            if number == 0:
                was[there] = known.evaluation.step_seconds[at[there]]
        return least, was


def least_seconds(known: Evaluation, faster: float = 1.0, larger: float = 1.0) -> Floats:
    """What the steps of plans take at least where either quantity is so many times what it was, shape [n].

    With links between servers that are x times as fast nothing is shorter by more than x, and the ranks' own
    work not at all; with slower ones nothing is shorter:

        step ≥ max(own work, step as it was / x)        step ≥ step as it was, for x < 1

    Own work is what ranks compute, in the mean over them. (What hides behind it is not known, so that waiting
    may shrink by more than x where less of a collective is left over.) With x times as many micro-batches
    each further one takes at least what ranks compute for it; a step of fewer is no smaller a share than they
    are. Both hold but for ``_SHORTFALL``, a measured figure:

        step ≥ step as it was + (x - 1) · work of micro-batches        step ≥ x · step as it was, for x < 1

    Args:
        faster: Factor on the network's bandwidth.
        larger: Factor on the micro-batches; of both one is 1.
    """
    step = known.step_seconds
    if larger != 1:
        more = (larger - 1) * _sum(known, _OF_MICRO_BATCHES if larger > 1 else tuple(known.seconds_by_cause))
        return np.asarray((step + more) / (1 + _SHORTFALL), dtype=np.float64)
    if faster <= 1:
        return step
    return np.asarray(np.maximum(_sum(known, _OWN), step / faster), dtype=np.float64)


def _sum(known: Evaluation, causes: Sequence[str]) -> Floats:
    return np.asarray(np.sum([known.seconds_by_cause[cause] for cause in causes], axis=0), dtype=np.float64)


def _places(known: PlanTable, plans: PlanTable, names: Sequence[str]) -> Integers:
    """Of each plan among the known ones that are equal in these columns; -1: there is none."""
    both = join([known, plans])
    first, place = different_rows([getattr(both, name) for name in names])
    at = first[place[len(known) :]]
    return np.where(at < len(known), at, -1)


def _are_derived_from(plans: PlanTable) -> Flags:
    """Plans with all layers computed again of which none is left that computes none: it may not fit."""
    names = [name for name in COLUMNS if name not in ("recompute", "recompute_layers")]
    first, place = different_rows([getattr(plans, name) for name in names])
    fits = np.zeros(len(first), dtype=np.bool_)
    fits[place[plans.recompute == RECOMPUTE.index("none")]] = True
    may_keep = (plans.recompute == RECOMPUTE.index("full")) & (plans.offload != OFFLOAD.index("activations"))
    return np.asarray(may_keep & ~fits[place], dtype=np.bool_)


def _in_order(parts: Sequence[Evaluation], places: Sequence[Integers]) -> Evaluation:
    """Plans of all parts, by their places."""
    found = parts[0]
    for part in parts[1:]:
        found = join_evaluations(found, part)
    return found.take(np.argsort(np.concatenate(places), kind="stable"))
