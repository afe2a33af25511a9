from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_replays import Script, two_layers
from perfcast.errors import InputError
from perfcast.replays.program.program import Fill, Filling, SlotUse
from perfcast.replays.scale.batch import scale_batch

WEIGHTS = (0, 1, 2)


@settings(max_examples=10, deadline=None)
@given(batch=st.integers(5, 12), times=st.integers(2, 4))
def test_a_scaled_program_is_the_program_of_that_batch(batch, times):
    scaled, direct = scale_batch(two_layers(batch), batch, batch * times), two_layers(batch * times)
    assert (scaled.calls, scaled.slots, scaled.buffers) == (direct.calls, direct.slots, direct.buffers)


@settings(max_examples=10, deadline=None)
@given(batch=st.integers(5, 12), times=st.integers(2, 4))
def test_there_and_back_is_the_program_itself(batch, times):
    program = two_layers(batch)
    back = scale_batch(scale_batch(program, batch, batch * times), batch * times, batch)
    assert (back.calls, back.slots, back.buffers) == (program.calls, program.slots, program.buffers)


def test_scaling_by_one_changes_nothing():
    program = two_layers()
    assert scale_batch(program, 8, 8) is program


def test_twice_the_batch_doubles_the_bytes_of_activations_and_leaves_weights():
    program = two_layers(8, 2)
    doubled = scale_batch(program, 8, 16)
    for index, (before, after) in enumerate(zip(program.buffers, doubled.buffers, strict=True)):
        is_fixed = index in WEIGHTS or before.num_bytes == 4  # the sum
        assert after.num_bytes == before.num_bytes * (1 if is_fixed else 2)
    assert doubled.selection["batch"] == "8 scaled to 16"


def test_an_operator_that_mixes_samples_is_named():
    script = Script()
    rows = script.given(6, 4)
    script.view("aten::view", rows, (8, 3), shape=(8, 3))
    with pytest.raises(InputError, match=r"cannot be changed from 6 to 12: aten::view \(node 1\)"):
        scale_batch(script.program(), 6, 12)


def test_sizes_that_would_not_be_whole_are_refused():
    script = Script()
    rows = script.given(8, 4)
    script.view("aten::view", rows, (4, 8), shape=(4, 8))
    with pytest.raises(InputError, match="cannot be changed from 8 to 3"):
        scale_batch(script.program(), 8, 3)


def test_an_argument_that_must_follow_is_found_by_turning_assumptions_round():
    script = Script()
    rows, square = script.given(6, 4), script.given(4, 6)
    script.call("aten::mm", SlotUse(square), SlotUse(rows), makes=(4, 4))
    scaled = scale_batch(script.program(), 6, 12)
    assert [scaled.slots[slot].shape for slot in (rows, square)] == [(12, 4), (4, 12)]


def test_a_batch_that_nothing_has_is_refused():
    with pytest.raises(InputError, match="nothing in 'made up' has 7 rows"):
        scale_batch(two_layers(8), 7, 14)


def test_an_impossible_batch_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        scale_batch(two_layers(), 8, 0)


def test_the_lookups_that_offsets_reach_grow_with_the_batch():
    script = Script()
    table = script.given(50, 4)
    rows = script.given(8, dtype="int64", filling=Filling(Fill.OFFSETS, 0, 40))
    script.call("aten::embedding", SlotUse(table), SlotUse(rows), -1, False, False, makes=(8, 4))
    filling = scale_batch(script.program(), 8, 16).slots[rows].filling
    assert filling is not None
    assert filling.high == 80
