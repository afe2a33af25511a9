"""Plans of one kind are folded behind the simplest of those that cost the same."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.searches.ranking.kinds import (
    Group,
    best_of_kinds,
    group_by_formula,
    group_simulated,
    kinds_of,
    simplicity,
)

PLAIN, MOVED = Plan(data_parallel=8), Plan(data_parallel=8, offload="optimizer")
ORDERED = Plan(data_parallel=4, tensor_parallel=2, sequence_parallel=True, order="tp-cp-pp-dp")
CUT = Plan(data_parallel=4, tensor_parallel=2, sequence_parallel=True)
PLANS = (MOVED, PLAIN, ORDERED, CUT)


def grouped(costs, apart=(), most=9):
    """Of ``PLANS``, of which some can be told from the first of their kind."""
    order = np.argsort(costs, kind="stable").tolist()
    kinds = kinds_of(to_table(list(PLANS)))
    return group_simulated(
        order, kinds[order].tolist(), [costs[at] for at in order], PLANS.__getitem__,
        lambda first, others: [place in apart for place in others], most,
    )  # fmt: skip


def test_degrees_and_states_make_a_kind_and_settings_do_not():
    kinds = kinds_of(to_table([*PLANS, Plan(data_parallel=8, zero_stage=1)])).tolist()
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]
    assert kinds[4] not in kinds[:4]


def test_the_best_of_each_kind_comes_in_the_order_of_the_best():
    assert best_of_kinds(np.array([3, 1, 0, 2]), np.array([7, 7, 8, 8])).tolist() == [3, 1]


def test_of_plans_that_cost_the_same_the_simplest_stands_for_all():
    # Moving the optimizer's state saves 0.05 % and is one key more: not worth it.
    assert grouped([1.0, 1.0005, 1.2, 1.2]) == [Group(1, (0,)), Group(3, (2,))]


def test_a_gain_is_worth_its_keys():
    assert grouped([1.0, 1.01, 1.2, 1.2])[0] == Group(0, (1,))


def test_what_can_be_told_apart_is_of_the_kind_but_not_alike():
    assert grouped([1.0, 1.0005, 1.2, 1.2], apart={1})[0] == Group(0, (), (1,))


def test_no_more_kinds_than_asked_for():
    assert [group.first for group in grouped([1.2, 1.2, 1.0, 1.0], most=1)] == [3]


def test_by_formula_only_plans_that_cost_the_same_are_alike():
    costs = np.array([1.0, 1.0, 1.3, 1.2])
    found = group_by_formula(
        np.argsort(costs, kind="stable"), costs, kinds_of(to_table(list(PLANS))), PLANS.__getitem__, 2
    )
    assert found == [Group(1, (0,)), Group(3)]


@pytest.mark.parametrize(("plan", "keys"), [(Plan(), 1), (PLAIN, 2), (MOVED, 3), (ORDERED, 4)])
def test_a_plan_is_as_simple_as_what_a_text_must_say_of_it(plan, keys):
    assert simplicity(plan) == keys
