"""A search offers what its framework can run, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import CONTEXT_COMMUNICATION, ORDERS, Plan
from perfcast.core.plans.idle import refuse_idle
from perfcast.core.plans.table import PlanTable
from perfcast.core.plans.text import format_plan, parse_plan
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.obstacles import plan_obstacles
from perfcast.searches.request import SearchRequest
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans
from perfcast.searches.space.fixed import read_fixed
from perfcast.searches.space.support import fixed_obstacles, supported_space

LENGTH, BATCH = 256, 8
MODEL = Transformer(
    num_layers=4, hidden_size=128, num_attention_heads=4, num_kv_heads=4, head_size=32, ffn_hidden_size=384,
    vocab_size=1024, experts=Experts(num_experts=4, experts_per_token=2, ffn_hidden_size=96),
)  # fmt: skip
#: More of everything than a search tries by itself.
WIDE = Space(
    orders=ORDERS, context_communications=CONTEXT_COMMUNICATION, num_shards=(0, 2), recompute_layers=(0, 1),
    overlaps_experts=(0, 1), largest_micro_batch=1, largest_virtual_stages=2, least_context_tokens=64,
)  # fmt: skip


@cache
def offered(framework: str, *, model: Transformer = MODEL) -> PlanTable:
    support = load_training_profile(framework).support
    return enumerate_plans(model, 8, BATCH, LENGTH, supported_space(WIDE, support))


@given(framework=st.sampled_from(FRAMEWORKS), place=st.floats(0, 1, exclude_max=True))
@settings(max_examples=400, deadline=None)
def test_no_plan_that_is_offered_has_an_obstacle(framework: str, place: float):
    table, support = offered(framework), load_training_profile(framework).support
    plan = table.plan(int(place * len(table)))
    assert plan_obstacles(support, plan) == ()


@given(
    framework=st.sampled_from(FRAMEWORKS),
    place=st.floats(0, 1, exclude_max=True),
    model=st.sampled_from([MODEL, replace(MODEL, experts=None)]),
)
@settings(max_examples=300, deadline=None)
def test_nothing_that_the_text_of_an_offered_plan_says_is_without_effect(framework, place, model):
    table = offered(framework, model=model)
    plan = table.plan(int(place * len(table)))
    refuse_idle(plan, parse_plan(format_plan(plan)), mode="train", model=model)


@pytest.mark.parametrize("framework", ["megatron", "fsdp", "deepspeed"])
def test_of_a_small_space_every_plan_without_an_obstacle_is_offered(framework: str):
    space = replace(
        WIDE, fixed={"tp": 2, "mbs": 1, "sp": 0, "ep": 1}, offloads=("none",), recompute_layers=(0,),
        overlaps_experts=(0,), overlaps_gradients=(1,), context_communications=("ring", "ulysses"),
    )  # fmt: skip
    support = load_training_profile(framework).support
    every = enumerate_plans(MODEL, 8, BATCH, LENGTH, space)
    plans = {every.plan(at) for at in range(len(every))}
    left = enumerate_plans(MODEL, 8, BATCH, LENGTH, supported_space(space, support))
    found = {left.plan(at) for at in range(len(left))}
    runnable = {plan for plan in plans if not plan_obstacles(support, plan)}
    assert 0 < len(runnable) < len(plans)
    assert found == runnable


@pytest.mark.parametrize(
    ("framework", "text", "says"),
    [
        ("megatron", "schedule=dualpipe", "schedule=dualpipe: it has 1f1b and interleaved"),
        ("megatron", "order=pp-tp-cp-dp", "order=pp-tp-cp-dp: it has"),
        ("megatron", "zero=2,pp=4", "zero=2 with pp=4"),
        ("megatron", "zero=3,reshard=0", "weights that are kept"),
        ("megatron", "offload=parameters", "it moves optimizer states or activations"),
        ("pytorch", "tp=2", "tp=2: it keeps the model whole"),
        ("pytorch", "vp=2,pp=2", "pp=2: it keeps the model whole"),
        ("nanotron", "recompute_layers=2", "recompute_layers=2"),
        ("nanotron", "overlap_gradients=0", "exchanges that do not overlap"),
        ("nanotron", "cp_type=ulysses", "cp_type=ulysses: it has ring"),
        ("deepspeed", "shards=4", "it shards over all replicas"),
    ],
)  # fmt: skip
def test_a_fixed_choice_that_the_framework_cannot_run_is_named(framework: str, text: str, says: str):
    found = "; ".join(fixed_obstacles(read_fixed(text), load_training_profile(framework).support))
    assert says in found
    with pytest.raises(PlanError, match="--any-framework"):
        SearchRequest(
            model=MODEL,
            clusters=("dgx-h100:8",),
            global_batch_size=BATCH,
            space=Space(fixed=read_fixed(text)),
            training=Training(framework=framework),
        )


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "text", ["mbs=2", "dp=4", "sp=0", "recompute=full", "stages=balanced", "etp=1", "zero=0"]
)
def test_what_every_framework_can_run_is_not_refused(framework: str, text: str):
    assert fixed_obstacles(read_fixed(text), load_training_profile(framework).support) == ()


def test_with_any_framework_all_plans_are_offered():
    fixed = read_fixed("schedule=dualpipe")
    request = SearchRequest(
        model=MODEL, clusters=("dgx-h100:8",), global_batch_size=BATCH, space=Space(fixed=fixed),
        any_framework=True,
    )  # fmt: skip
    assert request.runnable_space is request.space


def test_a_framework_without_rings_cuts_sequences_as_it_can():
    table = offered("deepspeed")
    cut = table.context_parallel > 1
    assert cut.any()
    words = {CONTEXT_COMMUNICATION[code] for code in np.unique(table.context_communication[cut]).tolist()}
    assert words == {"ulysses"}
    whole = np.unique(table.context_communication[~cut])
    assert whole.tolist() == [CONTEXT_COMMUNICATION.index(Plan().context_communication)]
