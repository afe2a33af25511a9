"""Formulas of what happens once a step: first gathers, last collectives, slower ends of a pipeline."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_steps import SECONDS, UPDATE, Stages, makespan, small_layer, small_step

from perfcast.core.work import Call, LayerRun, StageWork, StepWork
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.training import simulate_step

SLOWDOWN = (1.2, 1.2)


def apart(work: StepWork, **setting: object) -> float:
    """The formula over the events, less 1."""
    formula = closed_form_step(work, SECONDS, **setting).step_seconds  # type: ignore[arg-type]
    return formula / simulate_step(work, SECONDS, with_path=False, **setting).step_seconds - 1  # type: ignore[arg-type]


def interleaved(num_stages: int, rounds: int, virtual: int, layers: int, **flags: bool) -> StepWork:
    layer = replace(small_layer(gathers=True, scatters=True), gather_again=())
    work = small_step(
        num_stages, rounds * num_stages, layers, virtual=virtual, schedule="interleaved", layer=layer
    )
    return replace(work, gathers_each_micro_batch=False, reduces_gradients_each_micro_batch=False, **flags)


@pytest.mark.parametrize("overlaps", [True, False])
@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 4), st.integers(1, 3))
def test_gathers_and_collectives_of_all_chunks_count(overlaps, num_stages, rounds, virtual, layers):
    work = interleaved(num_stages, rounds, virtual, layers, overlaps_gradient_reduction=overlaps)
    assert abs(apart(work, slowdown=SLOWDOWN)) < 0.05


def test_collectives_that_are_put_off_follow_each_other_at_the_end():
    """Three chunks of two layers leave 6 · 0.6 s, whatever ran before."""
    work = interleaved(2, 2, 3, 2, overlaps_gradient_reduction=False)
    without = replace(work, layers=(replace(work.layers[0], gradient_reduction=()),))
    longer = [
        closed_form_step(one, SECONDS).step_seconds - closed_form_step(two, SECONDS).step_seconds
        for one, two in ((work, without),)
    ]
    assert longer == [pytest.approx(3.6)]
    assert apart(work) == pytest.approx(0.0, abs=1e-9)


def test_a_host_far_ahead_has_launched_the_optimizer_while_collectives_run():
    """Collectives of 0.6 s stand before an optimizer of 0.5 s, whose launches of 0.4 s are then over."""
    optimizer = tuple(Call(replace(UPDATE, name=f"update {at}")) for at in range(4))
    prices = {**SECONDS, **{call.operation: 0.125 for call in optimizer}}
    work = small_step(1, 1, layer=small_layer(scatters=True), optimizer=optimizer)
    work = replace(work, overlaps_gradient_reduction=False)
    times = [of(work, prices, launch_seconds=0.1).step_seconds for of in (closed_form_step, simulate_step)]
    assert times == [pytest.approx(3.0 + 0.6 + 0.5)] * 2
    assert times[0] == pytest.approx(times[1], rel=1e-9)


@pytest.mark.parametrize("longer", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("num_stages", "count"), [(4, 8), (4, 16), (8, 16), (8, 32)])
def test_slower_ends_of_a_dual_pipeline_idle_less(num_stages, count, longer):
    layer = small_layer(reduces=True)
    slow = tuple(
        Call(replace(call.operation, name=f"slow {at}"), call.stream, call.after, call.module,
             is_weight_gradient=call.is_weight_gradient)
        for at, call in enumerate((*layer.forward[:1], *layer.backward))
    )  # fmt: skip
    prices = {**SECONDS, **{c.operation: 1.0 + longer for c in slow}}
    work = small_step(num_stages, count, 1, schedule="dualpipe", layer=layer)
    ends = replace(layer, forward=(slow[0], *layer.forward[1:]), backward=slow[1:])
    stages = tuple(
        StageWork(((LayerRun(int(stage in (0, num_stages - 1)), 1),),)) for stage in range(num_stages)
    )
    work = replace(work, layers=(layer, ends), stages=stages)
    formula = closed_form_step(work, prices).step_seconds
    assert formula == pytest.approx(simulate_step(work, prices).step_seconds, rel=0.05)


def test_the_bubble_of_a_dual_pipeline_whose_backwards_are_long():
    """(p / 2 - 1)(x + b - 2 w) - f = 3 (4 + 2 - 2) - 1 = 11 beside (m - p - 1) x + (p + 1)(f + b + w)."""
    ones = [1.0] * 8
    stages = Stages(ones, [2.0] * 8, ones, [4.0] * 8)
    assert makespan("dualpipe", stages, 16) == pytest.approx(7 * 4 + 9 * 4 + 11)
