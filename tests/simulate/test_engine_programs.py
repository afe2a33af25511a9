"""The engine on programs whose times are worked out by hand."""

import pytest

from perfcast.errors import PlanError
from perfcast.simulate.critical_path import critical_path
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, ProgramBuilder


def ends(builder: ProgramBuilder) -> list[float]:
    return play(builder.build()).ends.tolist()


def test_a_stream_runs_its_tasks_in_order_and_waits_for_dependencies():
    builder = ProgramBuilder()
    a, b = builder.add_lane(Lane("a")), builder.add_lane(Lane("b"))
    first = builder.add(a, 2.0)
    builder.add(b, 1.0)
    waiting = builder.add(b, 1.0, [first])
    builder.add(b, 1.0)
    assert ends(builder) == [2.0, 1.0, 3.0, 4.0]
    assert play(builder.build()).starts[waiting] == 2.0


def test_a_dependency_may_be_added_later_than_what_waits_for_it():
    builder = ProgramBuilder()
    a, b = builder.add_lane(Lane("a")), builder.add_lane(Lane("b"))
    early = builder.add(a, 1.0)
    late = builder.add(b, 5.0)
    builder.wait(early, late)
    assert ends(builder) == [6.0, 5.0]


def test_a_collective_starts_with_its_last_member_and_ends_for_all():
    builder = ProgramBuilder()
    lanes = [builder.add_lane(Lane(name)) for name in "abc"]
    meeting = builder.add_collective(3)
    for lane, seconds in zip(lanes, (1.0, 4.0, 2.0), strict=True):
        builder.add(lane, seconds)
        builder.add(lane, 0.5 + lane, collective=meeting)
    played = play(builder.build())
    assert played.starts[1::2].tolist() == [4.0] * 3
    assert played.ends[1::2].tolist() == [6.5] * 3


def test_compute_and_collective_beside_it_slow_each_other_down_while_both_run():
    builder = ProgramBuilder()
    compute, data = builder.add_lane(Lane("compute", 0)), builder.add_lane(Lane("data", 0, True))
    builder.add(compute, 10.0, slowdown=2.0)
    builder.add(data, 4.0, slowdown=1.5)
    # Both until 6 s: 4 s of collective are done, and 3 s of compute; the other 7 run alone.
    assert ends(builder) == [13.0, 6.0]


def test_kernels_that_follow_each_other_do_not_interrupt_the_collective_beside_them():
    builder = ProgramBuilder()
    compute, data = builder.add_lane(Lane("compute", 0)), builder.add_lane(Lane("data", 0, True))
    for _ in range(4):
        builder.add(compute, 1.0, slowdown=1.5)
    builder.add(data, 3.0, slowdown=2.0)
    assert ends(builder) == pytest.approx([1.5, 3.0, 4.5, 6.0, 6.0])


def test_other_devices_and_streams_of_no_device_are_not_slowed():
    builder = ProgramBuilder()
    lanes = (Lane("compute", 0), Lane("elsewhere", 1, True), Lane("nowhere", communicates=True))
    for lane in lanes:
        builder.add(builder.add_lane(lane), 2.0, slowdown=3.0)
    assert ends(builder) == [2.0, 2.0, 2.0]


def test_a_collective_is_slowed_by_any_of_its_devices():
    builder = ProgramBuilder()
    busy, idle = builder.add_lane(Lane("data 0", 0, True)), builder.add_lane(Lane("data 1", 1, True))
    builder.add(builder.add_lane(Lane("compute", 0)), 10.0)
    meeting = builder.add_collective(2)
    for lane in (busy, idle):
        builder.add(lane, 2.0, slowdown=2.0, collective=meeting)
    assert ends(builder) == [10.0, 4.0, 4.0]


def test_a_pool_takes_what_is_ready_and_has_the_lowest_priority_number():
    builder = ProgramBuilder()
    pool, other = builder.add_lane(Lane("pool", is_pool=True)), builder.add_lane(Lane("other"))
    gate = builder.add(other, 1.0)
    builder.add(pool, 1.0, [gate], priority=2)
    builder.add(pool, 1.0, [gate], priority=1)
    builder.add(pool, 0.5, priority=3)
    assert ends(builder) == [1.0, 3.0, 2.0, 0.5]


def test_tasks_that_wait_for_each_other_are_named():
    builder = ProgramBuilder()
    a, b = builder.add_lane(Lane("a")), builder.add_lane(Lane("b"))
    send = builder.add(a, 1.0, label="send")
    receive = builder.add(b, 1.0, [send], label="receive")
    builder.wait(send, receive)
    with pytest.raises(PlanError, match="'send' on 'a' waits for 'receive' on 'b'"):
        play(builder.build())


def test_collectives_in_another_order_on_each_stream_are_a_deadlock():
    builder = ProgramBuilder()
    a, b = builder.add_lane(Lane("a")), builder.add_lane(Lane("b"))
    first, second = builder.add_collective(2), builder.add_collective(2)
    for lane, order in ((a, (first, second)), (b, (second, first))):
        for which in order:
            builder.add(lane, 1.0, collective=which, label=f"collective {which}")
    with pytest.raises(PlanError, match=r"collective 0.*waits for.*collective 1"):
        play(builder.build())


def test_a_collective_that_a_member_never_joins_is_named():
    builder = ProgramBuilder()
    lane = builder.add_lane(Lane("rank 0"))
    builder.add(lane, 1.0, collective=builder.add_collective(2), label="all-reduce")
    with pytest.raises(PlanError, match="2 members has 1: 'all-reduce' on 'rank 0'"):
        play(builder.build())


def test_a_collective_on_a_pool_is_refused():
    builder = ProgramBuilder()
    pool = builder.add_lane(Lane("pool", is_pool=True))
    builder.add(pool, 1.0, collective=builder.add_collective(1))
    with pytest.raises(PlanError, match="cannot run on a pool"):
        play(builder.build())


@pytest.mark.parametrize(("seconds", "slowdown"), [(-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.5)])
def test_impossible_durations_are_refused(seconds: float, slowdown: float):
    builder = ProgramBuilder()
    with pytest.raises(PlanError):
        builder.add(builder.add_lane(Lane("a")), seconds, slowdown=slowdown)


def test_an_empty_program_takes_no_time():
    played = play(ProgramBuilder().build())
    assert played.makespan_seconds == 0
    assert critical_path(ProgramBuilder().build(), played) == []


def test_the_critical_path_follows_what_was_waited_for():
    builder = ProgramBuilder()
    a, b = builder.add_lane(Lane("a")), builder.add_lane(Lane("b"))
    short, long = builder.add(a, 1.0), builder.add(b, 2.0)
    meeting = builder.add_collective(2)
    ours, theirs = builder.add(a, 1.0, collective=meeting), builder.add(b, 1.0, collective=meeting)
    last = builder.add(a, 1.0)
    program = builder.build()
    path = critical_path(program, play(program))
    assert path == [long, ours, last]
    assert short not in path
    assert theirs not in path
