"""Makespans of many plans at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from perfcast.simulate.closed_form.makespan import (
    StageSeconds,
    forward_makespans,
    makespans,
    sums_before,
    sums_behind,
)

SECONDS = st.floats(1e-3, 2.0)


@st.composite
def pipelines(draw, schedule):
    """Some plans of one number of stages: (forward, backward, weight, joined, message, micro-batches)."""
    even = schedule == "dualpipe"
    num_stages = draw(st.sampled_from([2, 4, 6] if even else [1, 2, 3, 4, 7]))
    virtual = draw(st.integers(2, 3)) if schedule == "interleaved" else 1
    num_plans = draw(st.integers(1, 3))

    def columns(rows):
        return draw(arrays.arrays(np.float64, (rows, num_plans), elements=SECONDS))

    counts = st.integers(num_stages, 3 * num_stages).map(lambda n: 2 * n) if even else st.integers(1, 20)
    if schedule == "interleaved":
        counts = st.integers(1, 4).map(lambda n: n * num_stages)
    return {
        "virtual": virtual,
        "forward": columns(num_stages * virtual), "backward": columns(num_stages * virtual),
        "weight": columns(num_stages), "joined": columns(num_stages),
        "message": columns(1)[0] * draw(st.sampled_from([0.0, 0.1, 1.0])),
        "counts": np.array(draw(st.lists(counts, min_size=num_plans, max_size=num_plans))),
    }  # fmt: skip


def stage_seconds(one, schedule, plans):
    return StageSeconds(
        one["forward"][:, plans],
        one["backward"][:, plans],
        one["weight"][:, plans] if schedule in ("zero_bubble", "dualpipe") else None,
        one["joined"][:, plans] if schedule == "dualpipe" else None,
    )


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble", "interleaved", "dualpipe"])
@settings(max_examples=40)
@given(data=st.data())
def test_columns_do_not_know_each_other(schedule, data):
    one = data.draw(pipelines(schedule))
    every = slice(None)
    found = makespans(
        schedule, stage_seconds(one, schedule, every), one["counts"], one["message"], one["virtual"]
    )
    for plan in range(len(found)):
        alone = slice(plan, plan + 1)
        stages = stage_seconds(one, schedule, alone)
        [seconds] = makespans(schedule, stages, one["counts"][alone], one["message"][alone], one["virtual"])
        assert found[plan] == pytest.approx(seconds, rel=1e-12)


@settings(max_examples=40)
@given(data=st.data())
def test_forwards_alone_of_many_plans_are_those_of_each(data):
    one = data.draw(pipelines("interleaved"))
    found = forward_makespans(one["forward"], one["counts"], one["message"], one["virtual"])
    for plan, seconds in enumerate(found):
        alone = slice(plan, plan + 1)
        columns = (one["forward"][:, alone], one["counts"][alone], one["message"][alone])
        assert seconds == pytest.approx(forward_makespans(*columns, one["virtual"])[0])


def test_equal_stages_by_hand():
    """p = 4, m = 8, f = 1, b = 2: (m + p - 1)(f + b) = 33; in two chunks 8 · 3 + 3 · 3 / 2 = 28.5."""
    one, two = np.ones((4, 1)), np.full((4, 1), 2.0)
    counts, silent = np.array([8]), np.zeros(1)
    for schedule in ("gpipe", "1f1b"):
        assert makespans(schedule, StageSeconds(one, two), counts, silent).tolist() == [33.0]
    halves = StageSeconds(np.full((8, 1), 0.5), np.ones((8, 1)))
    assert makespans("interleaved", halves, counts, silent, 2).tolist() == [28.5]


def test_sums_above_and_below_each_row():
    rows = np.array([[1.0], [2.0], [4.0]])
    assert sums_before(rows).ravel().tolist() == [0, 1, 3]
    assert sums_behind(rows).ravel().tolist() == [6, 4, 0]
