"""Programs of one's own under a plan: what a replica holds, what a step advances."""

import pytest
import torch

import perfcast as pc
from perfcast.errors import QuestionError

FILE = """
import torch
from torch import nn


def build(batch_size=4):
    module = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
    return module, torch.zeros(batch_size, 1024)
"""
PARAMETERS = 2 * 1024 * 4096 + 4096 + 1024


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "mlp.py"
    path.write_text(FILE, encoding="utf-8")
    return f"{path}:build"


def predicted(program, plan):
    return pc.predict(
        program, cluster="dgx-h100:8", plan=plan, batch_size=512, cost_model="roofline", closed_form=True
    )


def test_each_replica_holds_the_whole_model_and_buckets(program):
    memory = predicted(program, "dp=8").memory
    terms = {term.name: term.num_bytes for term in memory.footprint.peak_stage.peak.terms}
    assert terms["parameter"] == 4 * PARAMETERS
    assert terms["optimizer state"] == pytest.approx(8 * PARAMETERS, rel=1e-3)
    assert terms["reduction buckets"] == 4 * PARAMETERS


def test_sharding_the_optimizer_leaves_an_eighth_of_its_state(program):
    whole, sharded = (predicted(program, plan).memory for plan in ("dp=8", "dp=8,zero=1"))
    saved = whole.footprint.peak_bytes - sharded.footprint.peak_bytes
    assert saved == pytest.approx(7 / 8 * 8 * PARAMETERS, rel=1e-3)


def test_a_step_advances_samples_not_the_numbers_of_which_they_consist(program):
    found = predicted(program, "dp=8")
    assert found.num_tokens == 512
    assert found.tokens_per_second == pytest.approx(512 / found.step_seconds)


def test_a_module_whose_inputs_are_one_batch_is_not_dealt_out():
    with pytest.raises(QuestionError, match=r"FILE\.py:FUNCTION"):
        pc.predict(torch.nn.Linear(4, 4), torch.zeros(2, 4), cluster="dgx-h100:8", plan="dp=8")
