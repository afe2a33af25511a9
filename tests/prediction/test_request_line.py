"""A request as the command line that asks it."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.prediction.request.command import predict_command
from perfcast.prediction.request.plan import PlanRequest

PLAN = Plan(data_parallel=4, tensor_parallel=2, sequence_parallel=True, num_micro_batches=2)


def command(**asked):
    request = PlanRequest(
        **{"model": "gpt2", "cluster": "dgx-h100:8", "plan": PLAN, "sequence_length": 64, **asked}
    )
    return predict_command(request, "my models/gpt2", "dgx-h100:8")


def test_a_training_states_all_that_a_default_could_decide():
    training = Training(framework="megatron", optimizer="sgd")
    assert command(training=training, cost_model=Roofline(), method="closed_form") == (
        "perfcast predict 'my models/gpt2' --cluster dgx-h100:8 --plan tp=2,dp=4,mbs=1 --batch-size 8 "
        "--sequence-length 64 --dtype bf16 --framework megatron --optimizer sgd --cost-model roofline "
        "--closed-form"
    )


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_inference_says_its_mode(mode):
    assert f"--mode {mode} --batch-size 8" in command(mode=mode, dtype="fp8")
