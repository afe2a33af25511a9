"""Which deployment is chosen, and what one must be."""

from __future__ import annotations

from typing import Any

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated, Pool
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.prediction.request.serving import EngineOptions
from perfcast.prediction.serving.deployment import check_deployment, choose_deployment
from perfcast.prediction.serving.scheduler import scheduler_of
from small_transformers import llama, mixture

EIGHT = load_cluster("dgx-h100:8")
H100 = load_device("h100-sxm")


def chosen(tokens_by_devices: dict[int, int], **changes: Any) -> tuple[Plan, int]:
    asked = {"longest": 100, "mean": 50.0, "num_requests": 10} | changes
    found, _ = choose_deployment(
        llama(heads=8), EIGHT, lambda plan: tokens_by_devices.get(plan.world_size, 0), **asked
    )
    return found.pool.plan, found.pool.replicas


def test_the_smallest_plan_that_holds_ten_requests_is_repeated():
    plan, replicas = chosen({1: 90, 2: 600, 4: 2000})
    assert (plan.tensor_parallel, plan.pipeline_parallel, replicas) == (2, 1, 4)


def test_where_none_holds_them_the_one_is_taken_that_holds_the_longest_request():
    assert chosen({1: 90, 2: 120, 4: 130}, num_requests=30)[0].world_size == 4


def test_where_none_holds_even_one_request_that_is_said():
    with pytest.raises(
        PlanError, match="no plan of 8 devices holds the weights and one request of 100 tokens"
    ):
        chosen({1: 90})


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (Aggregated(Pool(Plan(tensor_parallel=2), 5)), r"5 · 2 = 10 devices, but dgx-h100 has 8"),
        (
            Disaggregated(Pool(Plan(tensor_parallel=4), 1), Pool(Plan(tensor_parallel=8), 1)),
            r"1 · 4 \+ 1 · 8 = 12 devices",
        ),
        (Aggregated(Pool(Plan(data_parallel=2))), "this model has none"),
        (Aggregated(Pool(Plan(context_parallel=2))), "cp=2: a plan of serving has tp, pp, dp and ep"),
        (Aggregated(Pool(Plan(pipeline_parallel=16))), "pp=16 stages of 8 layers"),
    ],
)
def test_what_is_no_deployment_is_refused(deployment: Any, message: str):
    with pytest.raises(PlanError, match=message):
        check_deployment(deployment, llama(), EIGHT)


def test_ranks_of_attention_share_experts_and_a_part_of_a_cluster_is_enough():
    check_deployment(
        Aggregated(Pool(Plan(data_parallel=4, expert_parallel=4))), mixture(), load_cluster("dgx-h100:8")
    )


def test_a_scheduler_is_the_frameworks_but_for_what_was_set():
    usual = scheduler_of("vllm", H100, Plan(), EngineOptions())
    assert (usual.policy, usual.kv_tokens) == ("vllm", 1)
    changed = scheduler_of("vllm", H100, Plan(), EngineOptions(max_sequences=3, chunks_prompts=False))
    assert (changed.max_sequences, changed.chunks_prompts) == (3, False)
    assert changed.max_step_tokens == usual.max_step_tokens
    assert scheduler_of("vllm", H100, Plan(), EngineOptions(version="0.4.0")).policy == "vllm_v0"


def test_versions_and_frameworks_that_are_none_are_refused():
    with pytest.raises(InputError, match="give it as X"):
        scheduler_of("vllm", H100, Plan(), EngineOptions(version="latest"))
    with pytest.raises(UnknownNameError, match="sglang, trtllm, vllm"):
        scheduler_of("megatron", H100, Plan(), EngineOptions())
