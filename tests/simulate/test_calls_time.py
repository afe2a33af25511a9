"""Times of sequences of calls: played alone, in a row, joined, on slower ranks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_steps import FORWARD, REDUCE, SECONDS, SEND, UPDATE, collective, kernel, small_layer, small_step

from perfcast.core.operation import OperationKind
from perfcast.core.work import Call, Stream
from perfcast.errors import PlanError
from perfcast.simulate.combine import in_a_row, joined, slower
from perfcast.simulate.engine import play
from perfcast.simulate.layer import CallsTime, time_calls
from perfcast.simulate.part_times import apart, time_parts
from perfcast.simulate.program import Lane, ProgramBuilder

K, X = kernel("kernel"), collective("all_reduce")


@st.composite
def sequences(draw: st.DrawFn) -> tuple[tuple[Call, ...], list[float]]:
    calls: list[Call] = []
    for at in range(draw(st.integers(1, 12))):
        stream = draw(
            st.sampled_from((Stream.COMPUTE, Stream.COMPUTE, Stream.TENSOR, Stream.EXPERT, Stream.COPY))
        )
        after = tuple(draw(st.lists(st.integers(0, at - 1), max_size=2))) if at else ()
        calls.append(Call(K if stream is Stream.COMPUTE else X, stream, after))
    return tuple(calls), [draw(st.integers(0, 8)) / 4 for _ in calls]


def test_a_collective_that_blocks_is_exposed():
    calls = (Call(K), Call(X, Stream.TENSOR, (0,)), Call(K, after=(1,)))
    time = time_calls(calls, [1.0, 0.5, 2.0])
    assert time.seconds == 3.5
    assert time.seconds_by_cause == {"compute": 3.0, "tensor": 0.5}
    assert list(time.starts) == [0.0, 1.0, 1.5]


def test_what_compute_hides_is_not_exposed():
    calls = (Call(X, Stream.EXPERT), Call(K), Call(K, after=(0,)))
    time = time_calls(calls, [1.5, 1.0, 1.0])
    assert time.seconds_by_cause == {"compute": 2.0, "expert": 0.5}
    assert time.hidden_seconds == 1.0


def test_collectives_beside_compute_slow_it_down_and_are_charged_for_it():
    calls = (Call(X, Stream.DATA), Call(K))
    time = time_calls(calls, [2.0, 4.0], slowdown=(1.5, 1.25))
    # Until 2.5 s both; 2.5 / 1.5 of 4 s are done by then.
    assert time.seconds == pytest.approx(2.5 + 4 - 2.5 / 1.5)
    assert time.seconds_by_cause["compute"] == 4.0
    assert time.seconds_by_cause["data"] == pytest.approx(time.seconds - 4.0)


def test_copies_to_the_host_slow_nothing_down():
    time = time_calls((Call(K, Stream.COPY), Call(K)), [2.0, 4.0], slowdown=(1.5, 1.5))
    assert time.seconds == 4.0


def test_causes_tell_recomputed_and_optimizer_work_apart():
    update = replace(K, kind=OperationKind.OPTIMIZER)
    calls = (Call(K, is_recomputed=True), Call(K), Call(update))
    assert time_calls(calls, [1.0, 2.0, 3.0]).seconds_by_cause == {
        "recompute": 1.0, "compute": 2.0, "optimizer": 3.0
    }  # fmt: skip


def test_a_host_that_issues_faster_than_the_device_needs_no_lead():
    time = time_calls((Call(K), Call(K)), [1.0, 1.0], launch_seconds=0.25)
    assert (time.host_seconds, time.lead_seconds) == (0.5, 0.0)


def test_a_slow_host_must_be_ahead_by_what_it_would_delay():
    # Issued at 0 and 1 s: the second kernel ends at 1.5 s, not at 1 s.
    time = time_calls((Call(K), Call(K)), [0.5, 0.5], launch_seconds=1.0)
    assert (time.seconds, time.host_seconds, time.lead_seconds) == (1.0, 2.0, 0.5)


def test_a_call_of_many_launches_ends_after_its_last():
    # Four kernels of 0.1 s, the last issued at 3 s.
    time = time_calls((Call(K, num_launches=4),), [0.4], launch_seconds=1.0)
    assert time.seconds + time.lead_seconds == pytest.approx(3.1)


@given(sequences())
def test_causes_add_up_to_the_whole(sequence):
    calls, seconds = sequence
    for slowdown in ((1.0, 1.0), (1.25, 1.5)):
        time = time_calls(calls, seconds, slowdown=slowdown)
        assert sum(time.seconds_by_cause.values()) == pytest.approx(time.seconds, abs=1e-12)
        assert all(value >= 0 for value in time.seconds_by_cause.values())


@given(sequences())
def test_a_sequence_takes_what_the_engine_says(sequence):
    calls, seconds = sequence
    slowdown = (1.25, 1.5)
    builder, lanes = ProgramBuilder(), {}
    for call, duration in zip(calls, seconds, strict=True):
        if call.stream not in lanes:
            device = -1 if call.stream is Stream.COPY else 0
            lanes[call.stream] = builder.add_lane(Lane("", device, call.stream is not Stream.COMPUTE))
        factor = slowdown[call.stream is not Stream.COMPUTE]
        builder.add(lanes[call.stream], duration, call.after, slowdown=factor)
    played = play(builder.build())
    time = time_calls(calls, seconds, slowdown=slowdown)
    assert time.seconds == pytest.approx(played.makespan_seconds)
    assert list(time.ends) == pytest.approx(played.ends.tolist())


@given(sequences(), st.integers(0, 8))
def test_the_lead_is_what_a_host_without_one_costs(sequence, eighths):
    """With a host task before each call, the sequence ends at its seconds plus its lead."""
    calls, seconds = sequence
    launch = eighths / 8
    builder, lanes = ProgramBuilder(), {}
    host = builder.add_lane(Lane("host"))
    issued: list[int] = []
    for call, duration in zip(calls, seconds, strict=True):
        lane = lanes.setdefault(call.stream, None)
        lane = lanes[call.stream] = builder.add_lane(Lane("")) if lane is None else lane
        numbers = [2 * at for at in call.after]
        issued.append(builder.add(lane, duration, [*numbers, *issued_before(issued)]))
        builder.add(host, launch)
    time = time_calls(calls, seconds, launch_seconds=launch)
    end = max(play(builder.build()).ends[0::2].tolist())
    assert time.seconds + time.lead_seconds == pytest.approx(end)


def issued_before(issued: list[int]) -> list[int]:
    """The host's task of the call before: those stand behind each call."""
    return [issued[-1] + 1] if issued else []


def test_equal_parts_in_a_row_wait_for_the_host_at_the_first_or_the_last():
    part = time_calls((Call(K), Call(K)), [0.5, 0.5], launch_seconds=1.0)
    row = in_a_row([(part, 3)])
    # The last of six kernels is issued at 5 s and ends at 5.5 s; the work alone takes 3 s.
    assert (row.seconds, row.host_seconds) == (3.0, 6.0)
    assert row.seconds + row.lead_seconds == pytest.approx(5.5)


def test_joined_sequences_hide_each_others_collectives():
    calls = (Call(K), Call(X, Stream.EXPERT, (0,)))
    one = time_calls(calls, [2.0, 1.0])
    assert joined(one, one, (1.0, 1.0)).seconds == 4.0
    exchanging = time_calls(calls, [1.0, 3.0])
    both = joined(exchanging, exchanging, (1.0, 1.0))
    assert both.seconds == 6.0
    assert both.seconds_by_cause == {"compute": 2.0, "expert": 4.0}


def test_a_slower_rank_computes_longer_and_exchanges_as_long():
    one = time_calls((Call(K), Call(X, Stream.EXPERT, (0,))), [2.0, 1.0])
    slow = slower(one, 1.5)
    assert slow.seconds == 4.0
    assert slow.seconds_by_cause == {"compute": 2.0, "expert": 1.0, "straggler": 1.0}


def test_a_rank_that_computes_in_no_time_takes_no_less_than_none():
    tenths = time_calls((Call(K), Call(K), Call(K)), [0.1, 0.2, 0.3])
    part = CallsTime(tenths.seconds, {"compute": 0.1 + 0.2, "recompute": 0.3 + 1e-16})
    assert slower(part, 0.0).seconds == 0.0


def test_a_backward_taken_apart_keeps_its_order():
    calls = (Call(K), Call(X, Stream.TENSOR, (0,)), Call(K, after=(1,)), Call(X, Stream.TENSOR, (2,)))
    kept = apart([True, False, True, True], calls)
    assert [call.after for call in kept] == [(), (), (1,)]


def test_parts_of_a_backward_add_up_to_the_whole():
    times = time_parts(small_step(schedule="zero_bubble"), SECONDS)
    layer = times.layers[0]
    assert layer.input_gradient.seconds + layer.weight_gradient.seconds == layer.backward.seconds == 2.0


def test_an_optimizers_compute_is_its_own_cause():
    work = small_step(2, optimizer=(Call(REDUCE, Stream.TENSOR), Call(UPDATE, after=(0,))))
    times = time_parts(work, SECONDS)
    assert times.optimizers[0].seconds_by_cause == {"optimizer": 0.5, "tensor": pytest.approx(0.2)}
    assert times.boundary_seconds == SECONDS[SEND]


def test_an_operation_without_a_price_is_named():
    with pytest.raises(PlanError, match="no price for forward"):
        time_parts(small_step(), {})


def test_factors_below_one_are_refused():
    with pytest.raises(PlanError, match="slowdowns of"):
        time_parts(small_step(), SECONDS, slowdown=(0.5, 1.0))


def test_calls_count_as_often_as_they_run():
    work = replace(small_step(), layers=(replace(small_layer(), forward=(Call(FORWARD, count=3),)),))
    assert time_parts(work, SECONDS).layers[0].forward.seconds == 3.0


def test_no_calls_take_no_time():
    assert time_calls((), []) == CallsTime(0.0, {})


def test_a_host_that_reads_a_result_is_never_ahead_of_it():
    """Of equal sequences each takes what the host issues from one result to the next, if that is longer."""
    first = Call(K)
    reads, rest = replace(first, host_waits=True), (first,) * 4
    seconds = [1.0] * 6
    far_ahead = time_calls((first, first, *rest), seconds, launch_seconds=3.0)
    waiting = time_calls((first, reads, *rest), seconds, launch_seconds=3.0)
    assert far_ahead.seconds == 6.0
    # issued 3, 6, …, 18 after the result; the sixth kernel runs for one more
    assert waiting.seconds == pytest.approx(19.0)
    assert waiting.seconds_by_cause["host"] == pytest.approx(13.0)


def test_a_host_that_is_fast_enough_costs_nothing_when_it_reads():
    calls = (Call(K), Call(K, host_waits=True), Call(K))
    found = time_calls(calls, [1.0, 1.0, 1.0], launch_seconds=0.1)
    assert found.seconds == pytest.approx(3.0 + 0.1)
