"""Many plans at once, of which few stages are looked at, have the footprint that each has alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import split_evenly
from perfcast.core.plan import OFFLOAD, RECOMPUTE, Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.core.tuning.text import format_tuning, parse_tuning
from perfcast.core.tuning.trained import Tuning
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint, footprint_columns
from small_transformers import gpt, llama, mixture

LENGTH = 256


def plans_of(has_experts: bool) -> list[Plan]:
    """Every kind of plan, thinned to what a test has time for."""
    kinds = [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("zero_bubble", 1), ("dualpipe", 1)]
    found = []
    grid = product(kinds, (1, 2, 4), (1, 2, 4), (0, 1, 2, 3), RECOMPUTE, OFFLOAD, (False, True))
    for number, ((schedule, chunks), tensor, stages, zero, recompute, offload, flag) in enumerate(grid):
        if number % 7 or (schedule in ("interleaved", "dualpipe") and stages == 1):
            continue
        found.append(
            Plan(
                data_parallel=4, tensor_parallel=tensor, pipeline_parallel=stages, schedule=schedule,
                virtual_stages_per_rank=chunks, zero_stage=zero, recompute=recompute, offload=offload,
                sequence_parallel=flag, reshard_after_forward=flag, micro_batch_size=1 + number % 3,
                num_micro_batches=2 * (1 + number % 5), context_parallel=1 + number % 2,
                expert_parallel=1 + (number % 3 == 0) if has_experts else 1,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("model", "framework"),
    [
        (gpt(), "megatron"),
        (llama(), "nanotron"),
        (gpt(), "deepspeed"),
        (mixture(), "megatron"),
        (llama(), "fsdp"),
    ],
    ids=["gpt-megatron", "llama-nanotron", "gpt-deepspeed", "mixture-megatron", "llama-fsdp"],
)
def test_columns_equal_the_footprint_of_each_plan_to_the_byte(model: Transformer, framework: str):
    plans, training = plans_of(model.experts is not None), Training(framework=framework)
    device = load_device("h100-sxm")
    columns = footprint_columns(model, to_table(plans), training, LENGTH, device=device)
    alone = [estimate_footprint(model, plan, training, LENGTH, device=device) for plan in plans]
    np.testing.assert_array_equal(columns.peak_bytes, [f.peak_bytes for f in alone])
    np.testing.assert_array_equal(columns.device_bytes, [f.device_bytes for f in alone])
    assert (columns.state_bytes + columns.activation_bytes <= columns.peak_bytes).all()


@pytest.mark.parametrize("optimizer", ["adamw_8bit", "adafactor", "muon"])
def test_columns_know_every_optimizer(optimizer: str):
    plans = [Plan(data_parallel=4, expert_parallel=2, pipeline_parallel=2, zero_stage=z) for z in range(4)]
    training = Training(framework="megatron", optimizer=optimizer)
    columns = footprint_columns(mixture(), to_table(plans), training, LENGTH)
    alone = [estimate_footprint(mixture(), plan, training, LENGTH) for plan in plans]
    np.testing.assert_array_equal(columns.peak_bytes, [f.peak_bytes for f in alone])
    assert (np.diff(columns.state_bytes) <= 0).all()


def plans_of_parts(num_layers: int) -> list[Plan]:
    """Some layers of each part computed again, and layers dealt out by hand."""
    found = []
    kinds = [("1f1b", 1, 4), ("interleaved", 2, 2), ("dualpipe", 1, 2), ("gpipe", 1, 2), ("1f1b", 1, 1)]
    for number, ((schedule, chunks, stages), layers, offload) in enumerate(
        product(kinds, (None, 1, 2), OFFLOAD)
    ):
        parts = stages * chunks
        split = split_evenly(num_layers - 1, parts)
        found += [
            Plan(
                data_parallel=4, num_shards=2, pipeline_parallel=stages, schedule=schedule,
                virtual_stages_per_rank=chunks,
                recompute="full", recompute_layers=layers, offload=offload, zero_stage=number % 3,
                num_micro_batches=4 * (1 + number % 2), stage_layers=stated,
            )
            for stated in ((), (*split[:-1], split[-1] + 1), (*split[1:], split[0] + 1))
        ]  # fmt: skip
    return found


@pytest.mark.parametrize("model", [gpt(), mixture()], ids=["gpt", "mixture"])
def test_columns_of_parts_equal_the_footprint_of_each_plan_to_the_byte(model: Transformer):
    plans, training = plans_of_parts(model.num_layers), Training(framework="megatron")
    columns = footprint_columns(model, to_table(plans), training, LENGTH)
    alone = [estimate_footprint(model, plan, training, LENGTH) for plan in plans]
    np.testing.assert_array_equal(columns.peak_bytes, [f.peak_bytes for f in alone])


@pytest.mark.parametrize("changes", [{}, {"zero_stage": 1}, {"recompute": "full", "num_micro_batches": 2}])
def test_columns_of_plain_pytorch_equal_the_footprint_of_each_plan(changes):
    plans = [Plan(data_parallel=2), Plan(data_parallel=2, **changes)]
    columns = footprint_columns(gpt(), to_table(plans), Training(), LENGTH)
    alone = [estimate_footprint(gpt(), plan, Training(), LENGTH) for plan in plans]
    np.testing.assert_array_equal(columns.peak_bytes, [f.peak_bytes for f in alone])
    np.testing.assert_array_equal(columns.device_bytes, [f.device_bytes for f in alone])
    assert (columns.state_bytes + columns.activation_bytes <= columns.peak_bytes).all()


def test_plain_pytorch_cannot_cut_a_model():
    with pytest.raises(PlanError, match="pytorch"):
        footprint_columns(gpt(), to_table([Plan(tensor_parallel=2)]), Training(), LENGTH)


@pytest.mark.parametrize(
    ("model", "framework"),
    [(llama(), "megatron"), (mixture(), "fsdp"), (llama(), "deepspeed")],
    ids=["llama-megatron", "mixture-fsdp", "llama-deepspeed"],
)
@pytest.mark.parametrize(
    "tuning",
    [
        parse_tuning(lora="rank=8"),
        parse_tuning(lora="rank=4,targets=attention,dropout=0.1"),
        parse_tuning(qlora="rank=4,targets=q+v"),
        parse_tuning(freeze="embedding,layers:0-4"),
        parse_tuning(freeze="attention,layers:2-3"),
        parse_tuning(freeze="embedding,attention,mlp,norms"),
    ],
    ids=format_tuning,
)
def test_columns_know_what_trains(model: Transformer, framework: str, tuning: Tuning):
    plans = plans_of(model.experts is not None)[::5]
    if tuning.is_quantised and framework == "megatron":
        framework = "fsdp"
    training = Training(framework=framework, tuning=tuning)
    columns = footprint_columns(model, to_table(plans), training, LENGTH)
    alone = [estimate_footprint(model, plan, training, LENGTH) for plan in plans]
    np.testing.assert_array_equal(columns.peak_bytes, [f.peak_bytes for f in alone])
