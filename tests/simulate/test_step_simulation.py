"""Whole steps, simulated: by hand, and what must hold for all of them."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_steps import REDUCE, SCATTER, SECONDS, SEND, UPDATE, small_layer, small_step

from perfcast.core.forecast.plan import StepTime
from perfcast.core.operation import OperationKind
from perfcast.core.work import Call, StepWork, Stream
from perfcast.errors import PlanError
from perfcast.simulate.closed_form.step import closed_form_step
from perfcast.simulate.training import simulate_step

FUSED = replace(UPDATE, name="fused update", kind=OperationKind.OPTIMIZER)
OPTIMIZER = (Call(UPDATE),)
CLIPPED = (Call(REDUCE, Stream.TENSOR), Call(UPDATE, after=(0,)))
MIXED = (*OPTIMIZER, Call(FUSED))


@st.composite
def steps(draw: st.DrawFn) -> StepWork:
    schedule = draw(st.sampled_from(("gpipe", "1f1b", "interleaved", "zero_bubble", "dualpipe")))
    num_stages, virtual = draw(st.integers(1, 4)), 1
    count = draw(st.integers(1, 10))
    if schedule == "interleaved":
        virtual, count = 2, num_stages * draw(st.integers(1, 3))
    if schedule == "dualpipe":
        num_stages, count = 2, 4 + 2 * draw(st.integers(0, 2))
    flags = {name: draw(st.booleans()) for name in ("reduces", "gathers", "scatters")}
    return small_step(
        num_stages, count, draw(st.integers(1, 3)), virtual=virtual, schedule=schedule,
        layer=small_layer(**flags), optimizer=draw(st.sampled_from(((), OPTIMIZER, CLIPPED, MIXED))),
        reduces_each=draw(st.booleans()), overlaps_boundary=draw(st.booleans()),
        num_prefetched=draw(st.integers(0, 2)), host_waits=draw(st.booleans()),
    )  # fmt: skip


SETTINGS = st.fixed_dictionaries(
    {
        "launch_seconds": st.sampled_from((0.0, 0.1, 0.7)),
        "slowdown": st.sampled_from(((1.0, 1.0), (1.25, 1.5))),
    }
)
PRICES = {**SECONDS, SEND: 0.25, FUSED: 0.25}


def assert_adds_up(time: StepTime) -> None:
    for rank in time.ranks:
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(time.step_seconds)
        assert min(rank.seconds_by_cause.values(), default=0.0) >= 0


def test_one_layer_on_one_device_is_the_sum_of_its_kernels():
    time = simulate_step(small_step(num_micro_batches=4, layers=3, optimizer=OPTIMIZER), SECONDS)
    assert time.step_seconds == 4 * 3 * 3.0 + 0.5
    assert time.seconds_by_cause == {"compute": 36.0, "optimizer": 0.5}


def test_kernels_of_an_optimizer_and_others_beside_them_are_all_its_own():
    time = simulate_step(small_step(optimizer=MIXED), PRICES)
    assert time.seconds_by_cause == {"compute": 3.0, "optimizer": 0.75}


def test_a_pipeline_of_equal_stages_waits_as_the_formula_says():
    time = simulate_step(small_step(4, 8), SECONDS)
    assert time.step_seconds == (8 + 4 - 1) * 3.0
    assert time.seconds_by_cause == {"compute": 24.0, "bubble": 9.0}


def test_a_host_that_waits_for_messages_paces_the_bubble_too():
    # Kernels of 1 s are issued every 2 s: one in a forward, two in a backward.
    work = small_step(4, 8, host_waits=True)
    ahead, waits = (
        simulate_step(replace(work, host_waits=flag), SECONDS, launch_seconds=2.0) for flag in (False, True)
    )
    assert waits.step_seconds == pytest.approx((8 + 4 - 1) * 3 * 2.0)
    assert waits.step_seconds > ahead.step_seconds
    assert closed_form_step(work, SECONDS, launch_seconds=2.0).step_seconds == waits.step_seconds


def test_messages_that_block_are_waited_for_by_both_sides():
    work = small_step(2, 1, overlaps_boundary=False)
    assert simulate_step(work, PRICES).step_seconds == 2 * 3.0 + 2 * 0.25


def test_the_first_gather_is_exposed_and_the_next_are_prefetched():
    work = small_step(layers=3, layer=small_layer(gathers=True))
    time = simulate_step(work, SECONDS)
    # Forward and backward each wait 0.4 s once; the other gathers run beside 1 s and 2 s of compute.
    assert time.seconds_by_cause == pytest.approx({"compute": 9.0, "data": 0.8})


def test_without_prefetch_every_gather_is_exposed():
    work = small_step(layers=3, layer=small_layer(gathers=True), num_prefetched=0)
    assert simulate_step(work, SECONDS).seconds_by_cause["data"] == pytest.approx(6 * 0.4)


def test_the_last_collective_is_exposed():
    time = simulate_step(small_step(layers=3, layer=small_layer(scatters=True)), SECONDS)
    assert time.seconds_by_cause == pytest.approx({"compute": 9.0, "data": 0.6})


def test_gradients_are_exchanged_once_or_for_every_micro_batch():
    layer = small_layer(scatters=True)
    prices = {**SECONDS, SCATTER: 5.0}
    once = simulate_step(small_step(num_micro_batches=4, layer=layer), prices)
    each = simulate_step(small_step(num_micro_batches=4, layer=layer, reduces_each=True), prices)
    assert once.step_seconds == 4 * 3.0 + 5.0
    assert each.step_seconds == 3.0 + 4 * 5.0


def test_a_collective_beside_compute_slows_both_down():
    layer = small_layer(scatters=True)
    time = simulate_step(small_step(layers=2, layer=layer), SECONDS, slowdown=(1.5, 1.25))
    # The first collective, of 0.6 s, takes 0.75 s beside the next backward, which loses a third of that.
    assert time.step_seconds == pytest.approx(2 * 3.0 + 0.75 - 0.75 / 1.5 + 0.6)


def test_a_host_that_cannot_keep_up_bounds_the_step():
    time = simulate_step(small_step(num_micro_batches=4), SECONDS, launch_seconds=2.0)
    # 4 · 3 launches, the last of which is issued at 22 s.
    assert time.step_seconds == pytest.approx(11 * 2.0 + 1.0)
    assert time.seconds_by_cause == pytest.approx({"compute": 12.0, "host": 11.0})


def test_stages_wait_for_each_other_before_gradients_are_clipped():
    time = simulate_step(small_step(2, 2, optimizer=CLIPPED), SECONDS)
    # Both stages end with the norm and the update, after the first stage's last backward.
    assert time.step_seconds == pytest.approx((2 + 2 - 1) * 3.0 + 0.7)
    assert all(rank.seconds_by_cause["tensor"] == pytest.approx(0.2) for rank in time.ranks)


def test_a_slow_stage_holds_up_the_others():
    work = small_step(2, 8)
    time = simulate_step(work, SECONDS, rank_slowdowns=[1.0, 1.5])
    slow, fast = sorted(time.ranks, key=lambda rank: -rank.stage)
    assert time.step_seconds == pytest.approx(8 * 4.5 + 3.0)
    assert slow.seconds_by_cause["straggler"] == pytest.approx(8 * 1.5)
    assert fast.seconds_by_cause["straggler"] == pytest.approx(time.step_seconds - 8 * 3.0 - 3.0)


def test_ranks_are_those_of_the_first_replica_and_stand_for_their_stage():
    time = simulate_step(small_step(2, 2, data_parallel=3, tensor_parallel=2), SECONDS)
    assert sorted((rank.rank, rank.stage, rank.num_equal) for rank in time.ranks) == [(0, 0, 6), (6, 1, 6)]


def test_a_stage_without_layers_passes_on_what_it_receives():
    assert simulate_step(small_step(3, 2, layers=0), PRICES).step_seconds == 4 * 0.25 + 0.25


def test_slowdowns_of_another_number_of_stages_are_refused():
    with pytest.raises(PlanError, match="3 slowdowns of ranks for 2 stages"):
        simulate_step(small_step(2, 2), SECONDS, rank_slowdowns=[1.0] * 3)


@given(steps(), SETTINGS)
@settings(max_examples=60, deadline=None)
def test_causes_add_up_to_the_step(work, options):
    time = simulate_step(work, PRICES, **options)
    assert_adds_up(time)
    assert sum(seconds for _, seconds in time.critical_path) == pytest.approx(time.step_seconds)


@given(steps(), SETTINGS)
@settings(max_examples=60, deadline=None)
def test_the_closed_form_adds_up_and_is_close(work, options):
    formula = closed_form_step(work, PRICES, **options)
    assert_adds_up(formula)
    assert formula.step_seconds == pytest.approx(
        simulate_step(work, PRICES, **options).step_seconds, rel=0.15
    )


@given(steps(), SETTINGS, st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_slower_rank_never_makes_a_faster_step(work, options, stage):
    slowdowns = [1.5 if s == stage else 1.0 for s in range(len(work.stages))]
    slow = simulate_step(work, PRICES, rank_slowdowns=slowdowns, **options)
    assert_adds_up(slow)
    if options["slowdown"] == (1.0, 1.0):
        assert slow.step_seconds >= simulate_step(work, PRICES, **options).step_seconds - 1e-9


@given(steps(), st.sampled_from(sorted(PRICES, key=lambda operation: operation.name)))
@settings(max_examples=40, deadline=None)
def test_more_work_never_takes_less_time(work, operation):
    more = {**PRICES, operation: PRICES[operation] + 0.5}
    assert simulate_step(work, more).step_seconds >= simulate_step(work, PRICES).step_seconds - 1e-9


@given(steps(), SETTINGS)
@settings(max_examples=30, deadline=None)
def test_timelines_lie_within_the_step_and_nest(work, options):
    time = simulate_step(work, PRICES, with_spans=True, **options)
    rows = defaultdict(list)
    for span in time.spans:
        assert 0 <= span.start_seconds < span.end_seconds <= time.step_seconds + 1e-9
        rows[span.rank, span.stream].append(span)
    for spans in rows.values():
        open_until = [float("inf")]
        for span in sorted(spans, key=lambda s: (s.start_seconds, -s.end_seconds)):
            while open_until[-1] <= span.start_seconds + 1e-12:
                open_until.pop()
            assert span.end_seconds <= open_until[-1] + 1e-9
            open_until.append(span.end_seconds)


def test_a_timeline_shows_layers_and_the_calls_of_one_micro_batch():
    spans = simulate_step(small_step(num_micro_batches=2, layers=2), SECONDS, with_spans=True).spans
    shown = [(s.label, s.micro_batch, s.start_seconds) for s in spans if s.stream == "compute"]
    assert shown[:2] == [("layer forward", 0, 0.0), ("layer forward", 0, 1.0)]
    assert ("up", 1, 6.0) in shown
    assert ("up", 0, 0.0) not in shown
    assert all(span.on_critical_path for span in spans)
