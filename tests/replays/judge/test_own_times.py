"""Gaps: what the host did between calls, without the profiler's part and without the replay's own."""

import math

import pytest
from tests.small_replays import small_program

from perfcast.replays.build.call_times import CallTimes, median_times
from perfcast.replays.judge.own_times import own_times, relative_seconds, spins, spread
from perfcast.replays.play.player import Player

NAN = float("nan")


def test_the_replays_own_time_is_taken_off_the_gap() -> None:
    assert spins((5.0, 2.0), (1.0, 2.0)) == (4.0, 0.0)


def test_what_the_replay_takes_too_long_shortens_later_gaps() -> None:
    assert spins((1.0, 1.0, 9.0), (3.0, 2.0, 1.0)) == (0.0, 0.0, 5.0)


def test_a_known_total_is_spread_over_gaps_that_are_worth_a_spin() -> None:
    assert spread((1.0, 1e-9, 3.0), 8.0) == (2.0, 0.0, 6.0)
    assert spread((1.0,), -1.0) == spread((0.0,), 1.0) == (0.0,)


def test_unknown_gaps_are_none() -> None:
    assert spins((NAN, 2.0), (NAN, NAN)) == (0.0, 2.0)


def test_gaps_of_a_slower_host_are_shortened() -> None:
    assert spins((6.0,), (1.0,), relative=2.0) == (2.0,)


def test_the_longest_calls_tell_how_fast_a_host_is() -> None:
    assert relative_seconds((4.0, 9.0, 1.0), (2.0, 1.0, 1.0)) == 2.0
    assert relative_seconds((NAN, 1e-9), (1.0, 1e-9)) == 1.0


def test_the_median_of_steps_leaves_out_what_is_not_known() -> None:
    steps = [CallTimes((1.0, NAN), (2.0, 2.0)), CallTimes((3.0, NAN), (NAN, 4.0))]
    found = median_times(steps)
    assert found.gaps_seconds[0] == 2.0
    assert math.isnan(found.gaps_seconds[1])
    assert found.seconds == (2.0, 3.0)


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_watched_replay_tells_the_times_of_all_calls(is_observed: bool) -> None:
    player = Player(small_program())
    player.rehearse()
    times = own_times(player, is_observed=is_observed, label_seconds=0.0)
    assert all(seconds > 0 for seconds in times.calls.seconds)
    assert all(gap >= 0 for gap in times.calls.gaps_seconds)
    assert all(plain > 0 for _, plain in times.turns)
