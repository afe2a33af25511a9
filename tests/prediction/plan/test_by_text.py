"""Plans as texts, from Python."""

from __future__ import annotations

from typing import Any

import pytest

import perfcast as pc
from perfcast.errors import PlanError

ROOF: dict[str, Any] = {"cost_model": "roofline", "sequence_length": 64}


def test_a_text_is_completed_by_cluster_and_batch():
    found = pc.predict_plan("gpt2", "dgx-h100:8", "tp=2,pp=2", batch_size=16, micro_batch_size=2, **ROOF)
    assert found.plan == pc.Plan(
        tensor_parallel=2, pipeline_parallel=2, data_parallel=2, sequence_parallel=True,
        micro_batch_size=2, num_micro_batches=4,
    )  # fmt: skip
    assert found.num_devices == 8


def test_a_cluster_without_a_number_has_as_many_devices_as_the_text_says():
    assert pc.predict_plan("gpt2", "dgx-h100", "tp=2,dp=2", batch_size=8, **ROOF).num_devices == 4


def test_a_text_takes_what_the_same_question_takes():
    said = pc.predict_plan("gpt2", "dgx-h100:4", "tp=2", batch_size=8, **ROOF)
    asked = pc.predict("gpt2", cluster="dgx-h100:4", plan="tp=2", batch_size=8, **ROOF)
    assert said.step_seconds == asked.step_seconds


def test_a_plan_and_a_batch_that_contradict_are_refused():
    plan = pc.Plan(data_parallel=2, micro_batch_size=4)
    assert pc.predict_plan("gpt2", "dgx-h100:2", plan, batch_size=8, **ROOF).num_sequences == 8
    with pytest.raises(PlanError, match="batch_size=16, but the plan has 8"):
        pc.predict_plan("gpt2", "dgx-h100:2", plan, batch_size=16, **ROOF)
    with pytest.raises(PlanError, match="dp=3"):
        pc.predict_plan("gpt2", "dgx-h100:4", "dp=3", batch_size=6, **ROOF)
