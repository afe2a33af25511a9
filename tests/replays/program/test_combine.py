from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_replays import two_layers
from perfcast.errors import InputError
from perfcast.replays.program.combine import concatenate
from perfcast.replays.program.program import CallKind
from perfcast.traces.events import Collective, ProcessGroup

CALLS_PER_STEP = 7


@settings(max_examples=20, deadline=None)
@given(batches=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_concatenated_programs_have_all_calls_and_the_largest_peak(batches):
    programs = [two_layers(batch) for batch in batches]
    joined = concatenate(programs)
    assert len(joined.calls) == CALLS_PER_STEP * len(batches)
    assert joined.num_steps == len(batches)
    assert joined.peak_bytes == max(program.peak_bytes for program in programs)


def test_the_only_program_stays_as_it_is():
    program = two_layers()
    assert concatenate([program]) is program


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
