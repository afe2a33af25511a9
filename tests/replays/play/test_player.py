"""A program is played as written: tensors arrive, windows are taken, memory is freed, gaps last."""

from dataclasses import replace

import pytest
import torch
from tests.small_replays import MATRIX_PRODUCT, call, small_program, with_call

from perfcast.errors import TraceError
from perfcast.replays.judge.profiling import profile_memory
from perfcast.replays.play.played import Preparation
from perfcast.replays.play.player import Player
from perfcast.replays.program.program import NONE, Fill, Filling, SlotUse

BOTH = [Preparation.AHEAD, Preparation.LAZILY]


@pytest.mark.parametrize("preparation", BOTH)
def test_every_call_runs_and_no_tensor_is_replaced(preparation: Preparation) -> None:
    player = Player(small_program(), preparation=preparation)
    found = player.rehearse()
    assert found.failures == {}
    assert found.replaced == {}
    steps = player.run(4, warm_up=1)
    assert len(steps.wall_seconds) == len(steps.processor_seconds) == 4
    assert all(seconds > 0 for seconds in steps.processor_seconds)


def test_a_window_shows_what_the_call_before_wrote() -> None:
    player = Player(small_program(), preparation=Preparation.AHEAD)
    player.rehearse()
    seen = {}
    entry = player._layout.entries[1]
    function = entry.function

    def spy(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        seen["first"] = first.clone()
        return function(first, second)

    entry.function = spy
    product = player._memory.tensor(0) @ player._memory.tensor(1)
    player.set_gaps(())
    player.play()
    torch.testing.assert_close(seen["first"], product[:2])


@pytest.mark.parametrize("preparation", BOTH)
def test_a_call_that_fails_is_named_and_left_out(preparation: Preparation) -> None:
    broken = call("aten::mm", MATRIX_PRODUCT, (SlotUse(4), SlotUse(4)), (NONE,), node_id=8)
    program = with_call(small_program(), broken)
    buffers = list(program.buffers)
    buffers[3] = replace(buffers[3], last_call=3)
    player = Player(replace(program, buffers=tuple(buffers)), preparation=preparation)
    assert "cannot be multiplied" in player.rehearse().failures[3]
    assert len(player.run(2, warm_up=0).wall_seconds) == 2


def test_a_result_of_another_shape_is_replaced_by_one_as_recorded() -> None:
    program = small_program()
    slots = list(program.slots)
    slots[4] = replace(slots[4], shape=(3, 4))
    player = Player(replace(program, slots=tuple(slots)))
    found = player.rehearse()
    assert "recorded was (3, 4)" in found.replaced[4]
    assert found.failures == {}


def test_a_program_of_which_nothing_runs_is_an_error() -> None:
    program = small_program()
    only = call("aten::mm", MATRIX_PRODUCT, (SlotUse(5), SlotUse(5)), ())
    with pytest.raises(TraceError, match="no call can run here"):
        Player(replace(program, calls=(only,) * 3)).rehearse()


def test_gaps_keep_the_processor_busy() -> None:
    player = Player(small_program())
    player.rehearse()
    player.set_gaps([0.002, 0.0, 0.001])
    assert min(player.run(3).wall_seconds) >= 0.003


def test_made_tensors_are_freed_after_their_last_use() -> None:
    player = Player(small_program(), preparation=Preparation.AHEAD)
    player.rehearse()
    player.run(1)
    assert profile_memory(player.play) <= 64 + 32 + 64 * 3  # the allocator counts whole cache lines at most
    assert all(
        container[key] is None
        for entry in player._layout.entries
        for (container, key), slot in entry.spots
        if player.program.slots[slot].maker != NONE
    )


def test_calls_that_autograd_noted_make_graph_nodes() -> None:
    program = small_program()
    written = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    update = call("aten::add_", written, (SlotUse(0), SlotUse(1), 1), overload="Tensor", node_id=9)
    calls = (replace(program.calls[0], is_differentiated=True), *program.calls[1:], update)
    player = Player(replace(program, calls=calls), preparation=Preparation.AHEAD)
    assert player.rehearse().failures == {}
    seen = []
    entry = player._layout.entries[0]
    function = entry.function
    entry.function = lambda *tensors: seen.append(function(*tensors)) or seen[-1]
    player.set_gaps(())
    player.play()
    assert seen[0].requires_grad
    assert torch.is_grad_enabled()


def test_whole_numbers_that_calls_change_begin_anew() -> None:
    program = small_program()
    add = "aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"
    player = Player(with_call(program, call("aten::add_", add, (SlotUse(5), 1, 1), overload="Scalar")))
    player.rehearse()
    assert len(player.run(8, warm_up=0).wall_seconds) == 8  # rows beyond the table would fail


def test_a_device_that_is_not_there_is_an_error() -> None:
    program = small_program()
    buffers = tuple(replace(buffer, device="xpu:7") for buffer in program.buffers)
    with pytest.raises(TraceError, match="cannot allocate"):
        Player(replace(program, buffers=buffers), preparation=Preparation.AHEAD).rehearse()


def test_equal_seeds_fill_equally() -> None:
    tensors = []
    for _ in range(2):
        player = Player(small_program(), preparation=Preparation.AHEAD, seed=3)
        player.rehearse()
        tensors.append(player._memory.tensor(0).clone())
    assert torch.equal(*tensors)


def test_given_bounds_are_kept() -> None:
    program = small_program()
    slots = list(program.slots)
    slots[5] = replace(slots[5], filling=Filling(Fill.UNIFORM, 1, 1))
    player = Player(replace(program, slots=tuple(slots)), preparation=Preparation.AHEAD)
    player.rehearse()
    assert player._memory.tensor(5).tolist() == [1, 1]


def test_a_budget_of_time_ends_a_run_after_a_few_repetitions() -> None:
    steps = Player(small_program()).run(50, warm_up=0, max_seconds=0.0)
    assert len(steps.wall_seconds) == 5
    assert not steps.is_interrupted


def test_a_repetition_that_is_a_good_part_of_the_time_is_measured_once_without_warm_up():
    steps = Player(small_program()).run(50, warm_up=3, max_seconds=1e-9)
    assert len(steps.wall_seconds) == 1
