"""What trains, as options say it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.tuning.text import describe_tuning, format_tuning, parse_tuning, read_tuning
from perfcast.core.tuning.trained import FULL, PARTS, TARGETS, Adapters, Tuning
from perfcast.errors import InputError, PlanError, UnknownNameError


def test_nothing_said_trains_everything():
    assert parse_tuning() is FULL
    assert format_tuning(FULL) == describe_tuning(FULL) == ""


def test_targets_are_named_one_by_one_by_group_or_as_peft_names_them():
    assert parse_tuning(lora="targets=q_proj+v_proj") == parse_tuning(lora="targets=v+q")
    assert parse_tuning(lora="targets=attention+down_proj").adapters == Adapters(
        targets=("q", "k", "v", "o", "down")
    )
    assert parse_tuning(lora="rank=8").adapters == Adapters(rank=8, targets=TARGETS)


def test_qlora_is_lora_beside_four_bit_weights():
    assert parse_tuning(qlora="rank=8") == parse_tuning(lora="rank=8,base=nf4")
    assert parse_tuning(qlora="rank=8").is_quantised
    assert describe_tuning(parse_tuning(qlora="rank=8")) == "QLoRA rank 8 on all-linear"


def test_frozen_parts_and_layers():
    tuning = parse_tuning(freeze="layers:0-15,embedding")
    assert tuning == Tuning(frozen_parts=("embedding",), frozen_layers=(0, 15))
    assert format_tuning(tuning) == "--freeze embedding,layers:0-15"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lora": "rank=8", "qlora": "rank=8"}, PlanError, "--lora with --qlora"),
        ({"lora": "rank=8", "freeze": "embedding"}, PlanError, "--freeze with adapters"),
        ({"lora": "alpha=32"}, PlanError, "changes no time"),
        ({"lora": "rang=8"}, UnknownNameError, "rank"),
        ({"lora": "rank=8,rank=9"}, PlanError, "said twice"),
        ({"lora": "rank=0"}, PlanError, "at least 1"),
        ({"lora": "rank=many"}, PlanError, "not a whole number"),
        ({"lora": "8"}, PlanError, "key=value"),
        ({"lora": "targets=querys"}, UnknownNameError, "target"),
        ({"lora": "dropout=1"}, PlanError, "below 1"),
        ({"lora": "dropout=some"}, PlanError, "not a number"),
        ({"lora": "base=int2"}, UnknownNameError, "nf4"),
        ({"qlora": "base=plain"}, PlanError, "take --lora"),
        ({"freeze": ""}, PlanError, "without a part"),
        ({"freeze": "embeddings"}, UnknownNameError, "embedding"),
        ({"freeze": "layers:first"}, PlanError, "layers:0-15"),
        ({"freeze": "layers:5-2"}, PlanError, "5-2"),
        ({"freeze": "layers:1,layers:3"}, PlanError, "two rows"),
        ({"freeze": ",".join(PARTS)}, PlanError, "nothing trains"),
    ],
)
def test_what_makes_no_sense_is_an_error(options: dict[str, str], error: type[InputError], words: str):
    with pytest.raises(error, match=words):
        parse_tuning(**options)


@given(
    st.builds(
        Tuning,
        adapters=st.builds(
            Adapters,
            rank=st.integers(1, 512),
            targets=st.sets(st.sampled_from(TARGETS), min_size=1).map(
                lambda some: tuple(target for target in TARGETS if target in some)
            ),
            dropout=st.sampled_from([0.0, 0.05, 0.5]),
            base=st.sampled_from(["plain", "nf4"]),
            trades_outputs=st.booleans(),
        ),
    )
    | st.builds(
        Tuning,
        frozen_parts=st.sets(st.sampled_from(PARTS), max_size=6).map(
            lambda some: tuple(part for part in PARTS if part in some)
        ),
        frozen_layers=st.none() | st.tuples(st.integers(0, 9), st.integers(9, 40)),
    )
)
def test_what_is_written_is_read_back(tuning: Tuning):
    assert read_tuning(format_tuning(tuning)) == tuning
