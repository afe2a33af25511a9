"""Questions about serving, from names to figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.serving import Between
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated, Pool
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.core.serving.requests import Requests
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.prediction.request.batches import BatchesRequest
from perfcast.prediction.request.serving import EngineOptions, Limits, ServingRequest
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.events import densest
from perfcast.prediction.serving.formula import lengths_of
from perfcast.prediction.serving.predict import predict_serving
from perfcast.prediction.serving.resolve import resolve_serving
from perfcast.prediction.sweep.batches import sweep_batches

TWO = Plan(tensor_parallel=2)


def asked(**changes: Any) -> ServingRequest:
    values: dict[str, Any] = {
        "model": "llama3-8b",
        "cluster": load_cluster("dgx-h100:4"),
        "load": ClosedLoad(8),
        "prompts": Lengths(512),
        "answers": Lengths(16),
        "num_requests": 40,
        "cost_model": "roofline",
        "method": "events",
    }
    return ServingRequest(**(values | changes))


def test_where_nothing_is_named_the_least_plan_serves_as_often_as_devices_allow():
    found = resolve_serving(asked())
    assert found.deployment == Aggregated(Pool(Plan(), 4))
    assert any(note.startswith("plan: the smallest tp · pp") for note in found.defaults)
    big = resolve_serving(asked(model="llama3-70b", dtype="bf16", prompts=Lengths(8192)))
    assert big.deployment == Aggregated(Pool(Plan(tensor_parallel=4), 1))


@pytest.mark.parametrize("load", [ClosedLoad(8), OpenLoad(20.0), SaturatedLoad()])
def test_every_figure_has_an_interval_that_holds_it(load):
    found = predict_serving(asked(load=load, dollars_per_device_hour=2.0))
    rates = found.rates
    for between in (
        found.time_to_first_token.p99,
        found.time_per_output_token.median,
        found.end_to_end.mean,
        rates.output_tokens_per_second,
        rates.output_tokens_per_second_per_user,
        rates.dollars_per_million_output_tokens,
        rates.joules_per_million_output_tokens,
    ):
        assert between is not None
        assert 0 < between.low <= between.value <= between.high
    assert sum(found.bound_by.values()) == pytest.approx(1.0)


def test_the_bill_is_that_of_all_devices_over_the_tokens():
    found = predict_serving(asked(dollars_per_device_hour=3.6)).rates
    bill = found.dollars_per_million_output_tokens
    assert bill is not None
    assert bill.value == pytest.approx(4 * 3.6 / 3600 / found.output_tokens_per_second.value * 1e6)
    read, written = found.joules_per_million_input_tokens, found.joules_per_million_output_tokens
    assert read is not None
    assert written is not None
    assert read.value * found.input_tokens_per_second.value == pytest.approx(
        written.value * found.output_tokens_per_second.value
    )
    assert found.output_tokens_per_second_per_device.value * 4 == pytest.approx(
        found.output_tokens_per_second.value
    )


def test_clients_get_what_little_says():
    found = predict_serving(asked())
    latency, rate = found.end_to_end.mean.value, found.rates.requests_per_second.value
    assert latency * rate == pytest.approx(8, rel=0.15)  # the ends of the run have fewer


def test_goodput_is_of_requests_that_keep_the_limits():
    kept = predict_serving(asked(limits=Limits(time_to_first_token_seconds=1e3))).rates
    assert kept.goodput_requests_per_second is not None
    assert kept.goodput_requests_per_second.value == pytest.approx(kept.requests_per_second.value)
    assert predict_serving(asked()).keeps_limits is None
    whole = predict_serving(asked(limits=Limits(end_to_end_seconds=1e3)))
    assert (whole.keeps_limits, whole.within_limits) == (True, Between(1.0, 1.0, 1.0))
    assert predict_serving(asked(limits=Limits(end_to_end_seconds=1e-6))).keeps_limits is False
    none = predict_serving(asked(limits=Limits(end_to_end_seconds=1e-6))).rates
    assert none.goodput_requests_per_second is not None
    assert none.goodput_requests_per_second.value == 0


def test_equal_questions_have_equal_answers():
    request = asked(prompts=Lengths(512, "lognormal", 0.5), load=OpenLoad(10.0))
    one, other = predict_serving(request), predict_serving(request)
    assert one.time_to_first_token == other.time_to_first_token
    assert one.rates == other.rates


def test_cached_prompts_are_sooner_read():
    usual, cached = (predict_serving(asked(prefix_hit_share=share)) for share in (0.0, 0.75))
    assert cached.time_to_first_token.mean.value < usual.time_to_first_token.mean.value


def test_split_pools_read_and_write_apart():
    split = Disaggregated(Pool(TWO), Pool(TWO))
    found = predict_serving(asked(deployment=split))
    assert found.num_devices == 4
    assert any("from pool to pool" in note for note in found.assumptions)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "resnet50"}, InputError, "serving is of models that generate"),
        ({"deployment": Aggregated(Pool(TWO, 3))}, PlanError, r"3 · 2 = 6 devices, but dgx-h100 has 4"),
        (
            {"deployment": Aggregated(Pool(Plan(data_parallel=4)))},
            PlanError,
            "dp=4: attention data-parallel ranks share experts, and this model has none",
        ),
        ({"deployment": Aggregated(Pool(Plan(tensor_parallel=3)))}, PlanError, "tp=3 does not divide 32"),
        (
            {"prompts": Lengths(2_000_000), "deployment": Aggregated(Pool(Plan(), 4))},
            PlanError,
            r"a request of 2,000,016 tokens does not fit an engine: beside .* of weights",
        ),
        (
            {"prompts": Lengths(9_000_000)},
            PlanError,
            "no plan of 4 devices holds the weights and one request",
        ),
        ({"engine": EngineOptions(framework="vllmm")}, UnknownNameError, "vllm"),
        ({"engine": EngineOptions(framework="pytorch")}, UnknownNameError, "sglang, trtllm, vllm"),
        ({"dtype": "bf61"}, UnknownNameError, "bf16"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(changes, error, message):
    with pytest.raises(error, match=message):
        predict_serving(asked(**changes))


def test_wider_caches_hold_fewer_tokens():
    wide, narrow = (
        resolve_serving(asked(kv_cache_dtype=kind)).engines[0].scheduling.kv_tokens
        for kind in ("bf16", "fp8")
    )
    assert narrow == pytest.approx(2 * wide, rel=0.01)


def test_limits_of_a_scheduler_are_those_that_were_set():
    engine = EngineOptions(max_sequences=17, max_step_tokens=333, block_tokens=32, memory_fraction=0.5)
    found = resolve_serving(asked(engine=engine)).engines[0]
    scheduling = found.scheduling
    assert (scheduling.max_sequences, scheduling.max_step_tokens, scheduling.block_tokens) == (17, 333, 32)
    usual = resolve_serving(asked()).engines[0]
    assert scheduling.kv_tokens < usual.scheduling.kv_tokens
    assert found.memory_bytes < usual.memory_bytes <= resolve_serving(asked()).device.memory_bytes


def test_a_request_is_shown_as_it_was_asked():
    request = replace(asked(), engine=EngineOptions(framework="sglang"))
    found = predict_serving(request)
    assert (found.program.framework, found.load) == ("sglang", request.load)


def test_where_prompts_are_read_whole_a_step_holds_the_longest_beside_answers():
    trtllm = EngineOptions(framework="trtllm")
    found = resolve_serving(asked(engine=trtllm, prompts=Lengths(9000), load=ClosedLoad(8)))
    assert found.engines[0].scheduling.max_step_tokens == 9008
    assert any("steps of 9,008 tokens rather than 8,192" in note for note in found.defaults)
    set_by_hand = EngineOptions(framework="trtllm", max_step_tokens=9001)
    assert (
        resolve_serving(asked(engine=set_by_hand, prompts=Lengths(9000)))
        .engines[0]
        .scheduling.max_step_tokens
        == 9001
    )


def test_steady_figures_leave_the_first_wave_out():
    mixed = {"prompts": Lengths(2048, "uniform", 0.5), "answers": Lengths(16, "uniform", 0.5)}
    whole, steady = (
        predict_serving(asked(measure=part, num_requests=640, load=ClosedLoad(64), **mixed))
        for part in ("all", "steady")
    )
    assert steady.time_to_first_token.p99.value < whole.time_to_first_token.p99.value


def test_both_forms_stand_side_by_side_and_events_answer():
    found = predict_serving(asked(method="both"))
    assert (found.method, found.played is not None) == ("events", True)
    assert found.other is not None
    assert (found.other.method, found.other.played) == ("closed_form", None)
    assert found.other.rates.output_tokens_per_second.value == pytest.approx(
        found.rates.output_tokens_per_second.value, rel=0.15
    )


def test_where_the_forms_differ_the_answer_says_so(monkeypatch: pytest.MonkeyPatch):
    slow = predict_serving(asked(method="closed_form", prompts=Lengths(4096)))
    monkeypatch.setattr("perfcast.prediction.serving.predict.by_formula", lambda *_: slow)
    said = predict_serving(asked(method="both")).assumptions[-1]
    assert said.startswith("the closed form differs from the events (mean time to first token +")


def test_a_stream_beyond_what_is_answered_waits_ever_longer():
    few, many = (
        predict_serving(asked(load=OpenLoad(1e4), num_requests=count, method="closed_form"))
        for count in (100, 1000)
    )
    assert many.time_to_first_token.mean.value == pytest.approx(10 * few.time_to_first_token.mean.value)
    assert any("the queue grows without end" in note for note in many.assumptions)


def test_a_recording_has_a_steady_state_by_its_mean_rate():
    times = np.arange(50) / 10
    recorded = Requests(times, np.full(50, 512), np.full(50, 16), np.zeros(50, dtype=np.int64))
    whole = {"requests": recorded, "prompts": None, "answers": None, "num_requests": None}
    found = predict_serving(asked(load=RecordedLoad(), method="both", **whole))
    assert found.other is not None
    assert found.other.rates.requests_per_second.value == pytest.approx(10, rel=0.02)


def test_recorded_lengths_have_a_mean_and_a_spread():
    assert lengths_of(np.array([10, 10])) == Lengths(10)
    assert lengths_of(np.array([10, 30])) == Lengths(20, "lognormal", 0.5)


def test_one_client_waits_for_the_steps_that_a_standing_batch_has():
    alone = asked(
        load=ClosedLoad(1),
        cluster=load_cluster("dgx-h100:2"),
        deployment=Aggregated(Pool(TWO)),
        prompts=Lengths(2048),
        answers=Lengths(64),
        engine=EngineOptions(host_seconds=1e-12, cuda_graphs=False),
        num_requests=3,
    )
    found = predict_serving(alone)
    standing = sweep_batches(
        BatchesRequest(
            model="llama3-8b",
            cluster=alone.cluster,
            plan=TWO,
            batch_sizes=(1,),
            context_lengths=(2048, 2048 + 64),
            modes=("prefill", "decode"),
            cost_model="roofline",
        )
    ).points
    prefill, first, last = standing[0].prefill, standing[0].decode, standing[1].decode
    assert prefill is not None
    assert first is not None
    assert last is not None
    on_its_way = load_serving_constants().request_seconds["vllm"]
    assert found.time_to_first_token.mean.value - on_its_way == pytest.approx(prefill.seconds, rel=0.02)
    each = found.time_per_output_token.mean.value
    assert 0.98 * first.seconds <= each <= 1.02 * last.seconds


def test_a_queue_that_is_never_empty_has_finite_waits_by_formula_too():
    found = predict_serving(asked(load=SaturatedLoad(), method="closed_form", num_requests=500))
    assert 0 < found.time_to_first_token.mean.value < found.time_to_first_token.p99.value < 1e4
    assert found.rates.output_tokens_per_second.value > 0


def test_where_formulas_find_no_balance_events_answer_alone(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PlanError("the closed form finds no steady state of this load; take --method events")

    monkeypatch.setattr("perfcast.prediction.serving.predict.by_formula", refuse)
    found = predict_serving(asked(method="both"))
    assert found.other is None
    assert found.assumptions[-1] == "the closed form finds no steady state of this load"


def test_requests_longer_than_the_model_was_trained_with_are_said():
    notes = predict_serving(asked(prompts=Lengths(9000))).assumptions
    assert any("9,016 tokens, beyond the 8,192" in note for note in notes)


def test_of_many_requests_the_densest_are_played_again(monkeypatch: pytest.MonkeyPatch):
    stream = asked(load=OpenLoad(40.0), num_requests=600)
    whole = predict_serving(stream).end_to_end.mean
    monkeypatch.setattr("perfcast.prediction.serving.events._PLAYED_AGAIN", 200)
    part = predict_serving(stream).end_to_end.mean
    assert part.value == whole.value
    assert (part.low, part.high) == pytest.approx((whole.low, whole.high), rel=0.1)


def test_the_densest_part_of_a_recording_begins_where_most_come():
    times = np.array([0.0, 10.0, 20.0, 20.5, 21.0, 40.0])
    lengths = np.arange(1, 7)
    found = densest(Requests(times, lengths, lengths, np.zeros(6, dtype=np.int64)), 3)
    assert found.arrival_seconds.tolist() == [0.0, 0.5, 1.0]
    assert found.prompt_tokens.tolist() == [3, 4, 5]


def test_what_requests_take_beside_steps_is_said():
    vllm = predict_serving(asked()).assumptions
    assert any("between client and engine" in note for note in vllm)
