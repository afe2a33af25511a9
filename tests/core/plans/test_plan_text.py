"""Plans as text: one vocabulary, one parser, one printer."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfcast.core.plan import CONTEXT_COMMUNICATION, DISPATCHES, OFFLOAD, ORDERS, RECOMPUTE, Plan
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.idle import without_idle
from perfcast.core.plans.text import PLAN_KEYS, format_plan, format_values, parse_plan
from perfcast.errors import InputError, PlanError, UnknownNameError


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of every key, as far as their numbers go together."""
    stages, chunks = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2]))
    has_chunks = stages > 1 and chunks > 1
    schedules = ["interleaved"] if has_chunks else ["1f1b", "gpipe", "zero_bubble", "dualpipe"]
    recompute = draw(st.sampled_from(RECOMPUTE))
    parts = stages * (chunks if has_chunks else 1)
    values = {
        "data_parallel": draw(st.sampled_from([1, 2, 4, 6])),
        "tensor_parallel": draw(st.sampled_from([1, 2, 4])),
        "tensor_parallel_inputs": draw(st.sampled_from([1, 2])),
        "pipeline_parallel": stages,
        "context_parallel": draw(st.sampled_from([1, 2])),
        "expert_parallel": draw(st.sampled_from([1, 2])),
        "expert_tensor_parallel": draw(st.sampled_from([None, 1, 2])),
        "virtual_stages_per_rank": chunks if has_chunks else 1,
        "micro_batch_size": draw(st.sampled_from([1, 2, 3])),
        "num_micro_batches": draw(st.sampled_from([2, 8])),
        "zero_stage": draw(st.integers(0, 3)),
        "sequence_parallel": draw(st.booleans()),
        "recompute": recompute,
        "recompute_modules": draw(st.sampled_from([(), ("moe_act",), ("core_attn", "mla_up_proj")]))
        if recompute == "selective"
        else (),
        "recompute_layers": draw(st.sampled_from([None, 1, 3])) if recompute == "full" else None,
        "schedule": draw(st.sampled_from(schedules)),
        "reshard_after_forward": draw(st.booleans()),
        "num_prefetched": draw(st.integers(0, 3)),
        "offload": draw(st.sampled_from(OFFLOAD)),
        "order": draw(st.sampled_from(ORDERS)),
        "stage_layers": draw(st.sampled_from([(), tuple(range(1, parts + 1))])),
        "context_communication": draw(st.sampled_from(CONTEXT_COMMUNICATION)),
        "num_shards": draw(st.sampled_from([None, 2])),
        "overlaps_tensor": draw(st.booleans()),
        "overlaps_gradients": draw(st.booleans()),
        "overlaps_weights": draw(st.booleans()),
        "overlaps_experts": draw(st.booleans()),
        "overlaps_shared_experts": draw(st.booleans()),
        "bucket_bytes": draw(st.sampled_from([None, 1, 25 * 2**20])),
        "capacity_factor": draw(st.sampled_from([None, 1.25, 1 / 3])),
        "expert_imbalance": draw(st.sampled_from([1.0, 1.1, 2.0])),
        "dispatch": draw(st.sampled_from([None, *DISPATCHES])),
    }
    assert values.keys() == {field.name for field in fields(Plan)}
    try:
        return Plan(**values)
    except PlanError:
        assume(False)
        raise


def as_asked(plan: Plan) -> Plan:
    """With the tensor parallelism of experts stated only where a text must state it."""
    follows = replace(plan, expert_tensor_parallel=None)
    return follows if follows.tensor_parallel_of_experts == plan.tensor_parallel_of_experts else plan


@given(plans(), st.sampled_from([",", " ", ", "]))
def test_a_plan_reads_back_from_its_text(plan: Plan, separator: str):
    plan = without_idle(plan)
    values = parse_plan(format_plan(plan, separator))
    back = complete_plan(values, plan.world_size, plan.global_batch_size)
    assert as_asked(back) == as_asked(plan)
    assert format_plan(back) == format_plan(plan)


@given(plans())
def test_what_is_said_of_a_plan_reads_back_alone(plan: Plan):
    values = parse_plan(format_plan(plan))
    assert parse_plan(format_values(values)) == values


def test_every_field_of_a_plan_but_the_number_of_micro_batches_has_a_key():
    assert {key.field for key in PLAN_KEYS.values()} == {field.name for field in fields(Plan)} - {
        "num_micro_batches"
    }


def test_the_usual_goes_without_saying():
    assert format_plan(Plan()) == "mbs=1"
    assert format_plan(Plan(tensor_parallel=2, data_parallel=4, sequence_parallel=True)) == "tp=2,dp=4,mbs=1"
    chunked = Plan(pipeline_parallel=2, virtual_stages_per_rank=2, schedule="interleaved")
    assert format_plan(chunked, " ") == "pp=2 vp=2 mbs=1"


def test_items_stand_behind_commas_or_blanks_and_a_comma_too_many_does_no_harm():
    expected = {"tensor_parallel": 2, "recompute": "full"}
    assert parse_plan(" tp=2, recompute=full,") == parse_plan("tp=2 recompute=full") == expected
    assert parse_plan("") == {}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("zero=0", {"zero_stage": 0}),
        ("sp=1", {"sequence_parallel": True}),
        ("stages=7/8/8/7", {"stage_layers": (7, 8, 8, 7)}),
        ("stages=balanced", {"stage_layers": "balanced"}),
        ("overlap_gradients=0", {"overlaps_gradients": False}),
        ("bucket=40MB", {"bucket_bytes": 40_000_000}),
        ("bucket=2.5MiB", {"bucket_bytes": 5 * 2**19}),
        ("capacity=1.25", {"capacity_factor": 1.25}),
    ],
)
def test_values_are_read_by_their_kind(text: str, values: dict[str, object]):
    assert parse_plan(text) == values
    assert parse_plan(format_values(values)) == values


def test_overlap_says_what_runs_beside_the_compute_and_what_does_not():
    assert parse_plan("overlap=tensor+weights") == {
        "overlaps_tensor": True,
        "overlaps_gradients": False,
        "overlaps_weights": True,
        "overlaps_experts": False,
    }
    assert not any(parse_plan("overlap=none").values())
    assert format_values(parse_plan("mbs=2,overlap=weights+tensor")) == "overlap=tensor+weights,mbs=2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp", "'tp' is not KEY=VALUE"),
        ("tp=", "'tp=' is not KEY=VALUE"),
        ("=2", "unknown plan key ''"),
        ("tp=two", "--fix tp=two: not a whole number"),
        ("tp=0", "tp=0: must be at least 1"),
        ("tp=²", "tp=²: not a whole number"),
        ("recompute_layers=0", "must be at least 1"),
        ("prefetch=-1", "not a whole number"),
        ("zero=4", "must be 0, 1, 2 or 3"),
        ("sp=2", "must be 0 or 1"),
        ("recompute=ful", "unknown recompute 'ful'. Did you mean full"),
        ("stages=7//7", "layers of each stage, such as 7/8/8/7, or even or balanced"),
        ("bucket=2.5", "not a whole number"),
        ("bucket=xMB", "not a number"),
        ("capacity=inf", "not a number"),
        ("tp=2,tp=4", "tp is given twice"),
        ("overlap=tensor,overlap_tensor=0", "overlap_tensor is given twice"),
        ("overlap=tensors", "Did you mean tensor"),
        ("recompute_layer=2", "Did you mean recompute_layers"),
        ("xyz=1", "Known: tp, pp, cp"),
    ],
)
def test_what_no_plan_can_have_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_plan(text, "--fix")


def test_an_unknown_key_lists_close_ones_and_all():
    with pytest.raises(UnknownNameError) as error:
        parse_plan("recomput=full")
    assert "recompute" in error.value.close_names
    assert "prefetch" in str(error.value)
