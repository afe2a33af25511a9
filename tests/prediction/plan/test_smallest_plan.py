from dataclasses import replace
from typing import Any

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.plan.smallest import choose_smallest_plan
from perfcast.units import GIB
from small_transformers import llama, mixture

H100 = load_device("h100-sxm")
MEGATRON = Training(framework="megatron")
BIG = llama(
    heads=64, kv_heads=8, num_layers=80, hidden_size=8192, head_size=128, ffn_hidden_size=28_672,
    vocab_size=128_256,
)  # fmt: skip


def choose(model: Transformer, devices: int = 64, batch: int = 512, **changes: Any) -> Plan:
    options = {"device": H100, "server_devices": 8, **changes}
    return choose_smallest_plan(model, MEGATRON, 8192, devices, batch, **options)


def test_a_small_model_is_not_cut() -> None:
    plan = choose(llama())
    assert (plan.tensor_parallel, plan.pipeline_parallel, plan.data_parallel) == (1, 1, 64)
    assert plan.global_batch_size == 512


def test_the_chosen_plan_fits_and_none_that_cuts_less_does() -> None:
    plan = choose(BIG)
    cut = plan.tensor_parallel * plan.pipeline_parallel
    assert cut > 1
    assert estimate_footprint(BIG, plan, MEGATRON, 8192, device=H100).device_bytes <= H100.memory_bytes
    for tensor in (1, 2, 4, 8):
        if tensor < cut:
            stages = cut // 2 // tensor or 1
            other = replace(
                plan, tensor_parallel=tensor, pipeline_parallel=stages, sequence_parallel=tensor > 1,
                data_parallel=64 // tensor // stages, num_micro_batches=512 * tensor * stages // 64,
            )  # fmt: skip
            footprint = estimate_footprint(BIG, other, MEGATRON, 8192, device=H100)
            assert footprint.device_bytes > H100.memory_bytes


def test_tensor_parallelism_stays_within_a_server() -> None:
    assert choose(BIG, server_devices=4).tensor_parallel <= 4


def test_experts_are_spread_before_a_model_is_cut() -> None:
    experts = Experts(num_experts=64, experts_per_token=2, ffn_hidden_size=14_336)
    plan = choose(llama(heads=32, kv_heads=8, hidden_size=4096, head_size=128, experts=experts))
    assert plan.expert_parallel > 1
    assert (plan.tensor_parallel, plan.pipeline_parallel) == (1, 1)


def test_a_model_that_nothing_makes_fit_is_refused() -> None:
    with pytest.raises(PlanError, match="times the memory of one"):
        choose(mixture(), device=replace(H100, memory_bytes=GIB // 2))


def test_a_batch_that_no_plan_divides_is_refused_with_its_numbers() -> None:
    with pytest.raises(PlanError, match="7 sequences among 64 devices"):
        choose(llama(num_layers=1, heads=1, kv_heads=1), batch=7)
