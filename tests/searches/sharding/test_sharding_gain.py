import numpy as np
import pytest

from made_up_sharding import LinearCost, problem, random_tables, table
from perfcast.searches.sharding.baselines import place_baseline
from perfcast.searches.sharding.gain import draw_errors, drawn_steps, gain_interval, step_interval
from perfcast.searches.sharding.greedy import place_to_fit
from perfcast.searches.sharding.options import list_options


def parts(task):
    options = list_options(task)
    return options, place_to_fit(task, options), place_baseline("naive_chunk", task, options)


def test_a_placement_beside_itself_gains_exactly_nothing():
    task = problem(random_tables(10, 0), num_ranks=4)
    options, placed, _ = parts(task)
    assert gain_interval(task, options, placed, placed, draw_errors(task)) == (0.0, 0.0)


def test_the_interval_widens_with_the_spread_of_the_cost():
    widths = []
    for spread in (0.05, 0.4):
        task = problem(random_tables(10, 0), num_ranks=4, cost=LinearCost(relative_spread=spread))
        options, placed, chunk = parts(task)
        low, high = gain_interval(task, options, placed, chunk, draw_errors(task))
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]


def test_a_certain_cost_leaves_the_collective_uncertain_alone():
    task = problem((table("a"), table("b")), cost=LinearCost(relative_spread=0.0))
    options, placed, _ = parts(task)
    draws = draw_errors(task)
    steps = drawn_steps(task, options, placed, draws)
    lookups = steps - draws.communication * (steps[0] - steps[1]) / (
        draws.communication[0] - draws.communication[1]
    )
    assert np.ptp(lookups) == pytest.approx(0, abs=1e-12)


def test_the_median_draw_is_near_the_forecast():
    task = problem(random_tables(40, 3), num_ranks=2)
    options, placed, _ = parts(task)
    low, high = step_interval(task, options, placed, draw_errors(task))
    from perfcast.searches.sharding.placement import time_placements

    step = float(time_placements(task, options, [placed]).step[0])
    assert low < step < high
    assert high / low < 1.6


def test_draws_are_the_same_for_one_seed():
    task = problem((table("a"),))
    assert np.array_equal(draw_errors(task, seed=1).tables, draw_errors(task, seed=1).tables)
    assert not np.array_equal(draw_errors(task, seed=1).tables, draw_errors(task, seed=2).tables)
