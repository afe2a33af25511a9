from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_collectives import ProgramWriter
from perfcast.errors import TraceError
from perfcast.replays.communication.agreement import disagreement, parts_of
from perfcast.replays.communication.shapes import shape_of
from perfcast.replays.program.program import ReplayProgram, slots_in
from perfcast.replays.scale.world import scaled, scaled_ranks, splits_sent, with_splits
from perfcast.traces.events import ProcessGroup


def gathering(world_size: int = 2) -> ReplayProgram:
    """An all-gather, a reduce-scatter and an all-reduce of parts of 6 elements."""
    writer = ProgramWriter(world_size)
    part, whole = writer.tensor(2, 3), writer.tensor(world_size * 2, 3)
    writer.collective("_allgather_base", [whole], [part])
    writer.collective("_reduce_scatter_base", [part], [whole])
    writer.collective("allreduce", [part])
    return writer.program()


def exchanging(sent: tuple[int, ...], rank: int = 0, received: tuple[int, ...] = ()) -> ReplayProgram:
    received = received or sent
    writer = ProgramWriter(len(sent), rank)
    into, source = writer.tensor(sum(received)), writer.tensor(sum(sent))
    writer.collective("all_to_allv", [into], [source], received_splits=received, sent_splits=sent)
    return writer.program()


def sizes(program: ReplayProgram) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    shapes = [shape_of(program, call) for call in program.calls]
    return [(shape.received, shape.sent) for shape in shapes]


def test_an_all_gather_receives_and_a_reduce_scatter_sends_a_part_of_each_rank():
    program = scaled(gathering(), 5, 3)
    assert sizes(program) == [((30,), (6,)), ((6,), (30,)), ((6,), (6,))]
    assert (program.rank, program.world_size, program.groups[0].ranks) == (3, 5, (0, 1, 2, 3, 4))


def test_given_memory_grows_with_the_tensor():
    program = scaled(gathering(), 4, 0)
    assert program.buffers[1].num_bytes == 4 * 24
    assert len(program.buffers) == 2


def test_memory_that_an_operator_makes_is_left_as_it_is():
    writer = ProgramWriter()
    part, whole = writer.tensor(6), writer.tensor(12, maker=0)
    writer.operator("aten::empty", outputs=(whole,))
    writer.collective("_allgather_base", [whole], [part])
    larger, smaller = (scaled(writer.program(), size, 0) for size in (4, 1))
    assert larger.buffers[1].num_bytes == 48
    (slot,) = slots_in((larger.calls[1].arguments[0],))
    assert larger.buffers[larger.slots[slot].buffer].num_bytes == 4 * 24
    (slot,) = slots_in((smaller.calls[1].arguments[0],))
    assert (smaller.slots[slot].buffer, smaller.slots[slot].shape) == (1, (6,))


def test_splits_of_fewer_ranks_are_the_first_and_those_of_more_repeat():
    program = exchanging((96, 224, 288, 1664))
    fewer, more = scaled(program, 2, 0), scaled(program, 6, 0)
    assert shape_of(fewer, fewer.calls[0]).sent_splits == (96, 224)
    assert shape_of(fewer, fewer.calls[0]).sent == (320,)
    assert shape_of(more, more.calls[0]).sent_splits == (96, 224, 288, 1664, 96, 224)


def test_even_all_to_alls_keep_the_part_for_each_partner():
    writer = ProgramWriter(2)
    one, two = writer.tensor(4, 3), writer.tensor(4, 3)
    writer.collective("all_to_all", [one], [two])
    assert sizes(scaled(writer.program(), 4, 0)) == [((24,), (24,))]


def test_lists_get_one_tensor_for_each_rank():
    writer = ProgramWriter(2)
    part, parts = writer.tensor(5), [writer.tensor(5), writer.tensor(5)]
    writer.collective("all_gather", parts, [part])
    assert sizes(scaled(writer.program(), 3, 0)) == [((5, 5, 5), (5,))]
    assert sizes(scaled(writer.program(), 1, 0)) == [((5,), (5,))]


@pytest.mark.parametrize(
    ("ranks", "before", "after", "rank", "expected"),
    [
        ((0, 1, 2, 3), 4, 8, 5, (0, 1, 2, 3, 4, 5, 6, 7)),  # all stay all
        ((0, 1), 4, 8, 5, (4, 5)),  # tensor parallel: neighbours
        ((0, 2), 4, 8, 5, (5, 7)),  # data parallel: every second
        ((1, 3), 4, 2, 1, (1,)),  # its partner is gone
        ((0,), 4, 4, 3, (3,)),  # a group of its own, played by another
        ((0, 1, 3), 4, 3, 0, (0, 1)),  # no axis: those that are there
    ],
)
def test_groups_are_axes_of_a_mesh(
    ranks: tuple[int, ...], before: int, after: int, rank: int, expected: tuple[int, ...]
):
    assert scaled_ranks(ranks, before, after, rank) == expected


def test_a_group_within_the_world_keeps_its_size():
    writer = ProgramWriter(4)
    writer.groups.append(ProcessGroup("tensor", "", "", (0, 1)))
    part, whole = writer.tensor(6), writer.tensor(12)
    writer.collective("_allgather_base", [whole], [part], group="tensor")
    program = scaled(writer.program(), 8, 6)
    assert sizes(program) == [((12,), (6,))]
    assert program.calls[0].collective is not None
    assert program.calls[0].collective.ranks == (6, 7)


def test_an_impossible_rank_is_told():
    with pytest.raises(TraceError, match="rank 4 of 2 ranks"):
        scaled(gathering(), 2, 4)


@settings(max_examples=30, deadline=None)
@given(
    splits=st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(lambda one: sum(one) > 0),
    more=st.integers(0, 6),
)
def test_there_and_back_is_where_it_was(splits: list[int], more: int):
    program = exchanging(tuple(splits))
    away = scaled(program, len(splits) + more, 0)
    back = scaled(away, len(splits), 0)
    assert sizes(back) == sizes(program)
    assert shape_of(back, back.calls[0]).sent_splits in (tuple(splits), ())
    gathered = gathering(len(splits))
    assert sizes(scaled(scaled(gathered, len(splits) + more, 0), len(splits), 0)) == sizes(gathered)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_sharing_evenly_conserves_what_all_send(data: st.DataObject):
    size = data.draw(st.integers(2, 5))
    parts = st.lists(st.integers(1, 99), min_size=size, max_size=size).map(tuple)
    programs = [exchanging(data.draw(parts), rank) for rank in range(size)]
    sent = {rank: splits_sent(program) for rank, program in enumerate(programs)}
    shared = [with_splits(program, sent, is_rebalanced=True) for program in programs]
    before = sum(sum(shape_of(p, p.calls[0]).sent) for p in programs)
    after = sum(sum(shape_of(p, p.calls[0]).sent) for p in shared)
    assert before <= after < before + size**2
    assert len({sizes(program)[0] for program in shared}) == 1
    assert disagreement([parts_of(program) for program in shared]) == ""


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_one_trace_for_several_ranks_is_made_to_fit_together(data: st.DataObject):
    size = data.draw(st.integers(2, 4))
    parts = st.lists(st.integers(1, 99), min_size=size, max_size=size).map(tuple)
    recorded = exchanging(data.draw(parts), 0, data.draw(parts))
    programs = [scaled(recorded, size, rank) for rank in range(size)]
    sent = {rank: splits_sent(program) for rank, program in enumerate(programs)}
    fitted = [with_splits(program, sent) for program in programs]
    assert disagreement([parts_of(program) for program in fitted]) == ""
    for program in fitted:
        for slot in program.slots:
            end = slot.offset_elements + prod(slot.shape)
            assert 4 * end <= program.buffers[slot.buffer].num_bytes
