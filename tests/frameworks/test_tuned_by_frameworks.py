"""What a framework can train of a model."""

from __future__ import annotations

import pytest

from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.errors import PlanError
from perfcast.frameworks.tuning import check_trained
from small_transformers import llama


@pytest.mark.parametrize("framework", ["pytorch", "fsdp", "deepspeed"])
def test_peft_runs_under_what_wraps_pytorchs_modules(framework: str):
    check_trained(llama(), Training(framework=framework, tuning=parse_tuning(qlora="rank=4")))  # type: ignore[arg-type]


def test_what_a_framework_lacks_is_an_error_that_names_who_has_it():
    with pytest.raises(PlanError, match=r"nanotron has no adapters; take --framework .*megatron"):
        check_trained(llama(), Training(framework="nanotron", tuning=parse_tuning(lora="rank=4")))
    with pytest.raises(PlanError, match=r"megatron keeps no weights in four bits; take --framework .*fsdp"):
        check_trained(llama(), Training(framework="megatron", tuning=parse_tuning(qlora="rank=4")))
