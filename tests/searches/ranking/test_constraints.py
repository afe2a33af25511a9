"""Demands on plans, and which of them leaves nothing."""

import math

import numpy as np
import pytest

from perfcast.errors import InputError, PlanError
from perfcast.searches.ranking.constraints import Constraint, apply_constraints, check_limits, refuse

FEW = Constraint("at most 10", np.array([True, True, True, False]))
ODD = Constraint("odd", np.array([True, False, True, True]))
NONE = Constraint("above 100", np.zeros(4, dtype=np.bool_), "the largest is 9")


def test_a_plan_counts_for_the_first_demand_that_it_misses():
    kept, excluded = apply_constraints([FEW, ODD], 4)
    assert kept.tolist() == [True, False, True, False]
    assert excluded == {"at most 10": 1, "odd": 1}


def test_the_demand_that_leaves_nothing_is_named_with_what_comes_nearest_and_those_before_it():
    with pytest.raises(PlanError) as caught:
        apply_constraints([FEW, NONE], 4)
    assert str(caught.value) == (
        "no plan is left: 'above 100' excludes the last 3 of 4 plans: the largest is 9; "
        "before it: at most 10 (1)"
    )


def test_the_first_demand_may_exclude_all():
    with pytest.raises(PlanError, match=r"^no plan is left: 'x' excludes all 1,200 plans$"):
        refuse("x", "", 1200)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((0.0, None, None), "memory fraction of 0"), ((1.5, None, None), "memory fraction of 1.5"),
        ((math.nan, None, None), "memory fraction of nan"), ((1.0, 1.0, None), "MFU of at least 1"),
        ((1.0, math.nan, None), "MFU of at least nan"), ((1.0, None, math.nan), "price of nan"),
        ((1.0, None, -1.0), "price of -1"), ((1.0, None, math.inf), "price of inf"),
    ],
)  # fmt: skip
def test_limits_that_mean_nothing_are_refused(limits, message):
    with pytest.raises(InputError, match=message):
        check_limits(*limits)
    check_limits(1.0, 0.4, 2.5)
