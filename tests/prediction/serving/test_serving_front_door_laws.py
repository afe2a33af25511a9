"""Laws of forecasts of serving, whatever is asked: more is never worse, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Pool
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.prediction.request.serving import EngineOptions, ServingRequest
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.predict import predict_serving

TABLES = StepTables()
#: What is drawn finds one place after another, which may move a figure a little.
SLACK = 0.05


def asked(concurrency: int, prompt: int, answer: int, framework: str, replicas: int = 1) -> ServingRequest:
    return ServingRequest(
        model="llama3-8b",
        cluster=load_cluster("dgx-h100:8"),
        load=ClosedLoad(concurrency),
        deployment=Aggregated(Pool(Plan(), replicas)),
        prompts=Lengths(prompt),
        answers=Lengths(answer),
        num_requests=max(3 * concurrency, 20),
        engine=EngineOptions(framework=framework),
        cost_model="roofline",
        method="events",
    )


QUESTIONS = {
    "concurrency": st.integers(1, 64),
    "prompt": st.integers(16, 4096),
    "answer": st.integers(2, 128),
    "framework": st.sampled_from(["vllm", "sglang", "trtllm"]),
}


@given(**QUESTIONS)
@settings(max_examples=15, deadline=None)
def test_twice_the_replicas_answer_no_less_and_let_nobody_wait_longer(concurrency, prompt, answer, framework):
    one, two = (
        predict_serving(asked(concurrency, prompt, answer, framework, count), TABLES) for count in (1, 2)
    )
    assert two.rates.output_tokens_per_second.value >= (1 - SLACK) * one.rates.output_tokens_per_second.value
    assert two.end_to_end.mean.value <= (1 + SLACK) * one.end_to_end.mean.value


@given(**QUESTIONS)
@settings(max_examples=15, deadline=None)
def test_figures_of_a_run_fit_together(concurrency, prompt, answer, framework):
    found = predict_serving(asked(concurrency, prompt, answer, framework), TABLES)
    rates, played = found.rates, found.played
    assert played is not None
    assert int(played.answer_tokens.sum()) == answer * len(played.answer_tokens)
    ratio = rates.output_tokens_per_second.value / rates.requests_per_second.value
    assert abs(ratio - answer) < 1e-6 * answer
    under_way = found.end_to_end.mean.value * rates.requests_per_second.value
    assert under_way <= concurrency * (1 + 1e-9)  # Little's law: no more than there are clients
    assert 0 < found.mean_batch <= under_way * (1 + 1e-9)  # who waits is in no batch
    assert abs(sum(found.bound_by.values()) - 1) < 1e-9
    sums = found.time_to_first_token.mean.value + (answer - 1) * found.time_per_output_token.mean.value
    assert abs(sums - found.end_to_end.mean.value) < 1e-6 * sums


@given(**QUESTIONS)
@settings(max_examples=10, deadline=None)
def test_more_room_for_keys_and_values_is_never_worse(concurrency, prompt, answer, framework):
    question = asked(concurrency, prompt, answer, framework)
    fractions = (0.7, 0.85) if framework == "sglang" else (0.3, 0.9)
    small, large = (
        predict_serving(replace(question, engine=replace(question.engine, memory_fraction=fraction)), TABLES)
        for fraction in fractions
    )
    assert large.kv_tokens > small.kv_tokens
    assert large.end_to_end.mean.value <= (1 + SLACK) * small.end_to_end.mean.value


@given(rate=st.floats(0.5, 20.0), framework=QUESTIONS["framework"])
@settings(max_examples=8, deadline=None)
def test_a_stream_within_what_is_answered_leaves_as_fast_as_it_comes(rate, framework):
    question = replace(asked(1, 256, 16, framework), load=OpenLoad(rate), num_requests=200)
    found = predict_serving(question, TABLES).rates
    assert 0.7 * rate < found.requests_per_second.value < 1.4 * rate
    assert found.requests_per_second.low <= found.requests_per_second.value <= found.requests_per_second.high
