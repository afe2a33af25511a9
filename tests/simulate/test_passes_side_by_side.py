"""A forward and another micro-batch's backward that hide each other's dispatches of tokens."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import Plan
from perfcast.simulate.combine import beside_each_other, joined
from perfcast.simulate.layer import CallsTime

amounts = st.floats(0, 10, allow_subnormal=False)


def part(compute: float, expert: float, tensor: float = 0.0) -> CallsTime:
    return CallsTime(
        compute + expert + tensor, {"compute": compute, "expert": expert, "tensor": tensor}, host_seconds=1.0
    )


def test_dispatches_as_long_as_the_compute_disappear_but_for_what_they_slow_down():
    there, back = beside_each_other(part(1.0, 1.0), part(2.0, 1.0), (1.0, 1.0))
    assert (there.seconds, back.seconds) == (1.0, 2.0)
    slow = beside_each_other(part(1.0, 1.0), part(2.0, 1.0), (1.2, 1.2))
    assert sum(one.seconds for one in slow) == pytest.approx(3.0 + 0.2 * 2.0)


def test_what_compute_cannot_cover_stays_with_each_in_proportion():
    there, back = beside_each_other(part(1.0, 2.0), part(1.0, 4.0), (1.0, 1.0))
    assert there.seconds_by_cause["expert"] == pytest.approx(2.0 * 4 / 6)
    assert back.seconds_by_cause["expert"] == pytest.approx(4.0 * 4 / 6)


def test_nothing_is_hidden_where_nothing_is_sent():
    one = part(1.0, 0.0, 1.0)
    assert beside_each_other(one, one, (1.2, 1.2)) == (one, one)


@given(amounts, amounts, amounts, amounts, amounts, st.floats(1.0, 1.5))
def test_two_passes_take_no_less_than_their_compute_or_their_dispatches(
    first: float, second: float, sent: float, back: float, tensor: float, slowdown: float
):
    parts = part(first, sent, tensor), part(second, back)
    found = beside_each_other(*parts, (slowdown, slowdown))
    total, before = sum(one.seconds for one in found), sum(one.seconds for one in parts)
    assert total >= max(first + second + tensor, sent + back) - 1e-9
    assert total <= before + 1e-9
    for one in found:
        assert sum(one.seconds_by_cause.values()) == pytest.approx(one.seconds)


@given(amounts, amounts, amounts, amounts)
def test_they_are_as_fast_as_two_joined_passes_that_send_nothing_else(
    first: float, second: float, sent: float, back: float
):
    parts, slowdown = (part(first, sent), part(second, back)), (1.19, 1.19)
    found = beside_each_other(*parts, slowdown)
    assert sum(one.seconds for one in found) == pytest.approx(joined(*parts, slowdown).seconds)


def test_passes_overlap_only_where_they_take_turns():
    plan = Plan(data_parallel=4, expert_parallel=4, num_micro_batches=8, overlaps_experts=True)
    assert plan.overlaps_passes
    assert not replace(plan, num_micro_batches=1).overlaps_passes
    assert not replace(plan, expert_parallel=1).overlaps_passes
    piped = replace(plan, pipeline_parallel=2)
    assert piped.overlaps_passes
    assert not replace(piped, schedule="gpipe").overlaps_passes
    assert not replace(piped, schedule="dualpipe").overlaps_passes
