"""Which plans are simulated, and when to stop."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import SCHEDULES
from perfcast.searches.ranking.shortlist import SHORTFALL, make_shortlist

PLAIN, SPLIT = SCHEDULES.index("1f1b"), SCHEDULES.index("zero_bubble")


def play(costs, schedules, events, least=1, most=100, kinds=None):
    """Places that are simulated, in their order."""
    listed = make_shortlist(
        np.array(costs),
        np.array(schedules),
        np.arange(len(costs)) if kinds is None else np.array(kinds),
        least=least,
        most=most,
        cost_of=lambda one: events[one.place],
    )
    before = []
    for place in listed.places:
        if listed.stops(place, before):
            break
        before.append(SimpleNamespace(place=place))
    return [one.place for one in before]


def test_every_schedule_has_a_shortfall():
    assert set(SHORTFALL) == set(SCHEDULES)


def test_plans_whose_bound_is_above_the_best_are_not_simulated():
    # 1F1B is at most 10 % faster than its formula: 0.9 · 11.05 < 10 < 0.9 · 11.2.
    assert play([10.0, 11.05, 11.2], [PLAIN] * 3, [10.0, 11.05, 11.2]) == [0, 1]


def test_a_schedule_with_rougher_formulas_is_simulated_first():
    # 1F1B may be 10 % faster than its formula: 0.9 · 10.5 = 9.45 comes before zero bubble's 0.95 · 10.05.
    order = play([10.0, 10.05, 10.5], [SPLIT, SPLIT, PLAIN], [10.0, 10.05, 9.5])
    assert order == [0, 2]


def test_no_more_are_simulated_than_asked_for_and_the_first_in_any_case():
    assert play([1.0, 1.0, 1.0], [PLAIN] * 3, [1.0] * 3, most=2) == [0, 1]
    assert play([1.0, 2.0, 3.0], [PLAIN] * 3, [1.0, 2.0, 3.0], least=3) == [0, 1, 2]


def test_the_best_of_each_kind_comes_before_a_second_of_one():
    # Places 0 and 1 are of one kind; 2 is far behind and shown all the same.
    assert play([1.0, 1.01, 3.0], [PLAIN] * 3, [1.0, 1.01, 3.0], least=2, kinds=[0, 0, 1]) == [0, 2, 1]


@given(
    st.lists(st.tuples(st.floats(1, 2), st.sampled_from(range(len(SCHEDULES))), st.floats(0, 1)), min_size=1)
)
def test_the_best_plan_is_always_simulated_while_events_keep_to_the_bounds(rows):
    costs = [cost for cost, _, _ in rows]
    kinds = [kind for _, kind, _ in rows]
    # Each is faster than its formula by a part of its schedule's shortfall.
    events = [cost * (1 - part * SHORTFALL[SCHEDULES[kind]]) for cost, kind, part in rows]
    played = play(costs, kinds, events)
    assert min(events[at] for at in played) == min(events)
