"""Collectives of a processor's own threads, from recordings by hand. Times are microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.traces.events import Trace
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording

ENGINE = "autograd::engine::evaluate_function: "


def at_once(rank: int, asked: float) -> Recording:
    """A step of 1000 µs: 'mm' until the collective is asked for, which ends at 600; then 'add'."""
    recording = Recording(rank, world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("aten::mm", 0, asked)
    recording.operator("c10d::alltoall_base_", asked, 20)
    recording.mark("gloo:all_to_all", asked + 10, 590 - asked, thread=2)
    recording.operator("aten::add", 620, 380)
    return recording


def read(folder: Path, *recordings: Recording) -> list[Trace]:
    return [recording.read(folder) for recording in recordings]


def test_both_ranks_wait_until_the_later_one_has_come(tmp_path: Path):
    programs = build_ranks(read(tmp_path, at_once(0, 100), at_once(1, 500)))
    assert [len(program.works) for program in programs] == [1, 1]
    assert programs[0].works[0].collective == programs[1].works[0].collective != ""
    timeline = play_ranks(programs)
    for rank in timeline.ranks:
        assert rank.step_seconds == pytest.approx((1000 * MICRO,))
    # Rank 0 was ready at 110 and rank 1 at 510.
    assert timeline.ranks[0].communication_wait_seconds == pytest.approx(400 * MICRO)


def test_a_later_rank_that_hurries_lets_the_other_wait_less(tmp_path: Path):
    programs = list(build_ranks(read(tmp_path, at_once(0, 100), at_once(1, 500))))
    hurried = [p.seconds / 2 if p.key == ("aten::mm",) else p.seconds for p in programs[1].pieces]
    programs[1] = programs[1].with_piece_seconds(hurried)
    # The collective starts at 260 instead of 510 and takes 90; 20 + 380 follow.
    assert play_ranks(programs).step_seconds == pytest.approx((750 * MICRO,))


def data_parallel(rank: int) -> Recording:
    """Gradients are exchanged from 230 to 700; the backward pass ends at 500; a copy follows."""
    recording = Recording(rank, world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("aten::mm", 0, 200)
    recording.operator(ENGINE + "torch::autograd::AccumulateGrad", 200, 50)
    recording.operator("c10d::allreduce_", 210, 10)
    recording.mark("gloo:all_reduce", 230, 470, thread=2)
    recording.operator(ENGINE + "MmBackward0", 250, 250)
    recording.operator("aten::copy_", 720, 280)
    return recording


def test_gradients_are_awaited_when_the_backward_pass_has_ended(tmp_path: Path):
    programs = list(build_ranks(read(tmp_path, data_parallel(0), data_parallel(1))))
    assert play_ranks(programs).step_seconds == pytest.approx((1000 * MICRO,))
    quick = [program.with_work_seconds([100 * MICRO]) for program in programs]
    # Nothing is left to wait for at 500: 20 from the collective's end to the copy, and the copy.
    assert play_ranks(quick).step_seconds == pytest.approx((800 * MICRO,))
    slow = [program.with_work_seconds([970 * MICRO]) for program in programs]
    assert play_ranks(slow).step_seconds == pytest.approx((1500 * MICRO,))


def two_buckets(rank: int) -> Recording:
    """A backward pass to 500 reduces two buckets: one till 400, one till 700; each is copied back at once."""
    recording = Recording(rank, world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("aten::mm", 0, 200)
    for start, end in ((200, 400), (440, 700)):
        recording.operator(ENGINE + "torch::autograd::AccumulateGrad", start, 50)
        recording.operator("c10d::allreduce_", start + 10, 10)
        recording.mark("gloo:all_reduce", start + 30, end - start - 30, thread=2)
    recording.operator(ENGINE + "MmBackward0", 490, 10)
    recording.operator("copy_bucket_to_grad", 500, 40)
    recording.operator("aten::empty", 510, 10)  # within it: its end is not that of the unit
    recording.operator("copy_bucket_to_grad", 720, 280)
    return recording


def test_each_bucket_is_awaited_before_it_is_copied_back(tmp_path: Path):
    programs = list(build_ranks(read(tmp_path, two_buckets(0), two_buckets(1))))
    assert play_ranks(programs).step_seconds == pytest.approx((1000 * MICRO,))
    # The second bucket ends at 570 instead of 700: what follows comes 130 earlier.
    quick = [program.with_work_seconds([170 * MICRO, 100 * MICRO]) for program in programs]
    assert play_ranks(quick).step_seconds == pytest.approx((870 * MICRO,))


def test_what_is_computed_meanwhile_is_not_waited_for(tmp_path: Path):
    recordings = []
    for rank in range(2):
        recording = Recording(rank, world_size=2)
        recording.step(1, 0, 500)
        recording.operator("c10d::allreduce_", 0, 10)
        recording.mark("gloo:all_reduce", 10, 300, thread=2)
        recording.operator("aten::mm", 15, 485)
        recordings.append(recording)
    programs = build_ranks(read(tmp_path, *recordings))
    slow = [program.with_work_seconds([5000 * MICRO]) for program in programs]
    assert play_ranks(slow).step_seconds == pytest.approx((500 * MICRO,))


def exchange(rank: int, mm: float) -> Recording:
    """After 'mm' a message is sent and another received at once; both are awaited after that."""
    recording = Recording(rank, world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("aten::mm", 0, mm)
    recording.operator("c10d::send", mm, 20)
    recording.mark("gloo:send", mm + 15, 30, thread=1)
    recording.operator("c10d::recv_", mm + 25, 10)
    recording.mark("gloo:recv", mm + 33, 567 - mm, thread=1)
    recording.operator("aten::add", 620, 380)
    return recording


def test_ranks_that_send_to_each_other_before_they_receive_are_no_deadlock(tmp_path: Path):
    programs = build_ranks(read(tmp_path, exchange(0, 100), exchange(1, 500)))
    waits = [piece.awaits for piece in programs[0].pieces if piece.awaits]
    assert waits == [(0,), (1,)]  # both where the program has asked for both
    for rank in play_ranks(programs).ranks:
        assert rank.step_seconds == pytest.approx((1000 * MICRO,), abs=50 * MICRO)


def test_messages_of_one_way_that_are_under_way_together_take_their_time_once(tmp_path: Path):
    recordings = []
    for rank in range(2):
        recording = Recording(rank, world_size=2)
        recording.step(1, 0, 1000)
        for place in range(3):
            name = "send" if rank == 0 else "recv"
            recording.operator(f"c10d::{name}{'' if rank == 0 else '_'}", 20 * place, 10)
            recording.mark(f"gloo:{name}", 20 * place + 5, 595 - 10 * place, thread=1)
        recording.operator("aten::add", 620, 380)
        recordings.append(recording)
    assert play_ranks(build_ranks(read(tmp_path, *recordings))).step_seconds == pytest.approx(
        (1000 * MICRO,), abs=15 * MICRO
    )


def test_an_operator_that_waits_within_another_is_waiting_not_work(tmp_path: Path):
    recordings = []
    for rank in range(2):
        recording = Recording(rank, world_size=2)
        recording.step(1, 0, 1000)
        recording.operator("aten::mm", 0, 100)
        recording.operator("c10d::allreduce_", 110, 15)
        recording.mark("gloo:all_reduce", 120, 480, thread=2)
        recording.operator("aten::add", 200, 800)
        recording.operator("_c10d_functional::wait_tensor", 210, 400)
        recordings.append(recording)
    programs = build_ranks(read(tmp_path, *recordings))
    assert play_ranks(programs).step_seconds == pytest.approx((1000 * MICRO,))
    quick = [program.with_work_seconds([180 * MICRO]) for program in programs]
    assert play_ranks(quick).step_seconds == pytest.approx((700 * MICRO,))
