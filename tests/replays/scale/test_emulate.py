from __future__ import annotations

import time
from dataclasses import replace
from math import isnan

import pytest

from made_up_collectives import ProgramWriter
from perfcast.catalogs.clusters import load_cluster
from perfcast.errors import TraceError
from perfcast.replays.communication.play import CollectiveRunner
from perfcast.replays.program.program import ReplayProgram
from perfcast.replays.request import RankOptions
from perfcast.replays.scale.emulate import count_untimed, emulated, recorded_seconds, with_fastest
from perfcast.replays.scale.fit_ranks import fit_to_ranks, fit_together
from perfcast.traces.events import ProcessGroup


def reducing(seconds: float = 0.02, *, is_asynchronous: bool = False, times: int = 1) -> ReplayProgram:
    writer = ProgramWriter(4)
    bucket = writer.tensor(1000)
    for _ in range(times):
        index = writer.collective("allreduce", [bucket], is_asynchronous=is_asynchronous, seconds=seconds)
        if is_asynchronous:
            writer.wait(index)
    return writer.program()


def test_collectives_take_their_recorded_time():
    assert emulated(reducing(0.02), 1).calls[0].emulated_seconds == 0.02


def test_groups_of_ranks_that_are_there_collective_for_real():
    writer = ProgramWriter(4)
    writer.groups.append(ProcessGroup("pair", "", "", (0, 1)))
    bucket = writer.tensor(1000)
    writer.collective("allreduce", [bucket], group="pair", seconds=0.01)
    writer.collective("allreduce", [bucket], seconds=0.02)
    first, second = emulated(writer.program(), 2).calls
    assert isnan(first.emulated_seconds)
    assert second.emulated_seconds == 0.02


def test_the_shortest_time_of_all_ranks_is_the_collectives_own():
    ranks = [reducing(seconds, times=2) for seconds in (0.03, 0.01, float("nan"))]
    found = with_fastest(ranks[0], [recorded_seconds(program) for program in ranks])
    assert [call.communication_seconds for call in found.calls] == [0.01, 0.01]


def test_a_cluster_prices_what_was_not_recorded_and_more_ranks_take_longer():
    cluster = load_cluster("dgx-h100:16")
    four = emulated(reducing(float("nan")), 1, cluster).calls[0].emulated_seconds
    sixteen = (
        fit_to_ranks(reducing(), None, RankOptions(world_size=16, cluster=cluster)).calls[0].emulated_seconds
    )
    assert 0 < four < sixteen < 1e-3


def test_a_time_that_nobody_knows_is_told():
    with pytest.raises(TraceError, match="does not say how long it took"):
        emulated(reducing(float("nan")), 1)


def test_one_that_is_alone_takes_no_time_for_what_nobody_timed_and_counts_it():
    program = fit_to_ranks(reducing(float("nan"), times=2), None, RankOptions())
    assert [call.emulated_seconds for call in program.calls] == [0.0, 0.0]
    assert count_untimed(program) == 2
    assert count_untimed(fit_to_ranks(reducing(0.02), None, RankOptions())) == 0
    collective_runner = CollectiveRunner(program, None)
    collective_runner.prepare(0)([], [])
    assert isnan(collective_runner.latencies()[0].bus_bytes_per_second)
    with pytest.raises(TraceError, match="does not say how long it took"):
        fit_to_ranks(reducing(float("nan")), None, RankOptions(is_emulated=True))


def test_one_alone_waits_as_long_as_it_is_told():
    collective_runner = CollectiveRunner(fit_to_ranks(reducing(0.02), None, RankOptions()), None)
    play = collective_runner.prepare(0)
    start = time.perf_counter()
    play([], [])
    assert time.perf_counter() - start >= 0.02
    (latency,) = collective_runner.latencies()
    assert latency.is_emulated
    assert latency.median_seconds >= 0.02
    assert latency.bus_bytes == 4000 * 1.5


def test_what_is_done_meanwhile_shortens_the_wait_and_a_group_does_one_thing_at_a_time():
    program = fit_to_ranks(reducing(0.02, is_asynchronous=True, times=2), None, RankOptions())
    collective_runner = CollectiveRunner(program, None)
    first, second = collective_runner.prepare(0), collective_runner.prepare(2)
    start = time.perf_counter()
    first([], [])
    second([], [])
    assert time.perf_counter() - start < 0.02
    collective_runner.finish_step()
    assert time.perf_counter() - start >= 0.04


def test_a_collective_of_unknown_time_cannot_be_played_alone():
    program = replace(reducing(float("nan")), rank=0)
    with pytest.raises(TraceError, match="has nobody to exchange with here"):
        CollectiveRunner(program, None).prepare(0)


def test_ranks_that_are_fitted_in_one_process_are_those_that_meet():
    together = fit_together([reducing()], 4, RankOptions())
    assert [(program.rank, program.world_size) for program in together] == [(rank, 4) for rank in range(4)]


def test_fewer_processes_than_ranks_are_told_to_be_emulated():
    with pytest.raises(TraceError, match=r"--emulate \[CLUSTER\]:4"):
        fit_together([reducing()], 2, RankOptions(world_size=4))
