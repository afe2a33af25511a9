"""Columns of many plans equal the closed form of each plan."""

from dataclasses import replace

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.forecast.plan import CAUSES
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import CONTEXT_COMMUNICATION, OFFLOAD, ORDERS, RECOMPUTE, SCHEDULES, Plan
from perfcast.core.plans.idle import without_idle
from perfcast.core.plans.table import join, to_table
from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import FULL
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.names import resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.evaluation.evaluate import evaluate_plans
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans

LENGTH = 1024
DENSE = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=4, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000, is_gated=True, norm="rmsnorm", has_linear_bias=False,
)  # fmt: skip
WITH_EXPERTS = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000, is_gated=True, norm="rmsnorm", has_linear_bias=False,
    ties_embeddings=False, num_prediction_layers=1,
    experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=1024, num_dense_layers=1),
)  # fmt: skip
WITH_WINDOWS = Transformer(
    num_layers=7, hidden_size=512, num_attention_heads=8, num_kv_heads=8, head_size=64, ffn_hidden_size=2048,
    vocab_size=8000, sliding_window=256, num_window_layers=3,
)  # fmt: skip


def random_plans(model, num_devices, batch, count, seed):
    """Plans of many small spaces, each with one choice of everything that is not a degree."""
    draw, tables = np.random.default_rng(seed), []

    def one(words):
        return (words[int(draw.integers(len(words)))],)

    while sum(map(len, tables)) < count:
        space = Space(
            schedules=one(SCHEDULES), zero_stages=one((0, 1, 2, 3)), recomputes=one(RECOMPUTE),
            offloads=one((*OFFLOAD, "none", "none")), orders=one(ORDERS),
            context_communications=one(CONTEXT_COMMUNICATION), overlaps_tensor=one((0, 1)),
            overlaps_gradients=one((0, 1, 1)), overlaps_weights=one((0, 1, 1)), overlaps_experts=one((0, 1)),
        )  # fmt: skip
        try:
            table = enumerate_plans(model, num_devices, batch, LENGTH, space)
        except PlanError:
            continue
        tables.append(table.take(draw.choice(len(table), min(3, len(table)), replace=False)))
    return join(tables)


def with_parts(plans, model, seed):
    """Plans that compute some layers again, state the layers of their parts, or shard over some replicas."""
    draw, found = np.random.default_rng(seed), []
    for at in range(len(plans)):
        plan, layers = plans.plan(at), model.num_layers
        parts = plan.pipeline_parallel * plan.virtual_stages_per_rank
        if plan.recompute == "full" or draw.random() < 0.5:
            most = max(-(-layers // parts), 2)
            plan = replace(plan, recompute="full", recompute_layers=int(draw.integers(1, most + 1)))
        if parts <= layers and draw.random() < 0.5:
            cuts = np.sort(draw.choice(np.arange(1, layers), parts - 1, replace=False))
            plan = replace(plan, stage_layers=tuple(np.diff([0, *cuts, layers]).tolist()))
        sizes = [size for size in range(2, plan.num_dense_replicas) if plan.num_dense_replicas % size == 0]
        if plan.zero_stage and sizes:
            plan = replace(plan, num_shards=int(draw.choice(sizes)))
        found.append(plan)
    return to_table(found)


@pytest.mark.parametrize(
    ("model", "framework", "dtype", "seed", "tuning"),
    [
        (DENSE, "megatron", "bf16", 0, FULL),
        (DENSE, "fsdp", "bf16", 1, FULL),
        (DENSE, "deepspeed", "fp16", 2, FULL),
        (WITH_EXPERTS, "megatron", "fp8", 3, FULL),
        (WITH_EXPERTS, "nanotron", "bf16", 4, FULL),
        (WITH_WINDOWS, "megatron_local", "bf16", 5, FULL),
        (WITH_WINDOWS, "nanotron", "bf16", 6, FULL),
        (DENSE, "megatron", "fp8", 7, parse_tuning(lora="rank=8,dropout=0.1")),
        (WITH_EXPERTS, "fsdp", "bf16", 8, parse_tuning(qlora="rank=4,targets=attention")),
        (WITH_WINDOWS, "deepspeed", "bf16", 9, parse_tuning(freeze="embedding,head,layers:0-2")),
    ],
)
def test_columns_equal_the_closed_form_of_each_plan(model, framework, dtype, seed, tuning):
    cluster, training = load_cluster("dgx-h100:32"), Training(framework=framework, dtype=dtype, tuning=tuning)
    device, cost_model = resolve_device(cluster.device), Roofline()
    plans = random_plans(model, 32, 64, 24, seed)
    plans = join([plans, with_parts(plans.take(np.arange(12)), model, seed)])
    found = evaluate_plans(model, cluster, plans, training, LENGTH, device=device, cost_model=cost_model)
    for at in range(len(plans)):
        plan = without_idle(plans.plan(at), mode="train", model=model)
        one = predict_plan(
            model, cluster, plan, training=training, sequence_length=LENGTH, cost_model=cost_model,
            method="closed_form", recommendations=False, memory=False,
        )  # fmt: skip
        assert found.step_seconds[at] == pytest.approx(one.step_seconds, rel=1e-9), plan
        assert found.tokens_per_second[at] == pytest.approx(one.tokens_per_second, rel=1e-9)
        assert found.mfu[at] == pytest.approx(one.mfu, rel=1e-9)
        by_cause = one.time.seconds_by_cause
        for cause in CAUSES:
            expected = pytest.approx(by_cause.get(cause, 0.0), abs=1e-9 * one.step_seconds)
            assert found.seconds_by_cause[cause][at] == expected, (cause, plan)


def test_memory_is_that_of_each_plan_and_says_what_fits():
    cluster, training = load_cluster("dgx-h100:32"), Training(framework="megatron")
    device = resolve_device(cluster.device)
    plans = random_plans(DENSE, 32, 64, 10, 7)
    plans = join([plans, with_parts(plans, DENSE, 7)])
    found = evaluate_plans(
        DENSE, cluster, plans, training, LENGTH, device=device, cost_model=Roofline(),
        max_memory_fraction=0.03,
    )  # fmt: skip
    for at in range(len(plans)):
        one = estimate_footprint(DENSE, plans.plan(at), training, LENGTH, device=device)
        assert found.peak_bytes[at] == one.peak_bytes
        assert found.fits[at] == (one.device_bytes <= 0.03 * device.memory_bytes)


def test_plans_of_another_size_are_refused():
    cluster, training = load_cluster("dgx-h100:32"), Training(framework="megatron")
    with pytest.raises(PlanError, match="a plan for 8 devices, but dgx-h100 has 32"):
        evaluate_plans(
            DENSE, cluster, to_table([Plan(data_parallel=8)]), training, LENGTH,
            device=resolve_device(cluster.device), cost_model=Roofline(),
        )  # fmt: skip
