"""Steps that are played without a program are those of the event engine."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_steps import SECONDS, SEND, forwards_of, small_layer, small_step
from test_step_simulation import FUSED, OPTIMIZER, SETTINGS, steps

from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.simulate.part_times import time_parts
from perfcast.simulate.pipeline.content import step_content
from perfcast.simulate.pipeline.data_stream import DataStream
from perfcast.simulate.pipeline.quick import play_schedule
from perfcast.simulate.training import simulate_step

#: No two sums of them are equal, so that what is waited for last is never in doubt.
ODD = {
    operation: seconds * (1 + 0.013 * 2**0.5 * at + 0.0007 * 3**0.5 * at**2)
    for at, (operation, seconds) in enumerate({**SECONDS, SEND: 0.25, FUSED: 0.25}.items())
}
WAITS = ("data", "pipeline", "bubble", "host")


@st.composite
def habits(draw: st.DrawFn) -> dict[str, bool]:
    names = ("gathers_each_micro_batch", "overlaps_gradient_reduction", "overlaps_gather")
    return {name: draw(st.booleans()) for name in names}


@settings(max_examples=150, deadline=None)
@given(steps(), habits(), SETTINGS)
def test_both_take_equally_long(work: StepWork, flags: dict[str, bool], setting):
    """Time by cause too; of causes that end at one moment either may be charged."""
    work = replace(work, **flags)
    slow = simulate_step(work, ODD, **setting)
    quick = simulate_step(work, ODD, **setting, with_path=False)
    assert quick.step_seconds == pytest.approx(slow.step_seconds, rel=1e-12)
    assert not quick.critical_path
    own = {rank.stage: rank.seconds_by_cause for rank in quick.ranks}
    for rank in slow.ranks:
        found, expected = own[rank.stage], rank.seconds_by_cause
        for cause in {*found, *expected} - {*WAITS}:
            assert found.get(cause, 0.0) == pytest.approx(expected.get(cause, 0.0), abs=1e-10)
        waited = [sum(causes.get(cause, 0.0) for cause in WAITS) for causes in (found, expected)]
        assert waited[0] == pytest.approx(waited[1], abs=1e-10)


@given(st.sampled_from((1.0, 1.5, 2.0)), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_slow_ranks_are_charged_alike(factor, num_stages):
    work = small_step(num_stages, 6, layer=small_layer(reduces=True), optimizer=OPTIMIZER)
    slowdowns = [factor] + [1.0] * (num_stages - 1)
    slow, quick = (
        simulate_step(work, ODD, rank_slowdowns=slowdowns, with_path=path) for path in (True, False)
    )
    assert quick.step_seconds == pytest.approx(slow.step_seconds, rel=1e-12)
    assert quick.seconds_by_cause == pytest.approx(slow.seconds_by_cause, rel=1e-9)


def test_forwards_alone_are_played_too():
    work = forwards_of(small_step(3, 4))
    slow, quick = (simulate_step(work, ODD, with_path=path) for path in (True, False))
    assert quick.step_seconds == pytest.approx(slow.step_seconds, rel=1e-12)


def test_slowdowns_must_be_as_many_as_stages():
    work = small_step(2, 2)
    with pytest.raises(PlanError, match="1 slowdowns of ranks for 2 stages"):
        play_schedule(work, time_parts(work, ODD), rank_slowdowns=[1.0])


def test_a_stream_runs_beside_compute_at_the_rates_of_both():
    stream = DataStream(1.5)
    stream.add(0.0, 1.0)
    stream.add(0.0, 1.0)
    # Alone until 0.5; then 1.5 s of collectives take 2.25 s beside compute, which gets 2.25 / 1.25 done.
    assert stream.run_beside(0.5, 4.0, 1.25) == pytest.approx(0.5 + 2.25 + 4.0 - 2.25 / 1.25)
    assert stream.is_idle
    assert stream.finish(stream.add(9.0, 1.0)) == 10.0


def test_contents_differ_where_something_that_matters_does():
    work = small_step(2, 4, layer=small_layer(scatters=True))
    content = step_content(work, time_parts(work, ODD))
    same = replace(work, overlaps_gather=False, num_tokens=7)
    assert step_content(same, time_parts(same, ODD)) == content
    for other in (
        replace(work, overlaps_gradient_reduction=False),
        replace(work, plan=replace(work.plan, num_micro_batches=6)),
        replace(work, plan=replace(work.plan, schedule="gpipe")),
    ):
        assert step_content(other, time_parts(other, ODD)) != content
    slower = {**ODD, SEND: 0.3}
    assert step_content(work, time_parts(work, slower)) != content
