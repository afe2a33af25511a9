"""Whole forecasts: more work never takes less time, faster devices never more, all parts are of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.prediction.step.predict import predict_plan

DENSE = Transformer(
    num_layers=8,
    hidden_size=1024,
    num_attention_heads=16,
    num_kv_heads=8,
    head_size=64,
    ffn_hidden_size=3072,
    vocab_size=32000,
    is_gated=True,
    norm="rmsnorm",
    has_linear_bias=False,
)
SPARSE = replace(DENSE, experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=1024))
CLUSTERS = ("dgx-h100:8", "dgx-a100:8", "dgx-b200:8")
ENGINES = ("vllm", "sglang", "trtllm")
#: Whole steps are not made smaller where a law is broken: that takes minutes.
AS_DRAWN = (Phase.explicit, Phase.generate)
models = st.sampled_from((DENSE, SPARSE))
clusters = st.sampled_from(CLUSTERS)
batches = st.one_of(st.integers(1, 130), st.sampled_from((31, 32, 63, 64, 127, 128)))
lengths = st.sampled_from((64, 100, 256, 500, 1024))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, pipeline = draw(st.sampled_from(((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (1, 4), (2, 4))))
    return Plan(
        data_parallel=8 // tensor // pipeline,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        micro_batch_size=draw(st.integers(1, 4)),
        num_micro_batches=draw(st.integers(1, 6)),
        zero_stage=draw(st.integers(0, 3 if pipeline == 1 else 1)),
        sequence_parallel=tensor > 1 and draw(st.booleans()),
        recompute=draw(st.sampled_from(("none", "full"))),
    )


def trained(
    model: Transformer, cluster: str | Cluster, plan: Plan, length: int, **options: object
) -> PlanForecast:
    return predict_plan(
        model,
        cluster,
        plan,
        sequence_length=length,
        framework="megatron",
        recommendations=False,
        memory=False,
        **options,  # type: ignore[arg-type]
    )


@settings(max_examples=cases(12, share=0.005), phases=AS_DRAWN)
@given(
    models, clusters, plans(), lengths, st.sampled_from(("micro", "count", "length", "layers")), st.booleans()
)
def test_a_training_step_of_more_work_never_takes_less(model, cluster, plan, length, what, is_played):
    method = "simulated" if is_played else "closed_form"
    grown, longer, deeper = plan, length, model
    if what == "micro":
        grown = replace(plan, micro_batch_size=plan.micro_batch_size + 1)
    elif what == "count":
        grown = replace(plan, num_micro_batches=plan.num_micro_batches + 1)
    elif what == "length":
        longer = length + 8
    else:
        deeper = replace(model, num_layers=model.num_layers + plan.pipeline_parallel)
    less = trained(model, cluster, plan, length, method=method)
    more = trained(deeper, cluster, grown, longer, method=method)
    # By formula a step that waits for its host hides a little more communication the more it computes.
    assert more.step_seconds >= less.step_seconds * (1 - (1e-12 if is_played else 0.001))


@settings(max_examples=cases(12, share=0.005), phases=AS_DRAWN)
@given(
    models,
    clusters,
    st.sampled_from(("prefill", "decode")),
    st.sampled_from(ENGINES),
    batches,
    lengths,
    st.sampled_from(("batch", "length", "layers")),
)
def test_an_answer_to_more_never_takes_less(model, cluster, mode, framework, batch, length, what):
    def ask(model: Transformer, batch: int, length: int) -> float:
        return predict_plan(
            model,
            load_cluster(cluster.replace(":8", ":1")),
            Plan(micro_batch_size=batch),
            mode=mode,
            sequence_length=length,
            framework=framework,
            recommendations=False,
            memory=False,
        ).step_seconds

    deeper = replace(model, num_layers=model.num_layers + (what == "layers"))
    more = ask(deeper, batch + (what == "batch"), length + (what == "length"))
    assert more >= ask(model, batch, length) * (1 - 1e-12)


@settings(max_examples=cases(6, share=0.003), phases=AS_DRAWN)
@given(models, clusters, plans(), lengths, st.floats(1, 4))
def test_faster_links_never_make_a_step_slower_nor_oversubscribed_ones_faster(
    model, cluster, plan, length, factor
):
    usual = load_cluster(cluster)

    def with_links(**changes: float) -> Cluster:
        levels = tuple(
            replace(
                level, link=replace(level.link, **{n: getattr(level.link, n) * v for n, v in changes.items()})
            )
            for level in usual.levels
        )
        return replace(usual, levels=levels)

    step = trained(model, usual, plan, length).step_seconds
    faster = with_links(bytes_per_second=factor, port_bytes_per_second=factor, latency_seconds=1 / factor)
    assert trained(model, faster, plan, length).step_seconds <= step * (1 + 1e-9)
    narrow = with_links(oversubscription=factor)
    assert trained(model, narrow, plan, length).step_seconds >= step * (1 - 1e-9)


@settings(max_examples=cases(8, share=0.003), phases=AS_DRAWN)
@given(models, clusters, plans(), lengths)
def test_causes_of_a_rank_sum_to_the_step_and_cut_work_to_the_whole(model, cluster, plan, length):
    forecast = trained(model, cluster, plan, length)
    assert forecast.step_seconds_low <= forecast.step_seconds <= forecast.step_seconds_high
    for rank in forecast.time.ranks:
        assert sum(rank.seconds_by_cause.values()) == pytest.approx(forecast.step_seconds, rel=1e-6)
    alone = trained(
        model,
        cluster,
        replace(plan, data_parallel=8, tensor_parallel=1, pipeline_parallel=1, sequence_parallel=False),
        length,
    )
    assert alone.flops / alone.num_tokens == pytest.approx(forecast.flops / forecast.num_tokens, rel=1e-9)
