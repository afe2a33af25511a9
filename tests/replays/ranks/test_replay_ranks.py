"""Real processes with gloo between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_up_ranks import disagree, fail_on_one, reduce_twice
from perfcast.errors import TraceError
from perfcast.replays.ranks.ranks import run_ranks

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def found_by_ranks(monkeypatch: pytest.MonkeyPatch):
    """Started processes find the tests' modules."""
    monkeypatch.syspath_prepend(TESTS)
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=":")


def test_ranks_exchange_in_several_groups_and_give_back_what_they_made():
    jobs = [{"elements": 100, "is_blocking": False}] * 2
    first, second = run_ranks(reduce_twice, jobs)
    assert first == {"sums": [3.0, 1.0], "is_asynchronous": [True, False], "is_timed": [True, True]}
    assert second["sums"] == [3.0, 2.0]


def test_what_does_not_fit_together_is_told_before_anyone_waits():
    with pytest.raises(TraceError, match=r"rank 1 has collective 1 .all_reduce., and rank 0 has no more"):
        run_ranks(disagree, [{}, {}])


def test_the_failure_of_one_rank_ends_all_and_is_told():
    with pytest.raises(TraceError, match="rank 1: the trace of this rank is empty"):
        run_ranks(fail_on_one, [{}, {}])


def test_impossible_ranks_are_told():
    with pytest.raises(TraceError, match="0 ranks cannot be started"):
        run_ranks(fail_on_one, [])
    with pytest.raises(TraceError, match="not 'mpi'"):
        run_ranks(fail_on_one, [{}], backend="mpi")
    with pytest.raises(ValueError, match="cannot be found by name"):
        run_ranks(lambda job, context: None, [{}])
