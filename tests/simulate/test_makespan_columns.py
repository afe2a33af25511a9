"""Makespans of many plans at once are those of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from perfcast.simulate.closed_form.makespan import StageSeconds, makespan
from perfcast.simulate.closed_form.makespans import StageColumns, before, behind, makespans

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


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble", "interleaved", "dualpipe"])
@settings(max_examples=40)
@given(data=st.data())
def test_columns_are_the_formula_of_each_plan(schedule, data):
    one = data.draw(pipelines(schedule))
    has_weight = schedule in ("zero_bubble", "dualpipe")
    found = makespans(
        schedule,
        StageColumns(
            one["forward"], one["backward"], one["weight"] if has_weight else None,
            one["joined"] if schedule == "dualpipe" else None,
        ),
        one["counts"], one["message"], one["virtual"],
    )  # fmt: skip
    for plan, seconds in enumerate(found):
        stages = StageSeconds(
            one["forward"][:, plan].tolist(), one["backward"][:, plan].tolist(),
            one["weight"][:, plan].tolist() if has_weight else (),
            one["joined"][:, plan].tolist() if schedule == "dualpipe" else (),
            float(one["message"][plan]),
        )  # fmt: skip
        expected = makespan(schedule, stages, int(one["counts"][plan]), one["virtual"])
        assert seconds == pytest.approx(expected, rel=1e-12)


def test_equal_stages_by_hand():
    """p = 4, m = 8, f = 1, b = 2: (m + p - 1)(f + b) = 33; in two chunks 8 · 3 + 3 · 3 / 2 = 28.5."""
    one, two = np.ones((4, 1)), np.full((4, 1), 2.0)
    counts, silent = np.array([8]), np.zeros(1)
    for schedule in ("gpipe", "1f1b"):
        assert makespans(schedule, StageColumns(one, two), counts, silent).tolist() == [33.0]
    halves = StageColumns(np.full((8, 1), 0.5), np.ones((8, 1)))
    assert makespans("interleaved", halves, counts, silent, 2).tolist() == [28.5]


def test_sums_above_and_below_each_row():
    rows = np.array([[1.0], [2.0], [4.0]])
    assert before(rows).ravel().tolist() == [0, 1, 3]
    assert behind(rows).ravel().tolist() == [6, 4, 0]
