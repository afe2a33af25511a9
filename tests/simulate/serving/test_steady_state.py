"""The steady state by formula against events, on made-up steps, and its laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_up_serving import LinearSteps, drawn_requests, equal_requests, pool, scheduling
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SchedulerPolicy
from perfcast.core.serving.steady import LoadColumns, SteadyState
from perfcast.errors import InputError
from perfcast.simulate.closed_form.serving import columns_of, steady_columns, steady_state
from perfcast.simulate.serving.play import Engines, play_requests

POLICIES: tuple[SchedulerPolicy, ...] = ("vllm", "sglang", "trtllm")
#: Mean, and nine of ten: how far formula and events may be apart, over the grid below.
TPOT_MEAN, TPOT_MOST, TTFT_MEAN, TTFT_MOST = 0.03, 0.10, 0.08, 0.20


def engines(policy: SchedulerPolicy, *, replicas: int = 1, kv_tokens: int = 500_000) -> Engines:
    plan = scheduling(policy, chunks_prompts=policy != "trtllm", kv_tokens=kv_tokens, max_step_tokens=9216)
    return Engines(pool(replicas=replicas), plan, LinearSteps())


def asked(tokens: np.ndarray, is_even: bool) -> Lengths:
    mean = float(tokens.mean())
    return Lengths(mean) if is_even else Lengths(mean, "uniform", 1 / 9)


def apart(
    policy: SchedulerPolicy, clients: int, prompt: int, answer: int, is_even: bool
) -> tuple[float, float]:
    """Of mean times to the first token, and of mean times of a token: formula over events, less 1."""
    make = equal_requests if is_even else drawn_requests
    requests = make(10 * clients, prompt, answer)
    return apart_on(requests, clients, engines(policy), is_even)


def apart_on(
    requests: Requests, clients: int, served: Engines | tuple[Engines, Engines], is_even: bool
) -> tuple[float, float]:
    """The same of given requests and engines."""
    played = play_requests(requests, ClosedLoad(clients), served)
    found = steady_state(
        ClosedLoad(clients),
        asked(requests.prompt_tokens, is_even),
        asked(requests.answer_tokens, is_even),
        served,
        num_requests=len(requests),
    )
    first = played.time_to_first_token_seconds.mean()
    token = np.nanmean(played.time_per_output_token_seconds)
    return (
        float(found.time_to_first_token.mean[0] / first - 1),
        float(found.time_per_output_token.mean[0] / token - 1),
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_formula_and_events_agree_over_a_grid_of_closed_loads(policy: SchedulerPolicy) -> None:
    errors = np.abs(
        [
            apart(policy, clients, prompt, answer, is_even)
            for is_even in (True, False)
            for prompt, answer in ((1024, 512), (4096, 512), (1024, 64))
            for clients in (1, 4, 16, 64, 128)
        ]
    )
    first, token = errors.T
    assert token.mean() <= TPOT_MEAN
    assert np.quantile(token, 0.9) <= TPOT_MOST
    assert first.mean() <= TTFT_MEAN
    assert np.quantile(first, 0.9) <= TTFT_MOST


def apart_with(
    policy: SchedulerPolicy, clients: int, lengths: tuple[int, int], served: Engines
) -> tuple[float, float]:
    """The same of answers of different lengths, and of rates."""
    requests = drawn_requests(8 * clients, *lengths)
    played = play_requests(requests, ClosedLoad(clients), served)
    found = steady_state(
        ClosedLoad(clients),
        asked(requests.prompt_tokens, False),
        asked(requests.answer_tokens, False),
        served,
        num_requests=len(requests),
    )
    rate = len(requests) / played.finished_seconds.max()
    token = np.nanmean(played.time_per_output_token_seconds)
    return (
        float(found.requests_per_second[0] / rate - 1),
        float(found.time_per_output_token.mean[0] / token - 1),
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_formula_and_events_agree_where_memory_is_short(policy: SchedulerPolicy) -> None:
    errors = np.abs(
        [
            apart_with(policy, clients, (prompt, answer), engines(policy, kv_tokens=tokens))
            for prompt, answer, tokens in ((1024, 1024, 40_000), (4096, 512, 60_000), (512, 2048, 20_000))
            for clients in (16, 64, 128)
        ]
    )
    rate, token = errors.T
    assert rate.max() <= 0.12
    assert token.max() <= 0.12


@pytest.mark.parametrize("policy", POLICIES)
def test_formula_and_events_agree_of_ranks_that_step_together(policy: SchedulerPolicy) -> None:
    served = engines(policy)
    served = replace(served, pool=pool(data_parallel=4))
    errors = np.abs(
        [
            apart_with(policy, clients, lengths, served)
            for lengths in ((1024, 512), (4096, 256))
            for clients in (8, 32, 128)
        ]
    )
    assert errors.mean() <= 0.08
    assert errors.max() <= 0.25


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_answers_come_back_together_where_requests_are_long_on_their_way(
    policy: SchedulerPolicy,
) -> None:
    """While they are, nothing is read and steps are short: all of a wave end before the first comes again."""
    requests, served, load = equal_requests(320, 1024, 512), engines(policy), ClosedLoad(32)
    played = play_requests(requests, load, served, request_seconds=0.2)
    found = steady_state(
        load, Lengths(1024), Lengths(512), served, request_seconds=0.2, num_requests=len(requests)
    )
    first = played.time_to_first_token_seconds.mean()
    assert found.time_to_first_token.mean[0] == pytest.approx(first, rel=0.1)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_client_waits_for_his_own_steps_alone(policy: SchedulerPolicy) -> None:
    first, token = apart(policy, 1, 1000, 200, True)
    assert first == pytest.approx(0, abs=1e-6)
    assert token == pytest.approx(0, abs=1e-3)


def state(policy: SchedulerPolicy, load: Load, *, replicas: int = 1, **changes: float) -> SteadyState:
    served = engines(policy, replicas=replicas)
    served = replace(served, scheduling=replace(served.scheduling, **changes))
    return steady_state(load, Lengths(1024), Lengths(256, "uniform", 0.1), served)


@settings(max_examples=25, deadline=None)
@given(policy=st.sampled_from(POLICIES), clients=st.integers(1, 2000), replicas=st.integers(1, 6))
def test_more_replicas_never_answer_less(policy: SchedulerPolicy, clients: int, replicas: int) -> None:
    fewer = state(policy, ClosedLoad(clients), replicas=replicas)
    more = state(policy, ClosedLoad(clients), replicas=replicas + 1)
    assert more.requests_per_second[0] >= fewer.requests_per_second[0] * (1 - 1e-6)


@settings(max_examples=25, deadline=None)
@given(policy=st.sampled_from(POLICIES), clients=st.integers(1, 2000))
def test_no_load_answers_more_than_a_saturated_one(policy: SchedulerPolicy, clients: int) -> None:
    most = state(policy, SaturatedLoad()).requests_per_second[0]
    assert state(policy, ClosedLoad(clients)).requests_per_second[0] <= most * 1.001
    assert state(policy, OpenLoad(float(clients))).requests_per_second[0] <= most * 1.001


@settings(max_examples=25, deadline=None)
@given(policy=st.sampled_from(POLICIES), clients=st.integers(1, 2000))
def test_little_s_law_holds(policy: SchedulerPolicy, clients: int) -> None:
    found = state(policy, ClosedLoad(clients))
    assert found.requests_per_second[0] * found.end_to_end.mean[0] == pytest.approx(clients, rel=0.02)


@settings(max_examples=20, deadline=None)
@given(policy=st.sampled_from(POLICIES), kind=st.sampled_from(("closed", "open")), seed=st.integers(0, 99))
def test_many_at_once_are_each_alone(policy: SchedulerPolicy, kind: str, seed: int) -> None:
    draws = np.random.default_rng(seed)
    amounts = draws.uniform(1, 300, 6).round()
    several = replace(
        columns_of(engines(policy)),
        engines=draws.integers(1, 4, 6).astype(float),
        max_sequences=draws.integers(8, 300, 6).astype(float),
        max_step_tokens=draws.integers(2048, 9000, 6).astype(float),
        kv_tokens=draws.integers(5_000, 900_000, 6).astype(float),
    )

    def rows_of(rows: list[int]) -> SteadyState:
        columns = replace(
            several,
            **{
                name: getattr(several, name)[rows]
                for name in ("engines", "max_sequences", "max_step_tokens", "kv_tokens")
            },
        )
        load = LoadColumns(kind, amounts[rows], np.full(len(rows), np.inf))  # type: ignore[arg-type]
        return steady_columns(load, Lengths(1024), Lengths(200, "uniform", 0.1), columns)

    together = rows_of(list(range(6)))
    for row in range(6):
        alone = rows_of([row])
        for name in ("requests_per_second", "mean_batch", "kv_share"):
            assert getattr(alone, name)[0] == pytest.approx(getattr(together, name)[row], rel=1e-9)
        assert alone.time_to_first_token.p90[0] == pytest.approx(together.time_to_first_token.p90[row])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stream_beyond_what_is_answered_has_no_end(policy: SchedulerPolicy) -> None:
    found = state(policy, OpenLoad(1e4))
    assert not found.is_stable[0]
    assert np.isinf(found.time_to_first_token.mean[0])
    assert state(policy, OpenLoad(0.1)).is_stable[0]


def test_two_pools_agree_with_events() -> None:
    errors = []
    for policy in POLICIES:
        for readers, writers, clients in ((1, 1, 16), (2, 1, 64), (1, 3, 64), (1, 2, 200)):
            requests = drawn_requests(10 * clients, 1024, 512)
            pools = engines(policy, replicas=readers), engines(policy, replicas=writers)
            errors.append(apart_on(requests, clients, pools, False))
    first, token = np.abs(np.array(errors)).T
    assert token.max() <= 0.05
    assert np.quantile(first, 0.9) <= 0.20


def test_a_recording_has_no_steady_state() -> None:
    with pytest.raises(InputError, match="mean rate"):
        state("vllm", RecordedLoad())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [ClosedLoad(700), OpenLoad(2.0), SaturatedLoad()])
def test_shares_of_what_limits_sum_to_one(policy: SchedulerPolicy, load: Load) -> None:
    shares = state(policy, load, kv_tokens=40_000).bound_by
    assert sum(share[0] for share in shares.values()) == pytest.approx(1)
    assert all(share[0] >= 0 for share in shares.values())
