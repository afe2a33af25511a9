"""Steps by formula that are columns of one are those that are timed alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_quick_steps import ODD
from test_step_simulation import steps

from perfcast.core.work import StepWork
from perfcast.simulate.closed_form.step import StepCase, closed_form_step, closed_form_steps
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import time_parts

#: Factors on all prices: in some steps communication takes no time, in others all takes longer.
CASES = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.sampled_from([0.0, 0.125])), min_size=2, max_size=4
)


@settings(max_examples=80, deadline=None)
@given(steps(), CASES)
def test_steps_of_one_plan_at_once_are_those_timed_one_by_one(
    work: StepWork, cases: list[tuple[float, float]]
):
    slowdown = (1.25, 1.5)
    played: dict[object, CallsTime] = {}
    prices = [
        {o: s * (factor if o.kind.value == "collective" else 1.0) for o, s in ODD.items()}
        for factor, _ in cases
    ]
    times = [
        time_parts(work, seconds, launch_seconds=launch, slowdown=slowdown, played=played)
        for seconds, (_, launch) in zip(prices, cases, strict=True)
    ]
    together = closed_form_steps([StepCase(work, each) for each in times])
    for found, seconds, (_, launch) in zip(together, prices, cases, strict=True):
        alone = closed_form_step(work, seconds, launch_seconds=launch, slowdown=slowdown)
        assert found.step_seconds == pytest.approx(alone.step_seconds, rel=1e-14)
        for one, other in zip(found.ranks, alone.ranks, strict=True):
            assert dict(one.seconds_by_cause) == pytest.approx(dict(other.seconds_by_cause), abs=1e-12)
