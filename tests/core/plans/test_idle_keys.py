"""Keys of a plan that would change nothing are errors; what merely says that a thing is off is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.mode import MODES, Mode
from perfcast.core.model.transformer import Experts
from perfcast.core.plan import Plan, RecomputeModule
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.idle import refuse_idle, without_idle
from perfcast.core.plans.text import parse_plan
from perfcast.errors import PlanError
from small_transformers import llama

DENSE = llama()
SPARSE = replace(DENSE, experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=64))


def refused(text: str, mode: Mode = "train", devices: int = 8) -> str:
    values = parse_plan(text)
    with pytest.raises(PlanError) as raised:
        complete_plan(values, devices, mode=mode)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("vp=2", "vp=2 has no effect: pp=1 has no pipeline; leave it out, or give pp"),
        ("schedule=1f1b", "schedule=1f1b has no effect: pp=1 has no pipeline"),
        ("stages=32", "stages=32 has no effect: pp=1"),
        ("cp_type=ring", "cp_type=ring has no effect: cp=1 cuts no sequence; leave it out, or give cp"),
        ("order=tp-cp-pp-dp", "order=tp-cp-pp-dp has no effect: fewer than two axes"),
        ("sp=1", "sp=1 has no effect: tp=1 cuts nothing"),
        ("overlap=tensor", "overlap_tensor=1 has no effect: tp=1 sends nothing"),
        ("shards=4", "shards=4 has no effect: zero=0 shards nothing"),
        ("zero=1,prefetch=1", "prefetch=1 has no effect: zero=1 gathers no weights"),
        ("zero=2,reshard=1", "reshard=1 has no effect: zero=2 gathers no weights"),
        ("tp=8,bucket=25MiB", "has no effect: dp · cp = 1 replica reduces no gradients"),
    ],
)
def test_what_the_rest_of_the_plan_makes_idle_is_refused_also_at_its_usual_value(text: str, says: str):
    assert says in refused(text)


@pytest.mark.parametrize(
    "text",
    ["recompute=full", "zero=1", "offload=optimizer", "pp=2,schedule=gpipe", "bucket=1MB", "prefetch=2"],
)
@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_what_is_of_a_training_is_refused_in_inference(text: str, mode: Mode):
    assert "has no effect: it is of a training; leave it out" in refused(text, mode)


@pytest.mark.parametrize(
    "changes", [{"capacity_factor": 1.5}, {"expert_imbalance": 1.2}, {"overlaps_experts": True},
                {"expert_tensor_parallel": 4, "tensor_parallel": 2}, {"expert_parallel": 2}],
)  # fmt: skip
def test_keys_of_experts_need_experts(changes: dict[str, object]):
    plan = replace(Plan(data_parallel=4), **changes)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="the model has no experts; leave it out"):
        refuse_idle(plan, model=DENSE)


def test_overlapped_experts_need_several_ranks_of_them():
    plan = Plan(data_parallel=4, overlaps_experts=True)
    with pytest.raises(PlanError, match="ep=1 sends no tokens; leave it out, or give ep"):
        refuse_idle(plan, model=SPARSE)
    refuse_idle(replace(plan, expert_parallel=2), model=SPARSE)


@pytest.mark.parametrize(
    "text",
    ["cp=1,ep=1,etp=1,vp=1", "zero=0,sp=0", "recompute=none,offload=none", "overlap=none", "imbalance=1"],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_off_may_be_said_anywhere(text: str, mode: Mode):
    refuse_idle(complete_plan(parse_plan(text), 8, mode=mode), parse_plan(text), mode=mode, model=DENSE)


@given(
    st.sampled_from(MODES),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["none", "full"]),
)
def test_without_what_is_idle_nothing_is_left_to_refuse(
    mode: Mode, tensor: int, stages: int, cuts: bool, zero: int, recompute: str
):
    plan = Plan(
        data_parallel=4,
        tensor_parallel=tensor,
        pipeline_parallel=stages,
        schedule="gpipe",
        sequence_parallel=cuts,
        zero_stage=zero,
        num_prefetched=2,
        recompute="full" if recompute == "full" else "none",
        context_communication="ulysses",
        expert_imbalance=1.5,
    )
    tidy = without_idle(plan, mode=mode, model=DENSE)
    refuse_idle(tidy, mode=mode, model=DENSE)
    assert without_idle(tidy, mode=mode, model=DENSE) == tidy


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_micro_batches": 1}, "one micro-batch has no other beside it"),
        ({"pipeline_parallel": 2, "schedule": "gpipe"}, "schedule=gpipe runs no forward beside a backward"),
    ],
)
def test_dispatches_overlap_only_with_another_micro_batch(changes: dict[str, object], says: str):
    plan = Plan(data_parallel=8, expert_parallel=8, num_micro_batches=8, overlaps_experts=True)
    refuse_idle(plan, mode="train", model=SPARSE)
    with pytest.raises(PlanError, match=says):
        refuse_idle(replace(plan, **changes), mode="train", model=SPARSE)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", ["moe", "moe_act", "shared_experts", "mla_up_proj", "layernorm"])
def test_only_modules_that_a_model_has_are_computed_again(module: RecomputeModule):
    plan = Plan(recompute="selective", recompute_modules=("core_attn", module))
    with pytest.raises(PlanError, match=module):
        refuse_idle(plan, mode="train", model=DENSE)


def test_a_model_of_experts_alone_has_no_mlp_to_compute_again():
    plan = Plan(recompute="selective", recompute_modules=("mlp",))
    refuse_idle(plan, mode="train", model=DENSE)
    with pytest.raises(PlanError, match="mlp"):
        refuse_idle(plan, mode="train", model=SPARSE)
