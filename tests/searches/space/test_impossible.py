"""Demands that leave no plan: which ones, why, and what would do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.model.transformer import Transformer
from perfcast.errors import PlanError
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans
from perfcast.searches.space.impossible import Job, find_cause, values_that_work
from perfcast.searches.space.listing import list_cores

MODEL = Transformer(
    num_layers=96, hidden_size=12288, num_attention_heads=96, num_kv_heads=96, head_size=128,
    ffn_hidden_size=49152, vocab_size=51200,
)  # fmt: skip
JOB = Job(MODEL, 1024, 1536, 2048)


def refuse(**fixed: object) -> str:
    with pytest.raises(PlanError) as caught:
        enumerate_plans(MODEL, 1024, 1536, 2048, Space(fixed=fixed))
    return str(caught.value)


@pytest.mark.parametrize(
    ("fixed", "blamed", "why", "instead"),
    [
        ({"tp": 7}, "tp=7 alone", "tp=7 does not divide 96 attention heads", "tp could be 1, 2, 4, 8"),
        ({"pp": 5}, "pp=5 alone", "pp=5 does not divide 1,024 devices", "pp could be 1, 2, 4, 8"),
        ({"dp": 3}, "dp=3 alone", "dp=3 does not divide 1,024 devices", "dp could be 1, 2, 4, 8"),
        ({"mbs": 5}, "mbs=5 alone", "does not divide a batch of 1,536", "mbs could be 1, 2, 3, 4, 6, 8"),
        ({"vp": 5}, "vp=5 alone", "vp=5 does not divide 96 layers", "vp could be 1, 2, 3, 4, 6, 8"),
        ({"ep": 2}, "ep=2 alone", "the model has no experts", "ep could be 1"),
        (
            {"vp": 3, "pp": 64},
            "vp=3, pp=64 together",
            "96 layers are no multiple of pp=64 · vp=3 = 192",
            "pp could be 2, 4, 8, 16, 32 with vp=3",
        ),
        (
            {"zero": 3, "tp": 8, "pp": 8},
            "zero=3, pp=8 together",
            "zero=3 shards weights as FSDP does",
            "zero could be 0, 1, 2 with tp=8, pp=8",
        ),
        (
            {"schedule": "dualpipe", "pp": 1},
            "schedule=dualpipe, pp=1 together",
            "schedule=dualpipe needs several stages, not pp=1",
            "schedule could be 1f1b with pp=1",
        ),
        (
            {"tp": 8, "pp": 8, "dp": 16, "mbs": 64},
            "dp=16, mbs=64 together",
            "dp=16 · mbs=64 = 1024 does not divide a batch of 1,536",
            "dp could be 8 with tp=8, pp=8, mbs=64",
        ),
        (
            {"tp": 8, "pp": 8, "cp": 1, "dp": 8},
            "tp=8, pp=8, cp=1, dp=8 together",
            "dp=8 · tp=8 · pp=8 · cp=1 = 512, not 1,024 devices",
            "dp could be 16",
        ),
        (
            {"recompute": "none", "recompute_layers": 2},
            "recompute=none, recompute_layers=2 together",
            "recompute_layers=2 is of recompute=full, not none",
            "recompute could be full",
        ),
        (
            {"recompute_layers": 8, "pp": 32},
            "recompute_layers=8, pp=32 together",
            "of a part of the model that has at most 3",
            "recompute_layers could be 1, 2 with pp=32",
        ),
        ({"stages": (48, 47)}, "stages=48/47 alone", "are 95 layers; the model has 96", "no other value"),
        ({"sp": 1, "tp": 1}, "sp=1, tp=1 together", "with tp=1 there is nothing to cut", "sp could be 0"),
        (
            {"shards": 8, "zero": 0},
            "shards=8, zero=0 together",
            "shards=8: zero=0 shards nothing",
            "zero could be 1, 2, 3 with shards=8",
        ),
        (
            {"shards": 3, "dp": 64},
            "shards=3 alone",
            "for 1,024 devices",
            "shards could be 2, 4, 8, 16",
        ),
        (
            {"reshard": 0, "zero": 1},
            "reshard=0, zero=1 together",
            "reshard=0 is of zero=3",
            "zero could be 3",
        ),
    ],
)  # fmt: skip
def test_the_fewest_demands_that_leave_no_plan_are_named(
    fixed: dict[str, object], blamed: str, why: str, instead: str
):
    message = refuse(**fixed)
    assert message.startswith("no plan for 1,024 devices and a batch of 1,536: ")
    assert blamed in message
    assert why in message
    assert instead in message


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tp": st.sampled_from((1, 3, 7, 8)), "pp": st.sampled_from((1, 4, 6, 64)),
            "dp": st.sampled_from((2, 3, 64)), "mbs": st.sampled_from((1, 5, 64)),
            "vp": st.sampled_from((1, 2, 7)), "zero": st.sampled_from((0, 3)),
            "schedule": st.sampled_from(("1f1b", "interleaved", "dualpipe")),
        },
    )
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_what_is_blamed_leaves_no_plan_and_less_of_it_leaves_some(fixed: dict[str, object]):
    space = Space(fixed=fixed, orders=("tp-cp-dp-pp",))

    def is_empty(values: dict[str, object]) -> bool:
        job = (MODEL, JOB.num_devices, JOB.global_batch_size, JOB.sequence_length)
        return not len(list_cores(*job, Space(fixed=values, offloads=("none",))))

    if not is_empty(fixed):
        return
    cause = find_cause(JOB, space)
    assert is_empty(cause)
    for key in cause:
        assert not is_empty({other: value for other, value in cause.items() if other != key})
        rest = {other: value for other, value in cause.items() if other != key}
        assert all(not is_empty({**rest, key: value}) for value in values_that_work(JOB, space, key, rest))


def test_values_that_work_are_the_nearest_first():
    space = Space(fixed={"tp": 7})
    assert values_that_work(JOB, space, "tp", {})[:3] == [8, 4, 2]


def test_a_batch_that_no_number_of_replicas_divides_is_told_the_nearest_that_one_does():
    with pytest.raises(PlanError, match=r"a batch of 3 sequences.*nearest batches that do: 4") as caught:
        enumerate_plans(MODEL, 2**14, 3, 2048, Space())
    assert re.search(r"dp of 4, 8, 16, 32, 64, 128, …", str(caught.value))


def test_devices_that_no_degrees_make_are_named():
    with pytest.raises(PlanError, match=r"no plan for 97 devices: .*dp of 97"):
        enumerate_plans(MODEL, 97, 1536, 2048, Space())
