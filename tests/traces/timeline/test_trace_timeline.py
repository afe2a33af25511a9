"""A recording that runs again takes as long as it did, and changes propagate as they must."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.errors import TraceError
from perfcast.simulate.critical_path import critical_path
from perfcast.traces.timeline.calls import CallKind, call_kind, is_operator
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import Overhead, RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.repeat import play_steadily, repeat_program
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def program_of(recording: Recording, folder: Path) -> RankProgram:
    return build_ranks([recording.read(folder)])[0]


def microseconds(program: RankProgram, overhead: Overhead) -> list[float]:
    return [round(p.seconds / MICRO, 3) for p in program.pieces if p.overhead is overhead]


def test_the_five_overheads_of_a_hand_made_step(tmp_path: Path):
    program = program_of(two_kernels(), tmp_path)
    assert microseconds(program, Overhead.BETWEEN) == [0.0, 10.0, 10.0, 10.0]
    assert microseconds(program, Overhead.BEFORE) == [5.0, 10.0]
    assert microseconds(program, Overhead.INSIDE) == [5.0]
    assert microseconds(program, Overhead.AFTER) == [10.0, 25.0]


def test_waiting_is_no_part_of_a_call(tmp_path: Path):
    program = program_of(two_kernels(), tmp_path)
    # Two launches of 5 µs; of the 5 µs in the wait, 2 passed until the kernel had ended at 62.
    assert microseconds(program, Overhead.CALL) == [5.0, 5.0, 3.0]
    assert program.pieces[-3].awaits == (1,)


def test_a_recorded_step_runs_again_to_the_microsecond(tmp_path: Path):
    timeline = play_ranks([program_of(two_kernels(), tmp_path)])
    assert timeline.step_seconds == pytest.approx([100 * MICRO])
    assert timeline.ranks[0].work_ends == pytest.approx([42 * MICRO, 62 * MICRO])


def test_a_longer_kernel_keeps_the_waiting_host(tmp_path: Path):
    program = program_of(two_kernels(), tmp_path)
    longer = program.with_work_seconds([50 * MICRO, 20 * MICRO])
    # The kernels now end at 72 and 92; the wait returns at 95, 25 µs and 10 µs follow.
    assert play_ranks([longer]).step_seconds == pytest.approx([130 * MICRO])


def test_a_shorter_kernel_leaves_the_host_as_it_was(tmp_path: Path):
    program = program_of(two_kernels(), tmp_path)
    shorter = program.with_work_seconds([1 * MICRO, 1 * MICRO])
    # Both end before the wait begins at 60; 3 µs of the call, 25 and 10 follow.
    assert play_ranks([shorter]).step_seconds == pytest.approx([98 * MICRO])


def two_ranks(folder: Path) -> list[RankProgram]:
    """Rank 0 is at its collective at 30, rank 1 at 50; both end at 60."""
    traces = []
    for rank, start in ((0, 20), (1, 40)):
        recording = Recording(rank, 2)
        recording.step(1, 0, 80)
        recording.operator("c10d::allreduce_", start, 15)
        recording.call("cudaLaunchKernel", start + 5, 5, 1)
        recording.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", start + 10, 50 - start, 1, stream=20)
        recording.operator("aten::item", 62, 10)
        traces.append(recording.read(folder))
    return list(build_ranks(traces))


def test_a_collective_starts_when_its_last_member_comes_and_takes_the_shortest_time(tmp_path: Path):
    programs = two_ranks(tmp_path)
    timeline = play_ranks(programs)
    assert [p.works[0].collective for p in programs] == ["stream 0 0"] * 2
    assert [r.work_ends[0] for r in timeline.ranks] == pytest.approx([60 * MICRO] * 2)
    assert timeline.ranks[0].communication_wait_seconds == pytest.approx(20 * MICRO)
    assert timeline.ranks[1].communication_wait_seconds == pytest.approx(0.0)


def test_a_late_rank_holds_up_the_others(tmp_path: Path):
    first, second = two_ranks(tmp_path)
    late = replace(second, offset_seconds=second.offset_seconds + 100 * MICRO)
    timeline = play_ranks([first, late])
    assert timeline.ranks[0].work_ends[0] == pytest.approx(160 * MICRO)


def test_a_rank_alone_keeps_its_collective_as_recorded(tmp_path: Path):
    alone = two_ranks(tmp_path)[0]
    assert play_ranks([alone]).ranks[0].work_ends[0] == pytest.approx(60 * MICRO)


def test_a_stream_waits_for_the_collective_before_it_goes_on(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("c10d::allreduce_", 0, 10)
    recording.call("cudaLaunchKernel", 2, 5, 1)
    recording.kernel("ncclKernel_AllReduce", 10, 40, 1, stream=20)
    recording.call("cudaStreamWaitEvent", 15, 1, 2)
    recording.operator("aten::add", 20, 10)
    recording.call("cudaLaunchKernel", 22, 5, 3)
    recording.kernel("add_kernel", 51, 5, 3, stream=7)
    program = program_of(recording, tmp_path)
    waiting = next(work for work in program.works if work.name == "add_kernel")
    assert [program.works[w].name for w in waiting.awaits] == ["ncclKernel_AllReduce"]


def test_a_wait_that_the_clock_contradicts_is_not_invented(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("c10d::allreduce_", 0, 10)
    recording.call("cudaLaunchKernel", 2, 5, 1)
    recording.kernel("ncclKernel_AllReduce", 10, 40, 1, stream=20)
    recording.call("cudaStreamWaitEvent", 15, 1, 2)
    recording.operator("aten::add", 20, 10)
    recording.call("cudaLaunchKernel", 22, 5, 3)
    recording.kernel("add_kernel", 30, 5, 3, stream=7)
    program = program_of(recording, tmp_path)
    assert next(work for work in program.works if work.name == "add_kernel").awaits == ()


def test_a_backward_thread_that_takes_turns_is_one_chain_with_the_forward_one(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::mm", 10, 20, thread=1)
    recording.operator("autograd::engine::evaluate_function: MmBackward0", 40, 20, thread=2)
    recording.operator("aten::add_", 70, 10, thread=1)
    program = program_of(recording, tmp_path)
    assert len(program.chains) == 1
    assert play_ranks([program]).step_seconds == pytest.approx([100 * MICRO])


def test_threads_that_run_at_once_are_two_chains(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::mm", 10, 50, thread=1)
    recording.operator("aten::mul", 65, 5, thread=1)
    recording.operator("aten::index", 20, 50, thread=2)
    program = program_of(recording, tmp_path)
    assert len(program.chains) == 2
    assert play_ranks([program]).step_seconds == pytest.approx([100 * MICRO])


def test_a_recording_without_operators_is_refused(tmp_path: Path):
    recording = Recording()
    recording.mark("nothing", 0, 10)
    with pytest.raises(TraceError, match="nothing runs on the host"):
        build_ranks([recording.read(tmp_path)])


def test_chosen_steps_start_together_where_they_did(tmp_path: Path):
    traces = []
    for rank, late in ((0, 0), (1, 30)):
        recording = Recording(rank, 2)
        for number in (1, 2):
            recording.step(number, 100 * number + late * (number - 1), 90)
            recording.operator("aten::mm", 100 * number + late * (number - 1) + 5, 20)
        traces.append(recording.read(tmp_path))
    first, second = build_ranks(traces, [2])
    assert (first.offset_seconds, second.offset_seconds) == pytest.approx((0.0, 30 * MICRO))
    with pytest.raises(TraceError, match="step 7 is not marked; marked steps: 1:2"):
        build_ranks(traces, [7])


def test_steady_steps_of_a_host_that_runs_ahead_are_the_devices(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 40)
    for index in range(4):
        recording.operator("aten::mm", 10 * index, 8)
        recording.call("cudaLaunchKernel", 10 * index + 1, 5, index + 1)
        recording.kernel("gemm", 100 * index + 5, 100, index + 1)
    program = program_of(recording, tmp_path)
    # The first step is as recorded; a queue of two works lets the host be two kernels ahead in the long run.
    assert play_ranks([program]).step_seconds == pytest.approx([40 * MICRO])
    short = replace(program, queue_length=2)
    assert play_steadily([short]) == pytest.approx([400 * MICRO], rel=0.01)


def test_a_repeated_program_is_as_many_steps(tmp_path: Path):
    program = program_of(two_kernels(), tmp_path)
    timeline = play_ranks([repeat_program(program, 3)])
    assert timeline.step_seconds == pytest.approx([100 * MICRO] * 3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernelExC", CallKind.LAUNCH),
        ("hipExtModuleLaunchKernel", CallKind.LAUNCH),
        ("cudaMemcpyAsync", CallKind.LAUNCH),
        ("cudaStreamSynchronize", CallKind.WAIT_STREAM),
        ("hipDeviceSynchronize", CallKind.WAIT_DEVICE),
        ("cudaEventSynchronize", CallKind.WAIT_EVENT),
        ("cudaStreamWaitEvent", CallKind.ORDER),
        ("cudaEventRecordWithFlags", CallKind.RECORD),
        ("cudaEventQuery", CallKind.OTHER),
    ],
)
def test_calls_are_known_by_name(name: str, kind: CallKind):
    assert call_kind(name) is kind


def test_marked_ranges_among_operators_are_none():
    assert is_operator("aten::mm")
    assert is_operator("autograd::engine::evaluate_function: MmBackward0")
    assert not is_operator("## forward ##")
    assert not is_operator("Optimizer.step#SGD.step")


operators = st.lists(
    st.tuples(
        st.integers(0, 20), st.integers(2, 30), st.integers(0, 60), st.booleans()
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(operators)
def test_any_recorded_program_runs_again_as_it_did(tmp_path_factory: pytest.TempPathFactory, drawn):
    recording, now, free = Recording(), 0, 0
    for index, (gap, host, device, waits) in enumerate(drawn):
        start = now + gap
        end = start + host
        launched = start + host // 2
        begin = max(launched + 1, free)
        free = begin + device
        recording.call("cudaLaunchKernel", launched, 1, 2 * index + 1)
        recording.kernel("gemm", begin, device, 2 * index + 1)
        if waits:
            end = max(end, free + 2)
            recording.call("cudaStreamSynchronize", launched + 1, end - launched - 1, 2 * index + 2)
        recording.operator("aten::mm", start, end - start)
        now = end
    recording.step(1, 0, now + 5)
    program = program_of(recording, tmp_path_factory.mktemp("drawn"))
    timeline = play_ranks([program])
    assert timeline.step_seconds == pytest.approx([(now + 5) * MICRO], abs=1e-9)
    path = critical_path(timeline.program, timeline.played)
    on_path = sum(timeline.program.seconds[task] for task in path)
    assert on_path <= timeline.played.makespan_seconds * (1 + 1e-9)


def test_ranks_late_in_turns_take_as_long_in_the_long_run_as_each_of_them(tmp_path: Path):
    """Both wait for a sum of 20 µs in each step; then rank 1 works in the first, rank 0 in the second."""
    traces = []
    for rank, spans in ((0, [(0, 40), (40, 280)]), (1, [(0, 140), (140, 180)])):
        recording = Recording(rank, 2)
        for number, ((start, end), summed) in enumerate(zip(spans, (25, 165), strict=True)):
            recording.step(number + 1, start, end - start)
            recording.operator("c10d::allreduce_", start, 5)
            recording.call("cudaLaunchKernel", start + 1, 2, 2 * number + 1)
            begun = max(start + 5, 5)
            recording.kernel("ncclKernel_AllReduce_RING_LL_Sum_float", begun, summed - begun, 2 * number + 1)
            recording.call("cudaStreamSynchronize", start + 6, summed - start - 6, 2 * number + 2)
            recording.operator("aten::mm", summed, end - summed)
        traces.append(recording.read(tmp_path))
    steps = play_steadily(build_ranks(traces))
    assert sum(steps) == pytest.approx(280 * MICRO, rel=0.02)
