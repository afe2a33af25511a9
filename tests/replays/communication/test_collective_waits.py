from __future__ import annotations

from made_up_collectives import ProgramWriter
from perfcast.replays.communication.waits import place_waits
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.traces.events import NONE


def waits(program: ReplayProgram) -> dict[int, int]:
    """Index of each wait → index of its collective."""
    return {i: call.waits_for for i, call in enumerate(program.calls) if call.kind is CallKind.WAIT}


def test_a_wait_stands_before_the_first_call_that_touches_what_is_received():
    writer = ProgramWriter()
    bucket, other = writer.tensor(8), writer.tensor(8)
    writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.operator("aten::relu", other)
    writer.operator("aten::copy_", other, bucket)
    placed = place_waits(writer.program())
    assert waits(placed) == {2: 0}
    assert [call.operator for call in placed.calls] == ["c10d::any", "aten::relu", "wait", "aten::copy_"]
    assert placed.calls[2].node_id == NONE


def test_reading_what_is_sent_does_not_wait_but_writing_into_it_does():
    writer = ProgramWriter()
    received, sent = writer.tensor(8), writer.tensor(8)
    writer.collective("all_to_all", [received], [sent], is_asynchronous=True)
    writer.operator("aten::relu", sent)
    writer.operator("aten::zero_", sent)
    assert waits(place_waits(writer.program())) == {2: 0}


def test_what_nobody_needs_is_waited_for_where_the_step_ends():
    writer = ProgramWriter()
    bucket, other = writer.tensor(8), writer.tensor(8)
    writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.operator("aten::relu", other)
    writer.operator("aten::relu", other, step=1)
    writer.collective("allreduce", [bucket], is_asynchronous=True, step=1)
    placed = place_waits(writer.program())
    assert waits(placed) == {2: 0, 5: 4}
    assert [call.step for call in placed.calls] == [0, 0, 0, 1, 1, 1]


def test_recorded_waits_and_blocking_collectives_get_no_other():
    writer = ProgramWriter()
    bucket = writer.tensor(8)
    first = writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.wait(first)
    writer.collective("allreduce", [bucket])
    program = writer.program()
    assert place_waits(program).calls == program.calls


def test_makers_lives_and_earlier_waits_are_renumbered():
    writer = ProgramWriter()
    bucket = writer.tensor(8)
    made = writer.tensor(8, maker=2)
    first = writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.operator("aten::relu", bucket)
    writer.operator("aten::relu", bucket, outputs=(made,))
    second = writer.collective("allreduce", [made], is_asynchronous=True)
    writer.wait(second)
    placed = place_waits(writer.program())
    assert waits(placed) == {1: first, 5: 4}
    assert placed.slots[made].maker == 3
    assert placed.buffers[1].maker == 3
    assert placed.buffers[0].last_call == 5


def test_memory_lives_until_its_collective_is_waited_for():
    writer = ProgramWriter()
    bucket, other = writer.tensor(8), writer.tensor(8)
    writer.collective("allreduce", [bucket], is_asynchronous=True)
    writer.operator("aten::relu", other)
    program = writer.program()
    short = [buffer.__class__(32, "cpu", NONE, 0, 0) for buffer in program.buffers]
    placed = place_waits(ReplayProgram(program.calls, program.slots, tuple(short), program.groups, (), 0, 2))
    assert [buffer.last_call for buffer in placed.buffers] == [2, 0]


def test_splits_tell_how_many_ranks_there_were():
    writer = ProgramWriter(world_size=1)
    one, two = writer.tensor(8), writer.tensor(8)
    writer.groups.clear()
    writer.collective(
        "all_to_allv", [one], [two], received_splits=(2,) * 4, sent_splits=(2,) * 4, group="94594108284448"
    )
    assert place_waits(writer.program()).world_size == 4
