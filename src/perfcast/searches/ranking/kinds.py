"""Plans of one kind are folded: a reader is shown the best of each kind, and what else there is of it.

A kind is what decides how a model is cut, scheduled, sharded and recomputed (``KIND``). Its plans differ in
settings beside that: micro-batch, chunks, layers of stages, order of the axes, offload, overlaps, sequence
parallelism. Of plans of a kind that cannot be told apart, and cost the same within ``TIE``, the simplest
stands for all: a winner carries no key that gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import Plan
from perfcast.core.plans.table import PlanTable
from perfcast.core.plans.text import format_plan

#: Columns in which kinds differ.
KIND = (
    "data_parallel",
    "tensor_parallel",
    "pipeline_parallel",
    "context_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "schedule",
    "zero_stage",
    "recompute",
)
#: Of a cost: plans of a kind that lie closer cost the same.
TIE = 1e-3
#: Plans of a kind that cost the same by formula, of which the simplest is looked for.
_MOST_TIED = 64


@dataclass(frozen=True, slots=True)
class Group:
    """Plans of a kind, by their places.

    Attributes:
        first: That stands for all.
        alike: That cannot be told from it, best first.
        others: That can.
    """

    first: int
    alike: tuple[int, ...] = ()
    others: tuple[int, ...] = ()


def kinds_of(plans: PlanTable) -> Integers:
    """The number of every plan's kind, shape [n]."""
    return different_rows([getattr(plans, name) for name in KIND])[1]


def best_of_kinds(order: Integers, kinds: Integers) -> Integers:
    """The best plan of each kind, best first.

    Args:
        order: Places of plans, best first.
        kinds: Of every plan, [n].

    >>> best_of_kinds(np.array([2, 0, 1]), np.array([5, 6, 5])).tolist()
    [2, 1]
    """
    first = np.unique(kinds[order], return_index=True)[1]
    found: Integers = order[np.sort(first)]
    return found


def simplicity(plan: Plan) -> int:
    """Keys that a text must say of a plan."""
    return len(format_plan(plan, " ").split())


def group_simulated(
    places: Sequence[int],
    kinds: Sequence[int],
    costs: Sequence[float],
    plan_of: Callable[[int], Plan],
    tell_apart: Callable[[int, Sequence[int]], Sequence[bool]],
    most: int,
) -> list[Group]:
    """The best kinds among simulated plans, each with all of its plans.

    Args:
        places: Of simulated plans, best first; ``kinds`` and ``costs`` are theirs.
        tell_apart: Which of some plans can be told from one.
        most: Kinds that are asked for.
    """
    members: dict[int, list[int]] = {}
    for place, kind in zip(places, kinds, strict=True):
        members.setdefault(kind, []).append(place)
    cost_of = dict(zip(places, costs, strict=True))
    found = [_group(each, cost_of, plan_of, tell_apart) for each in list(members.values())[:most]]
    rank = {place: at for at, place in enumerate(places)}
    return sorted(found, key=lambda group: rank[group.first])


def _group(
    members: Sequence[int],
    cost_of: Mapping[int, float],
    plan_of: Callable[[int], Plan],
    tell_apart: Callable[[int, Sequence[int]], Sequence[bool]],
) -> Group:
    best, *rest = members
    apart = dict(zip(rest, tell_apart(best, rest), strict=True))
    tied = [best, *(p for p in rest if not apart[p] and _is_tie(cost_of[p], cost_of[best]))]
    first = min(tied, key=lambda place: simplicity(plan_of(place)))  # of equals the best
    return Group(
        first,
        tuple(place for place in members if place != first and not apart.get(place)),
        tuple(place for place in members if apart.get(place)),
    )


def group_by_formula(
    order: Integers, costs: Floats, kinds: Integers, plan_of: Callable[[int], Plan], most: int
) -> list[Group]:
    """The best kinds of plans by formula; of each only plans that cost the same, which formulas do not tell.

    Args:
        order: Places of plans, best first.
        costs: Of every plan, [n].
        kinds: Of every plan, [n].
        most: Kinds that are asked for.
    """
    found = []
    for best in best_of_kinds(order, kinds)[:most].tolist():
        near = order[(kinds[order] == kinds[best]) & (np.abs(costs[order] / costs[best] - 1) <= TIE)]
        places = near[:_MOST_TIED].tolist()
        first = min(places, key=lambda place: simplicity(plan_of(place)))
        found.append(Group(first, tuple(place for place in places if place != first)))
    rank = {place: at for at, place in enumerate(order.tolist())}
    return sorted(found, key=lambda group: rank[group.first])


def _is_tie(cost: float, best: float) -> bool:
    return abs(cost - best) <= TIE * abs(best)
