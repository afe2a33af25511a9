"""Plans that none beats in everything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from perfcast.searches.ranking.pareto import pareto_front

COSTS = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.integers(0, 6).map(float)
)


def dominates(one, other):
    return bool((one <= other).all() and (one < other).any())


def test_a_front_of_two_costs_by_hand():
    costs = np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0], [2.0, 3.0], [2.0, 2.0]])
    assert pareto_front(costs).tolist() == [1, 2, 0]


@given(COSTS)
def test_no_member_is_dominated_and_everything_else_is(costs):
    front = pareto_front(costs).tolist()
    rows = [costs[at] for at in front]
    assert rows == sorted(rows, key=tuple)
    for at, row in enumerate(costs):
        beaten = any(dominates(other, row) or (other == row).all() for other in rows)
        assert beaten
        assert (at in front) <= (not any(dominates(other, row) for other in costs))
