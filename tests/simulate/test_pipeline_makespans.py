"""Formulas of pipelines against the same schedules played by the engine."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_steps import Stages, forward_makespan, makespan, schedule_makespan

from perfcast.errors import PlanError
from perfcast.simulate.schedule import Pass, inference_actions, stage_actions

QUARTERS = st.integers(1, 12).map(lambda n: n / 4)


def played(schedule: str, num_stages: int, count: int, stages: Stages, virtual: int = 1) -> float:
    weight = list(stages.weight) or [0.0] * len(stages.forward)
    whole = [b + w for b, w in zip(stages.backward, weight, strict=True)]
    seconds = {
        Pass.FORWARD: list(stages.forward), Pass.BACKWARD: whole,
        Pass.INPUT_GRADIENT: list(stages.backward), Pass.WEIGHT_GRADIENT: weight,
    }  # fmt: skip
    actions = stage_actions(schedule, num_stages, count, virtual)
    return schedule_makespan(schedule, actions, seconds, virtual=virtual, message=stages.message)


@given(st.sampled_from(("gpipe", "1f1b")), st.integers(1, 8), st.integers(1, 24), QUARTERS, QUARTERS)
def test_equal_stages_take_micro_batches_plus_stages_less_one(schedule, num_stages, count, f, b):
    stages = Stages([f] * num_stages, [b] * num_stages)
    expected = (count + num_stages - 1) * (f + b)
    assert makespan(schedule, stages, count) == pytest.approx(expected, rel=1e-12)
    assert played(schedule, num_stages, count, stages) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 4), QUARTERS, QUARTERS)
def test_interleaving_divides_the_bubble_by_the_chunks(num_stages, groups, virtual, f, b):
    count, parts = groups * num_stages, num_stages * virtual
    stages = Stages([f] * parts, [b] * parts)
    expected = virtual * count * (f + b) + (num_stages - 1) * (f + b)
    assert makespan("interleaved", stages, count, virtual) == pytest.approx(expected, rel=1e-12)
    assert played("interleaved", num_stages, count, stages, virtual) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 24), QUARTERS, st.integers(0, 4))
def test_messages_of_equal_1f1b_stages_are_waited_for_as_the_formula_says(num_stages, count, f, quarters):
    message = quarters / 4 * f
    stages = Stages([f] * num_stages, [2 * f] * num_stages, message=message)
    expected = played("1f1b", num_stages, count, stages)
    assert makespan("1f1b", stages, count) == pytest.approx(expected, rel=1e-12)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 3), QUARTERS)
def test_messages_of_equal_interleaved_stages_are_waited_for_in_fill_and_drain(
    num_stages, groups, virtual, f
):
    parts = num_stages * virtual
    stages = Stages([f] * parts, [2 * f] * parts, message=f / 16)
    expected = played("interleaved", num_stages, groups * num_stages, stages, virtual)
    assert makespan("interleaved", stages, groups * num_stages, virtual) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 8), st.integers(0, 16), QUARTERS)
def test_zero_bubble_leaves_a_third_of_the_bubble_where_its_three_parts_are_equal(num_stages, more, f):
    count = num_stages + more
    stages = Stages([f] * num_stages, [f] * num_stages, [f] * num_stages)
    expected = 3 * f * count + (num_stages - 1) * f
    assert makespan("zero_bubble", stages, count) == pytest.approx(expected, rel=1e-12)
    assert played("zero_bubble", num_stages, count, stages) == pytest.approx(expected, rel=1e-12)


UNEVEN = st.integers(2, 6).flatmap(lambda p: st.lists(st.integers(8, 12), min_size=p, max_size=p))


@given(st.sampled_from(("gpipe", "1f1b", "zero_bubble")), UNEVEN, st.integers(0, 20))
@settings(max_examples=60)
def test_formulas_of_uneven_stages_are_close(schedule, eighths, more):
    count = len(eighths) + more
    forward = [n / 8 for n in eighths]
    weight = forward if schedule == "zero_bubble" else []
    stages = Stages(forward, forward, weight)
    expected = played(schedule, len(forward), count, stages)
    assert makespan(schedule, stages, count) == pytest.approx(expected, rel=0.01)


@given(UNEVEN, UNEVEN, st.integers(0, 5), st.integers(0, 4))
@settings(max_examples=60)
def test_1f1b_of_no_more_micro_batches_than_stages_is_exact(eighths, others, fewer, message):
    num_stages = min(len(eighths), len(others))
    stages = Stages(
        [n / 8 for n in eighths[:num_stages]], [n / 5 for n in others[:num_stages]], message=message / 8
    )
    count = max(num_stages - fewer, 1)
    expected = played("1f1b", num_stages, count, stages)
    assert makespan("1f1b", stages, count) == pytest.approx(expected, rel=1e-12)


@given(UNEVEN, st.integers(1, 20), QUARTERS)
def test_forwards_alone_are_a_flow_shop(eighths, count, message):
    stages = Stages([n / 8 for n in eighths], [0.0] * len(eighths), message=message)
    seconds = {Pass.FORWARD: list(stages.forward)}
    actions = inference_actions(len(eighths), count)
    expected = schedule_makespan("1f1b", actions, seconds, message=message)
    assert forward_makespan(stages, count) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 8), st.integers(1, 24), QUARTERS, QUARTERS, QUARTERS)
def test_zero_bubble_is_never_slower_than_1f1b(num_stages, count, f, b, w):
    whole = Stages([f] * num_stages, [b + w] * num_stages)
    split = Stages([f] * num_stages, [b] * num_stages, [w] * num_stages)
    assert played("zero_bubble", num_stages, count, split) <= played("1f1b", num_stages, count, whole) + 1e-9


@given(st.integers(1, 4), st.integers(0, 8), QUARTERS, QUARTERS, QUARTERS)
def test_dualpipe_has_a_smaller_bubble_than_1f1b(half, more, f, b, w):
    num_stages, count = 2 * half, 4 * half + 2 * more
    split = Stages([f] * num_stages, [b] * num_stages, [w] * num_stages)
    whole = Stages([f] * num_stages, [b + w] * num_stages)
    both = played("dualpipe", num_stages, count, split)
    assert both <= played("1f1b", num_stages, count, whole) + 1e-9
    assert both >= count * (f + b + w) - 1e-9


def test_the_bubble_of_dualpipe_is_the_published_one():
    f = b = w = 1.0
    for num_stages in (4, 8):
        count = 3 * num_stages
        stages = Stages(*([one] * num_stages for one in (f, b, w, f + b + w)))
        bubble = (num_stages / 2 - 1) * ((f + b + w) + (b + w) - 3 * w)
        assert makespan("dualpipe", stages, count) == pytest.approx(count * 3 + bubble)


def test_a_formula_refuses_what_its_schedule_refuses():
    stages = Stages([1.0] * 4, [1.0] * 4)
    with pytest.raises(PlanError, match="mod 2 = 1"):
        makespan("interleaved", stages, 3, 2)
    with pytest.raises(PlanError, match="at least 2"):
        makespan("dualpipe", stages, 6)
