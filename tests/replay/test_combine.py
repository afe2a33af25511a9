from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_replays import two_layers
from perfcast.errors import InputError
from perfcast.replay.program.combine import concatenate, take_calls, take_steps
from perfcast.replay.program.program import CallKind, slots_in
from perfcast.traces.events import NONE, Collective, ProcessGroup

CALLS_PER_STEP = 7


@settings(max_examples=20, deadline=None)
@given(batches=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_concatenated_programs_have_all_calls_and_the_largest_peak(batches):
    programs = [two_layers(batch) for batch in batches]
    joined = concatenate(programs)
    assert len(joined.calls) == CALLS_PER_STEP * len(batches)
    assert joined.num_steps == len(batches)
    assert joined.peak_bytes == max(program.peak_bytes for program in programs)


@settings(max_examples=20, deadline=None)
@given(num_steps=st.integers(1, 4), first=st.integers(0, 3), last=st.integers(0, 3))
def test_steps_taken_have_the_calls_of_these_steps_and_renumbered_slots(num_steps, first, last):
    program = two_layers(4, num_steps)
    if not first <= last < num_steps:
        with pytest.raises(InputError, match="has"):
            take_steps(program, first, last)
        return
    taken = take_steps(program, first, last)
    assert len(taken.calls) == CALLS_PER_STEP * (last - first + 1)
    assert {call.step for call in taken.calls} == set(range(last - first + 1))
    assert all(slot < len(taken.slots) for call in taken.calls for slot in slots_in(call.arguments))
    assert all(slot.buffer < len(taken.buffers) for slot in taken.slots)
    assert all(call.name == other.name for call, other in zip(taken.calls, program.calls, strict=False))


def test_the_only_program_stays_as_it_is():
    program = two_layers()
    assert concatenate([program]) is program


def test_steps_taken_apart_and_put_together_have_the_same_calls():
    program = two_layers(8, 2)
    joined = concatenate([take_steps(program, 0, 0), take_steps(program, 1, 1)])
    assert [call.name for call in joined.calls] == [call.name for call in program.calls]
    assert [call.step for call in joined.calls] == [call.step for call in program.calls]


def test_what_a_call_left_out_had_made_is_given():
    program = two_layers()
    taken = take_calls(program, range(3, CALLS_PER_STEP))  # from the activation on
    folded = taken.slots[next(slots_in(taken.calls[0].arguments))]
    assert folded.maker == NONE
    assert taken.buffers[folded.buffer].is_given
    assert folded.filling is not None
    assert "left out" in folded.filling.reason


def test_a_wait_without_its_collective_becomes_idle():
    program = two_layers()
    wait = replace(
        program.calls[0], kind=CallKind.WAIT, arguments=(), outputs=(), waits_for=0, gap_seconds=0.5
    )
    taken = take_calls(replace(program, calls=(*program.calls, wait)), range(1, CALLS_PER_STEP + 1))
    assert taken.calls[-1].kind is CallKind.IDLE
    assert taken.calls[-1].gap_seconds == 0.5


def with_collective(rank: int, ranks: tuple[int, ...]):
    program = two_layers()
    asked = Collective(1, "all_reduce", 4, 4, "float32", "0", len(ranks))
    call = replace(program.calls[-1], kind=CallKind.COLLECTIVE, collective=asked)
    return replace(
        program,
        calls=(*program.calls[:-1], call),
        groups=(ProcessGroup("0", "", "gloo", ranks),),
        rank=rank,
        world_size=4,
    )


def test_groups_of_one_name_with_other_ranks_get_names_of_their_own():
    joined = concatenate([with_collective(0, (0, 1)), with_collective(0, (0, 1, 2, 3))])
    assert [(group.name, group.ranks) for group in joined.groups] == [("0", (0, 1)), ("0.2", (0, 1, 2, 3))]
    asked = [call.collective.group for call in joined.calls if call.collective is not None]
    assert asked == ["0", "0.2"]


def test_programs_of_several_ranks_cannot_follow_each_other():
    with pytest.raises(InputError, match="rank 0 of 4, rank 1 of 4"):
        concatenate([with_collective(0, (0, 1)), with_collective(1, (0, 1))])
