"""Requests played by hand-computed steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_up_serving import LinearSteps, drawn_requests, equal_requests, pool, scheduling
from perfcast.core.serving.load import ClosedLoad, OpenLoad, SaturatedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SCHEDULER_POLICIES, SchedulerPolicy
from perfcast.core.serving.step import StepBatch
from perfcast.errors import InputError
from perfcast.simulate.serving.play import Engines, KVTransfer, play_requests

TIMES = LinearSteps()
every_policy = pytest.mark.parametrize("policy", SCHEDULER_POLICIES)


@every_policy
@pytest.mark.parametrize("ahead", [False, True])
def test_a_client_alone_waits_for_its_prompt_and_a_step_for_each_further_token(
    policy: SchedulerPolicy, ahead: bool
):
    prompt, answer = 1000, 50
    engines = Engines(pool(), scheduling(policy, schedules_ahead=ahead), TIMES)
    played = play_requests(equal_requests(3, prompt, answer), ClosedLoad(1), engines)
    pairs = prompt * (prompt + 1) / 2
    first = TIMES.seconds(StepBatch(0, 0.0, 1, prompt, pairs, 1))
    others = sum(TIMES.seconds(StepBatch(1, float(prompt + i))) for i in range(1, answer))
    assert played.time_to_first_token_seconds == pytest.approx(np.full(3, first))
    assert played.end_to_end_seconds == pytest.approx(np.full(3, first + others))
    assert played.num_steps == 3 * answer


def test_vllm_reads_what_waits_beside_what_is_written_and_sglang_before():
    """Two prompts of a step's tokens each: vLLM's second is read less one token of the first's answer."""
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    requests = equal_requests(2, 100, 3)
    mixed = play_requests(
        requests, SaturatedLoad(), Engines(pool(), scheduling("vllm", max_step_tokens=100), fixed)
    )
    assert mixed.first_token_seconds.tolist() == [1.0, 3.0]  # 99 tokens beside the answer, then one
    assert mixed.finished_seconds.tolist() == [3.0, 5.0]
    apart = play_requests(
        requests, SaturatedLoad(), Engines(pool(), scheduling("sglang", max_step_tokens=100), fixed)
    )
    assert apart.first_token_seconds.tolist() == [1.0, 2.0]
    assert apart.finished_seconds.tolist() == [4.0, 4.0]


def test_tensorrt_llm_starts_nobody_whose_answer_has_no_room():
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    engines = Engines(pool(), scheduling("trtllm", kv_tokens=128, block_tokens=1), fixed)
    played = play_requests(equal_requests(2, 50, 20), SaturatedLoad(), engines)
    assert played.started_seconds.tolist() == [0.0, 20.0]
    assert played.preemptions.sum() == 0
    vllm = Engines(pool(), scheduling("vllm", kv_tokens=128, block_tokens=1), fixed)
    crowded = play_requests(equal_requests(2, 50, 20), SaturatedLoad(), vllm)
    assert crowded.started_seconds.tolist() == [0.0, 0.0]
    assert crowded.preemptions.tolist() == [0, 1]


def test_who_schedules_ahead_sees_a_request_one_step_later():
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    requests = equal_requests(2, 10, 20)
    load = OpenLoad(1 / 3.5, burstiness=0.0)  # at 3.5 and 7 s
    for ahead, first in ((False, 1.5), (True, 2.5)):  # steps begin at 6.5, 7.5, 8.5 s
        engines = Engines(pool(), scheduling("vllm", schedules_ahead=ahead), fixed)
        played = play_requests(requests, load, engines)
        assert played.time_to_first_token_seconds.tolist() == [1.0, first]


@every_policy
def test_a_transfer_lies_between_prompt_and_answer(policy: SchedulerPolicy):
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    engines = Engines(pool(), scheduling(policy), fixed)
    played = play_requests(
        equal_requests(1, 100, 5), ClosedLoad(1), (engines, engines), transfer=KVTransfer(0.5, 0.01)
    )
    read, moved = 1.0, 1.5
    first = {"sglang": read + moved}.get(policy, read + moved + 1)
    steps = 5 if policy.startswith("vllm") else 4  # vLLM computes the last token of the prompt once more
    assert played.first_token_seconds.tolist() == [first]
    assert played.finished_seconds.tolist() == [read + moved + steps]


def test_what_can_never_be_answered_is_an_error():
    few = Engines(pool(), scheduling("vllm", kv_tokens=100), TIMES)
    with pytest.raises(InputError, match="holds keys and values of 100"):
        play_requests(equal_requests(1, 100, 10), SaturatedLoad(), few)
    whole = Engines(pool(), scheduling("trtllm", max_step_tokens=64, chunks_prompts=False), TIMES)
    with pytest.raises(InputError, match="a prompt of 100 tokens, but a step reads 64"):
        play_requests(equal_requests(1, 100, 10), SaturatedLoad(), whole)
    with pytest.raises(InputError, match="between two pools; there is one"):
        play_requests(
            equal_requests(1), SaturatedLoad(), Engines(pool(), scheduling(), TIMES), transfer=KVTransfer()
        )


@every_policy
def test_runs_of_equal_steps_are_what_single_steps_are(policy: SchedulerPolicy):
    requests = drawn_requests(60, 300, 40)
    for kv_tokens in (100_000, 1500):
        limits = scheduling(policy, max_sequences=32, max_step_tokens=512, kv_tokens=kv_tokens)
        engines = Engines(pool(), limits, TIMES)
        fast = play_requests(requests, ClosedLoad(16), engines)
        slow = play_requests(requests, ClosedLoad(16), engines, jumps=False)
        assert fast.finished_seconds == pytest.approx(slow.finished_seconds, rel=1e-12)
        assert fast.first_token_seconds == pytest.approx(slow.first_token_seconds, rel=1e-12)
        assert fast.num_steps == slow.num_steps
        assert fast.preemptions.tolist() == slow.preemptions.tolist()


def test_steps_of_a_window_are_noted():
    engines = Engines(pool(replicas=2), scheduling(), TIMES)
    everything = (0.0, 1e9)
    played = play_requests(equal_requests(4, 100, 5), ClosedLoad(4), engines, window=everything)
    log = played.steps
    assert log is not None
    assert log.prompt_tokens.sum() == 4 * 100
    assert (log.sequences * log.steps).sum() == 4 * (5 - 1)
    assert sorted(set(log.engine.tolist())) == [0, 1]
    assert (log.end_seconds - log.start_seconds).sum() == pytest.approx(played.busy_seconds)
    assert play_requests(equal_requests(4, 100, 5), ClosedLoad(4), engines).steps is None
    none = play_requests(equal_requests(4, 100, 5), ClosedLoad(4), engines, window=(1e8, 1e9)).steps
    assert none is not None
    assert not len(none)


def test_steps_of_a_run_are_noted_one_by_one():
    """A run that is played at once has the steps that it has when it is played step by step."""
    engines = Engines(pool(), scheduling(), TIMES)
    requests, window = drawn_requests(12, 300, 40), (0.1, 0.4)
    runs, steps = (
        play_requests(requests, ClosedLoad(4), engines, window=window, jumps=jumps).steps
        for jumps in (True, False)
    )
    assert runs is not None
    assert steps is not None
    assert len(runs) == len(steps) > 10
    assert set(runs.steps.tolist()) == {1}
    for name in ("start_seconds", "end_seconds", "sequences", "cached_tokens", "prompt_tokens"):
        assert getattr(runs, name) == pytest.approx(getattr(steps, name)), name
    assert runs.end_seconds.min() > window[0]
    assert runs.start_seconds.max() < window[1]


def test_balanced_ranks_read_prompts_together():
    """A rank that has a place early waits for the other; the wait counts all steps, of whatever."""
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    lengths = [np.array(values) for values in ([10] * 4, [3, 6, 2, 2], [0] * 4)]
    requests = Requests(np.zeros(4), *lengths)
    for wait, started in ((0, [0.0, 0.0, 3.0, 6.0]), (60, [0.0, 0.0, 3.0, 6.0]), (2, [0.0, 0.0, 3.0, 6.0])):
        limits = replace(scheduling("trtllm", max_sequences=1), rank_wait_steps=wait)
        played = play_requests(requests, SaturatedLoad(), Engines(pool(data_parallel=2), limits, fixed))
        assert played.started_seconds.tolist() == started  # a rank with nothing to write waits for nobody
    lengths = [np.array(values) for values in ([10] * 6, [3, 8, 20, 20, 2, 2], [0] * 6)]
    requests = Requests(np.zeros(6), *lengths)
    for wait, begins in ((0, [3.0, 8.0]), (60, [8.0, 8.0]), (3, [3.0, 9.0])):
        limits = replace(scheduling("trtllm", max_sequences=2), rank_wait_steps=wait)
        played = play_requests(requests, SaturatedLoad(), Engines(pool(data_parallel=2), limits, fixed))
        assert played.started_seconds[4:].tolist() == begins


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("jumps", [False, True])
def test_sglang_may_look_at_requests_every_so_many_steps(ahead: bool, jumps: bool):
    """The first is read from 2 to 3 s and followed by steps of writing; the second comes at 4 s."""
    fixed = LinearSteps(1.0, 0.0, 0.0, 0.0, 0.0)
    load = OpenLoad(0.5, burstiness=0.0)
    for every, first in ((1, 5.0), (4, 8.0), (10, 14.0)):
        limits = replace(scheduling("sglang", schedules_ahead=ahead), polls_every_steps=every)
        engines = Engines(pool(), limits, fixed)
        played = play_requests(equal_requests(2, 10, 50), load, engines, jumps=jumps)
        assert played.first_token_seconds.tolist() == [3.0, first + ahead]
