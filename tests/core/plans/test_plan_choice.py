"""From what a text says of a plan to the plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.plan import Plan
from perfcast.core.plans.choice import choose_plan, complete_plan, is_one_device
from perfcast.core.plans.text import parse_plan
from perfcast.errors import PlanError


def built(
    text: str, devices: int | None = 8, batch_size: int = 8, micro_batch_size: int | None = None
) -> Plan:
    return complete_plan(parse_plan(text), devices, batch_size, micro_batch_size)


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.integers(1, 4))
def test_data_parallelism_is_what_is_left_of_the_devices(tensor: int, stages: int, context: int, share: int):
    devices = 16
    replicas = devices // (tensor * stages * context)
    plan = built(f"tp={tensor},pp={stages},cp={context}", devices, replicas * share)
    assert (plan.data_parallel, plan.world_size) == (replicas, devices)
    assert plan.global_batch_size == replicas * share


def test_the_share_of_a_replica_is_one_micro_batch_unless_it_is_cut():
    assert (built("", 4, 16).micro_batch_size, built("", 4, 16).num_micro_batches) == (4, 1)
    cut = built("", 4, 16, micro_batch_size=2)
    assert (cut.micro_batch_size, cut.num_micro_batches) == (2, 2)


@pytest.mark.parametrize(("text", "devices"), [("tp=8", 8), ("tp=2,pp=4", 8), ("dp=4,tp=2,cp=2", 16)])
def test_without_devices_there_are_as_many_as_the_degrees_multiply_up_to(text: str, devices: int):
    plan = built(text, None)
    assert (plan.world_size, plan.global_batch_size) == (devices, 8)


def test_chunks_bring_their_schedule_and_no_other():
    assert built("pp=2,vp=2").schedule == "interleaved"
    with pytest.raises(PlanError, match="schedule=gpipe with vp=2"):
        built("pp=2,vp=2,schedule=gpipe")
    with pytest.raises(PlanError, match="schedule=interleaved with vp=1"):
        built("pp=2,schedule=interleaved")


def test_every_key_reaches_the_plan():
    plan = built(
        "dp=4,tp=2,pp=2,cp=2,ep=4,etp=2,vp=2,sp=0,reshard=0,recompute=selective,offload=optimizer,zero=3,prefetch=2",
        32,
    )
    assert plan == Plan(
        data_parallel=4, tensor_parallel=2, pipeline_parallel=2, context_parallel=2, expert_parallel=4,
        expert_tensor_parallel=2, virtual_stages_per_rank=2, micro_batch_size=2, num_micro_batches=1,
        zero_stage=3, sequence_parallel=False, recompute="selective", schedule="interleaved",
        reshard_after_forward=False, num_prefetched=2, offload="optimizer",
    )  # fmt: skip


def test_keys_of_placement_and_overlap_reach_the_plan():
    plan = built(
        "tp=2,pp=2,cp=2,ep=2,order=dp-cp-tp-pp,stages=3/5,cp_type=ulysses,shards=2,overlap=tensor+experts,"
        "bucket=25MiB,capacity=1.25,imbalance=1.5",
        16,
    )
    assert plan == Plan(
        data_parallel=2, tensor_parallel=2, pipeline_parallel=2, context_parallel=2, expert_parallel=2,
        micro_batch_size=4,
        sequence_parallel=True, order="dp-cp-tp-pp", stage_layers=(3, 5), context_communication="ulysses",
        num_shards=2, overlaps_tensor=True, overlaps_gradients=False, overlaps_weights=False,
        overlaps_experts=True, bucket_bytes=25 * 2**20, capacity_factor=1.25, expert_imbalance=1.5,
    )  # fmt: skip


def test_some_layers_of_each_part_are_computed_again():
    assert built("pp=2,recompute=full,recompute_layers=3").recompute_layers == 3
    with pytest.raises(PlanError, match="take recompute=full"):
        built("pp=2,recompute_layers=3")


@pytest.mark.parametrize(("text", "num_bytes"), [("40MB", 40_000_000), ("1GiB", 2**30), ("4096", 4096)])
def test_a_bucket_has_a_unit_or_is_in_bytes(text: str, num_bytes: int):
    assert built(f"bucket={text}").bucket_bytes == num_bytes


def test_nothing_may_overlap():
    plan = built("overlap=none")
    assert (plan.overlaps_tensor, plan.overlaps_gradients, plan.overlaps_weights) == (False, False, False)


def test_tensor_parallelism_of_two_dims_comes_without_sequence_parallelism():
    assert not built("tp=4,tp_inputs=2").sequence_parallel


@pytest.mark.parametrize(
    ("text", "micro_batch_size", "expected"),
    [("", None, (8, 1, 1)), ("pp=2", None, (4, 1, 8)), ("pp=4,tp=2", 2, (1, 2, 16)), ("tp=8", 4, (1, 4, 1))],
)
def test_without_a_batch_every_stage_has_four_micro_batches(
    text: str, micro_batch_size: int | None, expected: tuple[int, int, int]
):
    plan = complete_plan(parse_plan(text), 8, None, micro_batch_size)
    assert (plan.data_parallel, plan.micro_batch_size, plan.num_micro_batches) == expected


def test_sequence_parallelism_goes_with_tensor_parallelism_unless_it_is_refused():
    assert built("tp=2").sequence_parallel
    assert not built("tp=2,sp=0").sequence_parallel
    assert not built("").sequence_parallel


@pytest.mark.parametrize(
    ("text", "devices", "batch_size", "micro_batch_size", "says"),
    [
        ("tp=3", 8, 8, None, "8 devices are no multiple of tp · pp · cp = 3"),
        ("dp=3,tp=2", 8, 6, None, "dp=3 · tp · pp · cp = 6, but there are 8 devices"),
        ("", 8, 9, None, "batch size 9 is no multiple of dp=8"),
        ("", 2, 8, 3, "4 sequences of each replica are no multiple of the micro-batch size 3"),
        ("", 0, 8, None, "--devices 0: must be at least 1"),
        ("", -8, 8, None, "--devices -8: must be at least 1"),
        ("", 8, 0, None, "--batch-size 0: must be at least 1"),
        ("", 8, 8, 0, "--micro-batch-size 0: must be at least 1"),
        ("capacity=0", 8, 8, None, "capacity=0.0: must be above 0"),
        ("shards=3", 8, 8, None, "shards=3 does not divide"),
        ("tp=8", 1, 8, None, "1 devices are no multiple of tp · pp · cp = 8"),
        ("mbs=2", 8, 16, 4, "mbs=2 and --micro-batch-size 4 contradict"),
        ("pp=2,stages=balanced", 8, 8, None, "stages=balanced is what a search finds"),
        ("ep=16", 8, 8, None, "8 ranks are no multiple of ep=16"),
    ],
)
def test_a_plan_that_does_not_add_up_states_the_equation(
    text: str, devices: int, batch_size: int, micro_batch_size: int | None, says: str
):
    with pytest.raises(PlanError, match=says):
        built(text, devices, batch_size, micro_batch_size)


@pytest.mark.parametrize(
    ("text", "devices", "alone"),
    [
        ("", 1, True), ("recompute=full", 1, True), ("tp=1,zero=0,sp=0", 1, True), ("", 2, False),
        ("tp=2", 1, False), ("zero=1", 1, False), ("offload=optimizer", 1, False),
    ],
)  # fmt: skip
def test_one_device_is_known_as_such(text: str, devices: int, alone: bool):
    assert is_one_device(parse_plan(text), devices) is alone


def test_the_micro_batch_is_stated_in_the_plan_or_beside_it():
    assert built("mbs=2", 4, 16) == built("", 4, 16, 2) == built("mbs=2", 4, 16, 2)


def test_an_even_split_is_the_frameworks_own():
    assert built("pp=2,stages=even") == built("pp=2")


def test_inference_and_captured_models_cut_no_sequence_unless_it_is_asked_for():
    asked = {"batch_size": None, "micro_batch_size": None}
    for mode, is_captured in (("decode", False), ("train", True)):
        plan, notes = choose_plan(parse_plan("tp=2"), 4, mode=mode, is_captured=is_captured, **asked)
        assert not plan.sequence_parallel
        assert notes == ["no --batch-size was given: 2 sequences, 1 of 1 on each replica"]
    assert choose_plan(parse_plan("tp=2"), 4, mode="train", **asked)[0].sequence_parallel


def test_a_pipeline_trains_in_micro_batches_of_one_sequence_unless_the_plan_says_so():
    plan, notes = choose_plan(parse_plan("pp=2"), 2, mode="train", batch_size=8, micro_batch_size=None)
    assert (plan.micro_batch_size, plan.num_micro_batches) == (1, 8)
    assert notes == ["no --micro-batch-size was given: 1 sequence"]
    plan, notes = choose_plan(parse_plan("pp=2,mbs=4"), 2, mode="train", batch_size=8, micro_batch_size=None)
    assert (plan.micro_batch_size, notes) == (4, [])


@pytest.mark.parametrize(
    ("batch", "stages", "size", "count"),
    [(8, 2, 4, 2), (2, 4, 1, 2), (1, 2, 1, 1), (8, 1, 8, 1), (3, 2, 3, 1)],
)
def test_a_batch_of_inference_travels_as_a_micro_batch_for_each_stage(
    batch: int, stages: int, size: int, count: int
):
    plan, _ = choose_plan(
        parse_plan(f"pp={stages}"), stages, mode="decode", batch_size=batch, micro_batch_size=None
    )
    assert (plan.micro_batch_size, plan.num_micro_batches) == (size, count)
