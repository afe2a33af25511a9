"""What is computed again where a plan leaves it open: as little as fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import made_up_device
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.training import Training, TrainingFramework
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.plan.recomputation import least_recomputation
from small_transformers import llama

MODEL, S = llama(num_layers=8), 512
MEGATRON = Training(framework="megatron")


def held(plan: Plan, training: Training = MEGATRON) -> int:
    return estimate_footprint(MODEL, plan, training, S, device=made_up_device()).device_bytes


def with_memory(num_bytes: int) -> Device:
    return replace(made_up_device(), memory_bytes=num_bytes)


def chosen(num_bytes: int, framework: TrainingFramework = "megatron") -> tuple[Plan, str]:
    return least_recomputation(MODEL, Plan(), Training(framework=framework), S, with_memory(num_bytes))


def test_a_plan_that_fits_computes_nothing_again():
    assert chosen(held(Plan())) == (Plan(), "")


def test_as_few_layers_are_computed_again_as_fit():
    three = Plan(recompute="full", recompute_layers=3)
    plan, note = chosen(held(three))
    assert plan == three
    assert note.startswith(
        "recomputation was not given: recompute=full,recompute_layers=3, as little as fits"
    )


def test_where_nothing_fits_the_plan_stays_as_it_is():
    assert chosen(1) == (Plan(), "")


@pytest.mark.parametrize("framework", ["torchtitan"])
def test_a_framework_without_some_layers_computes_all_again(framework: TrainingFramework):
    full = Plan(recompute="full")
    plan, _ = chosen(held(full, Training(framework=framework)), framework)
    assert plan == full
