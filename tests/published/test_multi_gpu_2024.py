import pytest

from made_up_sharding import problem, random_tables, table
from perfcast.errors import InputError
from perfcast.published.multi_gpu_2024.compare import dropped_seconds
from perfcast.published.multi_gpu_2024.iteration import (
    choose_sharder,
    geometric_mean_error,
    predict_iteration,
)
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.traces.overheads.profile import apply_overheads, fit_overheads
from perfcast.traces.timeline.program import DeviceWork, HostPiece, Overhead, RankProgram, StepSpan

MICRO = 1e-6
BETWEEN, BEFORE, CALL, AFTER = Overhead.BETWEEN, Overhead.BEFORE, Overhead.CALL, Overhead.AFTER


def recorded(rank: int, lookup_seconds: float, gaps: tuple[float, ...] = (10e-6, 10e-6)) -> RankProgram:
    """Two operators: one launches a lookup, the other an all-to-all on a second stream."""
    pieces = (
        HostPiece(0, BETWEEN, ("step", "lookup"), gaps[0]),
        HostPiece(0, BEFORE, ("lookup",), 20 * MICRO),
        HostPiece(0, CALL, ("cudaLaunchKernel",), 9 * MICRO, launches=(0,)),
        HostPiece(0, AFTER, ("lookup",), 5 * MICRO),
        HostPiece(0, BETWEEN, ("lookup", "collective"), gaps[1]),
        HostPiece(0, BEFORE, ("collective",), 15 * MICRO),
        HostPiece(0, CALL, ("cudaLaunchKernel",), 7 * MICRO, launches=(1,)),
        HostPiece(0, AFTER, ("collective",), 5 * MICRO),
    )
    works = (
        DeviceWork(0, "lookup", 0, lookup_seconds),
        DeviceWork(1, "nccl", 1, 30 * MICRO, awaits=(0,), collective="first"),
    )
    return RankProgram(rank, 0.0, pieces, works, ("main",), ("7", "84"), (StepSpan(0, 0, 7, 1.0),))


def test_a_step_of_two_ranks_is_the_one_worked_out_by_hand():
    # Host: 10 + 20, then the call at 30 µs. A launch is 4 µs, so the lookup runs 34 … 134 and 34 … 234 µs.
    # The collective starts with its last member, 1 µs after the later lookup: 235 … 265 µs on both.
    found = predict_iteration([recorded(0, 100 * MICRO), recorded(1, 200 * MICRO)])
    assert found.step_seconds == pytest.approx(265 * MICRO)
    assert found.kernel_seconds == pytest.approx(200 * MICRO)
    assert found.active_seconds == pytest.approx(230 * MICRO)
    assert found.exposed_communication_fraction == pytest.approx(30 / 265)


def test_modelled_kernels_take_five_microseconds_more_each():
    ranks = [recorded(0, 100 * MICRO), recorded(1, 200 * MICRO)]
    times = [[40 * MICRO, 30 * MICRO], [40 * MICRO, 30 * MICRO]]
    # 34 + 45 = 79, the collective's call at 10 + 20 + 4 + 5 + 10 + 15 = 64 and 4: it waits for the lookup.
    assert predict_iteration(ranks, kernel_seconds=times).step_seconds == pytest.approx((79 + 1 + 35) * MICRO)


def test_the_tail_of_gaps_is_dropped_so_that_steps_come_out_too_short():
    usual = [recorded(rank, MICRO) for rank in range(6)]
    slow = recorded(6, MICRO, gaps=(10 * MICRO, 900 * MICRO))
    with_tail = predict_iteration([slow], overheads_of=[*usual, slow]).step_seconds
    assert with_tail == pytest.approx(predict_iteration(usual).step_seconds)
    assert with_tail < 200 * MICRO
    # Seven gaps of 10 µs before the lookup; before the collective six, and one of 900.
    recorded_seconds, trimmed = dropped_seconds([*usual, slow], [*usual, slow])[BETWEEN]
    assert recorded_seconds == pytest.approx((13 * 10 + 900) / 7 * MICRO)
    assert trimmed == pytest.approx(20 * MICRO)


def test_means_that_keep_their_sum_keep_the_sum_of_host_times_where_the_trimmed_drop_it():
    ranks = [recorded(rank, MICRO, gaps=(10 * MICRO, (10 + 190 * (rank == 6)) * MICRO)) for rank in range(7)]
    kept = apply_overheads(fit_overheads(ranks), ranks[0])
    assert 7 * sum(piece.seconds for piece in kept.pieces) == pytest.approx(
        sum(piece.seconds for rank in ranks for piece in rank.pieces)
    )
    trimmed = predict_iteration(ranks).step_seconds
    assert predict_iteration(ranks, fit=fit_overheads).step_seconds > trimmed + 20 * MICRO


def test_launches_take_the_published_four_microseconds():
    # 10 - 2 - 4: the host ends at 2 · 10 + 20 + 15 + 2 · 5 + 2 · 4 µs, whatever the recorded calls took.
    short = [recorded(0, MICRO)]
    times = [[-5 * MICRO, -5 * MICRO]]
    assert predict_iteration(short, kernel_seconds=times).step_seconds == pytest.approx(73 * MICRO)


def test_the_rule_with_the_least_forecast_is_named_and_never_beats_the_search():
    task = problem(random_tables(26, 0), num_ranks=2)
    name, steps = choose_sharder(task)
    assert len(steps) == 6
    assert steps[name] == min(steps.values())
    assert choose_sharding(task).time.step_seconds <= steps[name]


def test_no_rule_that_fits_is_said():
    with pytest.raises(InputError, match="no published rule"):
        choose_sharder(problem((table("a"),), memory_bytes=1000))


def test_an_exact_forecast_does_not_make_the_geometric_mean_zero():
    assert geometric_mean_error([1.0], [1.0]) == pytest.approx(4e-4)
    assert geometric_mean_error([1.1, 0.6], [1.0, 1.0]) == pytest.approx((0.1004 * 0.4004) ** 0.5)
