"""Laws of every play of requests, and what a slow player says of the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from made_up_serving import INSTANT, LinearSteps, pool, scheduling
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, SaturatedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SCHEDULER_POLICIES, Speculation
from perfcast.core.serving.step import StepBatch
from perfcast.simulate.serving.play import Engines, play_requests
from simulate.serving.slow_player import SlowEngine

TIMES = LinearSteps()
_FEW = settings(max_examples=cases(60, share=0.05), deadline=None)


@st.composite
def some_requests(draw: st.DrawFn, most: int = 24) -> Requests:
    num = draw(st.integers(1, most))
    draws = np.random.default_rng(draw(st.integers(0, 10**6)))
    prompts = draws.integers(1, draw(st.integers(1, 200)), num, endpoint=True)
    answers = draws.integers(1, draw(st.integers(1, 60)), num, endpoint=True)
    cached = np.where(draws.random(num) < 0.3, draws.integers(0, prompts), 0)
    return Requests(np.zeros(num), prompts, answers, cached)


@st.composite
def some_engines(draw: st.DrawFn, *, alone: bool = False, even: bool = False) -> Engines:
    """``even``: every step of a run takes as much longer as the one before, without rounding."""
    policy = draw(st.sampled_from(SCHEDULER_POLICIES))
    limits = scheduling(
        policy,
        max_sequences=draw(st.integers(1, 16)),
        max_step_tokens=draw(st.sampled_from([32, 64, 256])) if policy in ("vllm", "sglang") else 256,
        kv_tokens=draw(st.integers(300, 2000)),
        block_tokens=draw(st.sampled_from([1, 4, 16])),
        chunks_prompts=policy in ("vllm", "sglang"),
        schedules_ahead=not alone and draw(st.booleans()),
    )
    if policy == "vllm":
        limits = replace(limits, reserves_prompts=draw(st.booleans()), reuses_blocks=draw(st.booleans()))
    if alone:
        return Engines(pool(), limits, TIMES)
    if policy == "trtllm":
        limits = replace(limits, rank_wait_steps=draw(st.sampled_from([0, 5, 60])))
    if policy == "sglang" and not alone:
        limits = replace(limits, polls_every_steps=draw(st.sampled_from([1, 10])))
    if even:
        return Engines(pool(), limits, TIMES)
    stages = draw(st.sampled_from([1, 1, 1, 2]))
    if stages == 2:
        limits = replace(limits, kv_tokens=2 * limits.kv_tokens, max_sequences=2 * limits.max_sequences)
    return Engines(
        pool(replicas=draw(st.integers(1, 3)), data_parallel=draw(st.integers(1, 5))),
        limits,
        LinearSteps(stages=stages),
        speculation=draw(st.sampled_from([None, None, Speculation(2, 0.6), Speculation(1, 0.85)])),
    )


some_loads: st.SearchStrategy[Load] = st.one_of(
    st.builds(ClosedLoad, st.integers(1, 30)),
    st.builds(OpenLoad, st.sampled_from([0.5, 5.0, 50.0]), st.sampled_from([0.0, 1.0, 4.0])),
    st.just(SaturatedLoad()),
)


@st.composite
def some_plays(
    draw: st.DrawFn, *, even: bool = False
) -> tuple[Requests, Load, Engines | tuple[Engines, Engines], float]:
    first = draw(some_engines(even=even))
    if draw(st.booleans()):
        return draw(some_requests()), draw(some_loads), first, draw(st.sampled_from([0.0, 0.02]))
    return draw(some_requests()), draw(some_loads), (first, draw(some_engines(even=even))), 0.0


def columns(played: Played) -> list[np.ndarray]:
    return [
        played.sent_seconds,
        played.started_seconds,
        played.first_token_seconds,
        played.finished_seconds,
    ]


@_FEW
@given(some_plays())
def test_every_request_is_answered_once_and_in_order(play):
    requests, load, engines, before = play
    played = play_requests(requests, load, engines, request_seconds=before)
    sent, started, first, finished = columns(played)
    assert np.isfinite([sent, started, first, finished]).all()
    assert (started >= sent + before - 1e-12).all()
    assert (first > started).all()
    assert (finished >= first).all()
    assert (played.answer_tokens == requests.answer_tokens).all()


@_FEW
@given(some_plays())
def test_littles_law_holds_of_every_run(play):
    """Requests in the system, over time, are the seconds that each spends there (Little, 1961)."""
    requests, load, engines, before = play
    played = play_requests(requests, load, engines, request_seconds=before)
    held = played.occupancy
    spans = np.diff(held.seconds)
    inside = ((held.running + held.waiting)[:-1] * spans).sum()
    assert inside == pytest.approx(played.end_to_end_seconds.sum(), rel=1e-9)
    makespan = played.finished_seconds.max() - played.sent_seconds.min()
    rate, mean_time = len(requests) / makespan, played.end_to_end_seconds.mean()
    assert inside / makespan == pytest.approx(rate * mean_time, rel=1e-9)
    assert held.running[-1] == held.waiting[-1] == held.kv_tokens[-1] == 0
    assert (held.running >= 0).all()
    assert (held.waiting >= 0).all()


@_FEW
@given(some_plays())
def test_no_more_keys_and_values_are_held_than_there_is_memory(play):
    requests, load, engines, _ = play
    played = play_requests(requests, load, engines)
    pools = engines if isinstance(engines, tuple) else (engines,)
    capacity = sum(
        each.scheduling.kv_tokens * each.pool.replicas * each.pool.engines_per_replica for each in pools
    )
    assert played.occupancy.kv_tokens.min() >= 0
    assert played.occupancy.kv_tokens.max() <= capacity


@_FEW
@given(some_plays(even=True))
def test_runs_of_equal_steps_are_what_single_steps_are(play):
    requests, load, engines, before = play
    fast = play_requests(requests, load, engines, request_seconds=before)
    slow = play_requests(requests, load, engines, request_seconds=before, jumps=False)
    for one, other in zip(columns(fast), columns(slow), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    assert fast.num_steps == slow.num_steps
    assert fast.preemptions.tolist() == slow.preemptions.tolist()
    assert fast.busy_seconds == pytest.approx(slow.busy_seconds)
    for bound, seconds in slow.seconds_by_bound.items():
        assert fast.seconds_by_bound[bound] == pytest.approx(seconds, rel=0.05, abs=1e-2)


@_FEW
@given(some_requests(), some_engines(), st.integers(1, 30))
def test_runs_of_speculation_and_of_engines_in_lockstep_are_nearly_so(requests, engines, clients):
    """Whole tokens of speculation come unevenly, and the slowest of several engines changes: below 0.1 %."""
    fast = play_requests(requests, ClosedLoad(clients), engines)
    slow = play_requests(requests, ClosedLoad(clients), engines, jumps=False)
    assert fast.finished_seconds.max() == pytest.approx(slow.finished_seconds.max(), rel=1e-3)
    assert fast.end_to_end_seconds.mean() == pytest.approx(slow.end_to_end_seconds.mean(), rel=1e-2)


@_FEW
@given(some_plays())
def test_equal_questions_have_equal_answers(play):
    requests, load, engines, _ = play
    once, again = (play_requests(requests, load, engines, seed=3) for _ in range(2))
    for one, other in zip(columns(once), columns(again), strict=True):
        assert (one == other).all()


@settings(max_examples=cases(200, share=0.05), deadline=None)
@given(some_requests(), some_engines(alone=True), st.integers(1, 24))
def test_one_engine_does_what_a_slow_player_does(requests, engines, clients):
    played = play_requests(requests, ClosedLoad(clients), engines)
    slow = SlowEngine(requests, clients, engines.scheduling, engines.times)
    slow.play()
    assert played.preemptions.tolist() == [each.preemptions for each in slow.requests]
    assert played.num_steps == slow.steps
    assert played.first_token_seconds == pytest.approx([each.first for each in slow.requests], rel=1e-9)
    assert played.finished_seconds == pytest.approx([each.finished for each in slow.requests], rel=1e-9)


@_FEW
@given(some_requests(), some_engines(alone=True), some_loads)
def test_steps_do_the_work_of_the_requests(requests, engines, load):
    """Where nobody loses a place, busy seconds are each request's own, and the fixed part of every step."""
    played = play_requests(
        requests, load, replace(engines, scheduling=replace(engines.scheduling, kv_tokens=10**6))
    )
    assert played.preemptions.sum() == 0
    prompt, answer, cached = requests.prompt_tokens, requests.answer_tokens, requests.cached_tokens
    unread, further = prompt - cached, answer - 1
    work = (
        TIMES.fixed * played.num_steps
        + TIMES.sequence * further.sum()
        + TIMES.cached_token * (prompt * further + further * answer / 2).sum()
        + TIMES.prompt_token * unread.sum()
        + TIMES.prompt_pair * (unread * cached + unread * (unread + 1) / 2).sum()
    )
    assert played.busy_seconds == pytest.approx(work)


@_FEW
@given(some_requests(), some_engines(), st.integers(1, 30), st.sampled_from([0.25, 0.5, 2.0]))
def test_twice_as_fast_steps_take_half_as_long(requests, engines, clients, factor):
    """Whoever waits for answers: all times scale, so faster steps are never worse."""
    times = engines.times
    scaled = LinearSteps(
        times.fixed * factor,
        times.sequence * factor,
        times.cached_token * factor,
        times.prompt_token * factor,
        times.prompt_pair * factor,
        times.stages,
    )
    before = play_requests(requests, ClosedLoad(clients), engines)
    after = play_requests(requests, ClosedLoad(clients), replace(engines, times=scaled))
    for one, other in zip(columns(before), columns(after), strict=True):
        assert other == pytest.approx(one * factor, rel=1e-9, abs=1e-12)


@_FEW
@given(some_engines(), st.integers(1, 30), st.integers(1, 20), st.integers(1, 50), st.integers(1, 30))
def test_equal_requests_may_change_places(engines, num, clients, prompt, answer):
    """Whose turn it is does not matter: the n-th of equal requests is served as the n-th, whoever it is."""
    columns_of = [np.full(num, value, dtype=np.int64) for value in (prompt, answer, 0)]
    requests = Requests(np.zeros(num), *columns_of)
    order = np.random.default_rng(num).permutation(num)
    other = Requests(np.zeros(num), *(column[order] for column in columns_of))
    one, two = (play_requests(each, ClosedLoad(clients), engines) for each in (requests, other))
    assert one.finished_seconds.tolist() == two.finished_seconds.tolist()


@_FEW
@given(some_requests(), some_engines(even=True), st.sampled_from([SaturatedLoad(), OpenLoad(20.0)]))
def test_an_instant_pool_of_writers_leaves_the_readers(requests, engines, load):
    """Where the second pool takes no time, all are answered as answers of one token are."""
    reader = replace(engines, scheduling=replace(engines.scheduling, schedules_ahead=False))
    wide = replace(reader.scheduling, kv_tokens=10**6, max_sequences=1000, max_step_tokens=10**4)
    writer = Engines(pool(), wide, INSTANT)
    both = play_requests(requests, load, (reader, writer))
    short = replace(requests, answer_tokens=np.ones_like(requests.answer_tokens))
    alone = play_requests(short, load, reader)
    assert both.first_token_seconds == pytest.approx(alone.first_token_seconds)
    assert both.finished_seconds == pytest.approx(alone.finished_seconds)


class FreePrompts(LinearSteps):
    """Steps that only read take no time."""

    def seconds(self, batch: StepBatch) -> float:
        return super().seconds(batch) if batch.sequences else 0.0

    latency_seconds = seconds


@_FEW
@given(some_requests())
def test_an_instant_pool_of_readers_leaves_the_writers(requests):
    wide = scheduling("sglang", max_step_tokens=10**4)
    writer = Engines(pool(), wide, FreePrompts())
    both = play_requests(requests, SaturatedLoad(), (Engines(pool(), wide, INSTANT), writer))
    alone = play_requests(requests, SaturatedLoad(), writer)
    assert both.first_token_seconds == pytest.approx(alone.first_token_seconds)
    assert both.finished_seconds == pytest.approx(alone.finished_seconds)


@_FEW
@given(some_requests(), some_engines(alone=True), st.integers(1, 30))
def test_no_load_gets_more_done_than_all_at_once(requests, engines, clients):
    """Within a tenth: who comes later may fall into better batches (anomalies of lists: Graham, 1969)."""
    wide = replace(engines, scheduling=replace(engines.scheduling, kv_tokens=10**5))
    least = play_requests(requests, SaturatedLoad(), wide).finished_seconds.max()
    for load in (ClosedLoad(clients), OpenLoad(100.0)):
        assert play_requests(requests, load, wide).finished_seconds.max() >= 0.9 * least


@_FEW
@given(some_requests(40), some_engines(), st.sampled_from([2, 3]))
def test_more_replicas_are_not_worse(requests, engines, times):
    """Within a tenth: with fewer requests each, batches are cut otherwise."""
    more = replace(engines, pool=replace(engines.pool, replicas=times * engines.pool.replicas))
    few, many = (play_requests(requests, SaturatedLoad(), each) for each in (engines, more))
    assert many.finished_seconds.max() <= 1.1 * few.finished_seconds.max()
    assert many.end_to_end_seconds.mean() <= 1.1 * few.end_to_end_seconds.mean()


@_FEW
@given(some_requests(40), some_engines(), st.integers(2, 5), st.integers(1, 30))
def test_more_memory_is_not_worse(requests, engines, times, clients):
    more = replace(
        engines, scheduling=replace(engines.scheduling, kv_tokens=times * engines.scheduling.kv_tokens)
    )
    few, many = (play_requests(requests, ClosedLoad(clients), each) for each in (engines, more))
    assert many.finished_seconds.max() <= 1.1 * few.finished_seconds.max()
