"""Plain PyTorch: what replicas, shards of the optimizer and earlier micro-batches add to the eager form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.forecast.footprint import Footprint, PeakCandidate, StageFootprint
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.memory_use.footprint.pytorch.stage import pytorch_stage
from perfcast.memory_use.footprint.pytorch.step import estimate_eager
from small_transformers import candidate_of, llama, term_of

S, WORKSPACE = 32, 1000
MODEL = llama()
#: Queries and output 64 · 64, keys and values 32 · 64, three of the MLP, two norms; two tables, a norm.
PARAMETERS = 8 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 192 + 2 * 64) + 2 * 512 * 64 + 64
TRAINING = Training()


def stage(plan: Plan, training: Training = TRAINING) -> StageFootprint:
    return pytorch_stage(MODEL, plan, training, S, WORKSPACE)


def size(moment: PeakCandidate, name: str) -> int:
    term = term_of(moment, name)
    return term.num_bytes if term else 0


def gradients(moment: PeakCandidate) -> int:
    return sum(term.num_bytes for term in moment.terms if term.category == "gradient")


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("attention", ["flash", "math"])
def test_one_device_holds_the_eager_moments_and_a_workspace(dtype: str, recompute: str, attention: str):
    training = replace(TRAINING, dtype=dtype, attention=attention)
    found = stage(Plan(micro_batch_size=3, recompute=recompute), training)
    eager = estimate_eager(
        MODEL, batch_size=3, sequence_length=S, dtype=dtype, optimizer="adamw", recompute=recompute,
        attention=attention,
    )  # fmt: skip
    assert [moment.name for moment in found.peak_candidates] == [moment.name for moment in eager]
    for own, other in zip(found.peak_candidates, eager, strict=True):
        assert own.terms[:-1] == tuple(term for term in other.terms if term.num_bytes)
        assert own.num_bytes == other.num_bytes + WORKSPACE


def test_replicas_reduce_in_buckets_of_four_bytes_a_parameter():
    alone, spread = stage(Plan()), stage(Plan(data_parallel=4))
    for one, of_four in zip(alone.peak_candidates, spread.peak_candidates, strict=True):
        assert (size(one, "reduction buckets"), size(of_four, "reduction buckets")) == (0, 4 * PARAMETERS)
        assert of_four.num_bytes - one.num_bytes == 4 * PARAMETERS


def test_zero_1_shards_the_moments_and_what_the_update_makes_of_them_and_nothing_else():
    whole, sharded = (
        candidate_of(stage(Plan(data_parallel=4, zero_stage=zero)), "optimizer") for zero in (0, 1)
    )
    assert size(whole, "optimizer state") == 8 * PARAMETERS
    assert size(sharded, "optimizer state") == 2 * PARAMETERS
    assert size(whole, "denominators of the update") == 4 * PARAMETERS
    assert size(sharded, "denominators of the update") == PARAMETERS
    assert size(sharded, "weights") == size(sharded, "gradients") == 4 * PARAMETERS
    assert whole.num_bytes - sharded.num_bytes == 9 * PARAMETERS


def test_earlier_micro_batches_leave_the_gradients_of_all_parameters():
    once, again = stage(Plan()), stage(Plan(num_micro_batches=2))
    name = "gradients of earlier micro-batches"
    for first, second in zip(once.peak_candidates, again.peak_candidates, strict=True):
        assert size(first, name) == 0
        assert size(second, name) == max(0, 4 * PARAMETERS - gradients(first))
        assert gradients(second) >= 4 * PARAMETERS
    assert size(candidate_of(again, "backward of the head"), name) > 0
    assert size(candidate_of(again, "optimizer"), name) == 0
    assert stage(Plan(num_micro_batches=16)) == again


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(tensor_parallel=2), "tp=2: it keeps the model whole; take --framework megatron"),
        (Plan(pipeline_parallel=2, context_parallel=4), "pp=2: .*cp=4: it keeps"),
        (Plan(data_parallel=2, expert_parallel=2), "ep=2: it keeps"),
        (Plan(data_parallel=2, zero_stage=2), "zero=2: it shards no gradients"),
        (Plan(data_parallel=2, zero_stage=3), "zero=3: .* take --framework fsdp"),
        (Plan(offload="optimizer"), "offload=optimizer: take --framework deepspeed"),
        (Plan(offload="activations"), "offload=activations"),
        (Plan(recompute="selective"), "recompute=selective: take recompute=full"),
    ],
)
def test_what_it_does_not_do_is_refused_with_a_way_out(plan: Plan, says: str):
    with pytest.raises(PlanError, match=says):
        stage(plan)


def test_formats_and_optimizers_that_it_lacks_are_refused():
    with pytest.raises(PlanError, match="no fp8 training"):
        stage(Plan(), Training(dtype="fp8"))
    with pytest.raises(PlanError, match="muon"):
        stage(Plan(), Training(optimizer="muon"))


def whole(plan: Plan) -> Footprint:
    return estimate_footprint(MODEL, plan, TRAINING, S)


def test_the_footprint_has_one_stage_and_names_its_framework():
    footprint = whole(Plan(data_parallel=2))
    assert footprint.stages == (pytorch_stage(MODEL, Plan(data_parallel=2), TRAINING, S, 0),)
    assert any("pytorch" in note for note in footprint.assumptions)


def test_recomputing_everything_never_needs_more():
    assert (
        whole(Plan(micro_batch_size=8, recompute="full")).peak_bytes
        < whole(Plan(micro_batch_size=8)).peak_bytes
    )
