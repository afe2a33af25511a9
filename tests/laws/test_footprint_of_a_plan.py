"""Laws of the whole footprint, and what a plan cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import made_up_device
from cases import cases
from perfcast.core.forecast.footprint import Footprint, StageFootprint
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import OFFLOAD, RECOMPUTE, SCHEDULES, Plan
from perfcast.core.precision import inference_precision
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.errors import PlanError
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import estimate_footprint, estimate_serving_footprint
from small_transformers import candidate_of, gpt, llama, mixture, term_of

MEGATRON = Training(framework="megatron")
S = 256
MODELS = st.sampled_from([gpt(heads=8), llama(kv_heads=8), mixture(kv_heads=8)])
CUTTING = tuple(name for name in FRAMEWORKS if name != "pytorch")
TRAININGS = st.builds(
    Training,
    framework=st.sampled_from(CUTTING),
    dtype=st.sampled_from(["fp32", "bf16", "fp8"]),
    attention=st.sampled_from(["flash", "math"]),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of every kind that eight layers and eight heads can be cut by."""
    schedule = draw(st.sampled_from(SCHEDULES))
    both_ways = schedule == "dualpipe"
    chunks = 2 if schedule == "interleaved" else 1
    return Plan(
        data_parallel=draw(st.sampled_from([1, 2, 8])),
        tensor_parallel=draw(st.sampled_from([1, 2, 4])),
        pipeline_parallel=draw(st.sampled_from([1, 2, 4, 8][both_ways : 5 - chunks])),
        context_parallel=draw(st.sampled_from([1, 2])),
        virtual_stages_per_rank=chunks,
        micro_batch_size=draw(st.integers(1, 4)),
        num_micro_batches=draw(st.integers(1, 8)) * 2 - (not both_ways),
        zero_stage=draw(st.integers(0, 3)),
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(RECOMPUTE)),
        schedule=schedule,
        offload=draw(st.sampled_from(OFFLOAD)),
    )


PLANS = plans()
WHOLE = st.tuples(
    st.builds(
        Plan,
        data_parallel=st.sampled_from([1, 2, 8]),
        micro_batch_size=st.integers(1, 4),
        num_micro_batches=st.integers(1, 16),
        zero_stage=st.integers(0, 1),
        recompute=st.sampled_from(["none", "full"]),
    ),
    st.builds(
        Training,
        dtype=st.sampled_from(["fp32", "bf16"]),
        attention=st.sampled_from(["flash", "math"]),
        optimizer=st.sampled_from(["adamw", "momentum"]),
    ),
)
#: A plan and a program that can follow it.
JOBS = st.one_of(st.tuples(PLANS, TRAININGS), WHOLE)


def estimate(model: Transformer, plan: Plan, training: Training = MEGATRON) -> Footprint:
    return estimate_footprint(model, plan, training, S)


def size(stage: StageFootprint, moment: str, name: str) -> int:
    term = term_of(candidate_of(stage, moment), name)
    return term.num_bytes if term else 0


@settings(max_examples=cases(25, share=0.05))
@given(MODELS, JOBS)
def test_every_plan_has_stages_below_the_peak_and_an_interval_around_it(
    model: Transformer, job: tuple[Plan, Training]
):
    plan, training = job
    footprint = estimate(model, plan, training)
    assert [stage.stage for stage in footprint.stages] == list(range(plan.pipeline_parallel))
    for stage in footprint.stages:
        assert all(term.num_bytes > 0 for moment in stage.peak_candidates for term in moment.terms)
        assert stage.peak.num_bytes <= footprint.peak_bytes
        states = next(moment for moment in stage.peak_candidates if moment.name == "optimizer")
        assert stage.peak.num_bytes >= states.num_bytes
    assert footprint.peak_bytes_low <= footprint.peak_bytes <= footprint.peak_bytes_high
    assert footprint.reserved_bytes_low <= footprint.reserved_bytes <= footprint.reserved_bytes_high
    assert footprint.reserved_bytes >= footprint.peak_bytes


@settings(max_examples=cases(25, share=0.05))
@given(MODELS, JOBS)
def test_a_larger_micro_batch_never_needs_less(model: Transformer, job: tuple[Plan, Training]):
    plan, training = job
    larger = replace(plan, micro_batch_size=plan.micro_batch_size + 1)
    assert estimate(model, larger, training).peak_bytes >= estimate(model, plan, training).peak_bytes


@settings(max_examples=cases(25, share=0.05))
@given(MODELS, PLANS, st.sampled_from(["megatron", "megatron_local", "fsdp", "deepspeed"]))
def test_more_tensor_parallelism_never_needs_more_of_a_rank(model: Transformer, plan: Plan, framework: str):
    training = Training(framework=framework)
    cut = [
        estimate(model, replace(plan, tensor_parallel=degree, sequence_parallel=True), training).peak_bytes
        for degree in (1, 2, 4, 8)
        if degree * plan.context_parallel <= model.num_attention_heads
    ]
    assert cut == sorted(cut, reverse=True)


@settings(max_examples=cases(25, share=0.05))
@given(MODELS, PLANS, TRAININGS)
def test_recomputing_more_never_keeps_more(model: Transformer, plan: Plan, training: Training):
    plan = replace(plan, offload="none")
    kept = []
    for recompute in RECOMPUTE:
        stages = estimate(model, replace(plan, recompute=recompute), training).stages
        kept.append(
            [
                sum(size(stage, "layer backward", name) for name in KEPT)
                for stage in stages
                if any(moment.name == "layer backward" for moment in stage.peak_candidates)
            ]
        )
    keeps_less = load_training_profile(training.framework).selective == "attention_core"
    for none, selective, full in zip(*kept, strict=True):
        assert full <= none
        assert not keeps_less or full <= selective <= none


KEPT = (
    "layer activations",
    "inputs of checkpointed layers",
    "recomputed layer",
    "recomputed attention",
    "recomputed modules",
)


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        (Plan(context_parallel=3), 3),
        (Plan(tensor_parallel=3, sequence_parallel=True), 3),
        (Plan(tensor_parallel=3, context_parallel=2, sequence_parallel=True), 6),
    ],
)
def test_a_sequence_that_does_not_divide_is_refused(plan: Plan, parts: int):
    with pytest.raises(PlanError, match=f"a sequence of 256 is no multiple of the {parts} parts"):
        estimate(gpt(heads=12, hidden=96), plan)


def test_recomputation_has_not_begun_when_the_loss_is_made():
    (stage,) = estimate(gpt(), Plan(recompute="full")).stages
    assert size(stage, "layer backward", "recomputed layer") > 0
    assert size(stage, "loss", "recomputed layer") == 0


def test_the_first_stage_of_1f1b_waits_longest_and_the_last_has_the_logits():
    footprint = estimate(gpt(), Plan(pipeline_parallel=4, num_micro_batches=16))
    waiting = [size(stage, "layer backward", "layer activations") for stage in footprint.stages]
    assert [count / waiting[-1] for count in waiting] == [4, 3, 2, 1]
    with_logits = [any(m.name == "loss" for m in stage.peak_candidates) for stage in footprint.stages]
    assert with_logits == [False, False, False, True]


def test_interleaving_needs_more_than_1f1b_and_less_than_gpipe():
    base = Plan(pipeline_parallel=4, num_micro_batches=16)
    plans = [
        base,
        replace(base, schedule="interleaved", virtual_stages_per_rank=2),
        replace(base, schedule="gpipe"),
    ]
    waiting = [size(estimate(gpt(), plan).stages[0], "layer backward", "layer activations") for plan in plans]
    assert [count / waiting[0] for count in waiting] == [1, 5.5 / 4, 4]


def test_a_late_stage_without_layers_is_described_too():
    """The head of a wide vocabulary weighs as much as four layers; nanotron gives its stage none."""
    model = llama(vocab_size=200_000)
    training = Training(framework="nanotron")
    for plan in (
        Plan(pipeline_parallel=8),
        Plan(pipeline_parallel=8, recompute="full"),
        Plan(pipeline_parallel=8, offload="activations"),
    ):
        last = estimate(model, plan, training).stages[-1]
        assert "layer backward" not in [moment.name for moment in last.peak_candidates]
        assert "loss" in [moment.name for moment in last.peak_candidates]


def test_zero_3_is_the_least_state_and_pays_with_gathered_weights():
    (stage,) = estimate(gpt(), Plan(data_parallel=8, zero_stage=3), Training(framework="fsdp")).stages
    (whole,) = estimate(gpt(), Plan(data_parallel=8), Training(framework="fsdp")).stages
    assert 8 * size(stage, "layer backward", "weights") == size(whole, "layer backward", "weights")
    assert size(stage, "layer backward", "gathered weights") > 0
    assert size(whole, "layer backward", "gathered weights") == 0


def test_an_offloaded_optimizer_lowers_the_peak_by_its_state():
    here = estimate(gpt(), Plan()).stages[0]
    moved = estimate(gpt(), Plan(offload="optimizer")).stages[0]
    gone = here.peak.num_bytes - moved.peak.num_bytes
    assert gone == size(here, "layer backward", "master weights") + size(
        here, "layer backward", "moments of adamw"
    )


def test_a_named_device_adds_workspaces_a_context_and_one_communicator_for_each_axis():
    plain = estimate(gpt(), Plan())
    alone, spread, other = (
        estimate_footprint(gpt(), plan, MEGATRON, S, device=device)
        for plan, device in (
            (Plan(), made_up_device()),
            (Plan(data_parallel=2, tensor_parallel=2), made_up_device()),
            (Plan(), made_up_device(vendor="amd", compute_capability="gfx942")),
        )
    )
    assert plain.context_bytes == other.context_bytes == 0
    assert any("devices of amd: none is counted" in note for note in other.assumptions)
    assert spread.context_bytes > alone.context_bytes > 0
    assert alone.peak_bytes > plain.peak_bytes


def test_what_is_assumed_is_said():
    plan = Plan(context_parallel=2)
    notes = estimate(mixture(), plan).assumptions
    assert any("context parallelism by ring" in note for note in notes)
    assert any("evenly over the experts" in note for note in notes)
    assert any("megatron" in note for note in notes)


@settings(max_examples=cases(25, share=0.05))
@given(MODELS, PLANS, st.booleans())
def test_serving_shrinks_with_more_devices(model: Transformer, plan: Plan, is_decode: bool):
    assume(2 * plan.tensor_parallel * plan.context_parallel <= model.num_attention_heads)

    def need(each: Plan) -> int:
        return estimate_serving_footprint(
            model, each, inference_precision("bf16"), S, is_decode=is_decode
        ).peak_bytes

    assert need(replace(plan, tensor_parallel=2 * plan.tensor_parallel)) <= need(plan)
    assert need(plan) <= need(replace(plan, micro_batch_size=plan.micro_batch_size + 1))


@pytest.mark.parametrize(
    ("plan", "equation"),
    [
        (Plan(tensor_parallel=3), "tp=3 does not divide 8"),
        (Plan(pipeline_parallel=9), "pp=9 .* the model has 8"),
        (
            Plan(context_parallel=16, context_communication="ulysses"),
            "cp=16 does not divide the 8 attention heads",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused_in_training_and_in_serving(plan: Plan, equation: str):
    with pytest.raises(PlanError, match=equation):
        estimate(llama(), plan)
    with pytest.raises(PlanError, match=equation):
        estimate_serving_footprint(llama(), plan, inference_precision("bf16"), S, is_decode=True)
