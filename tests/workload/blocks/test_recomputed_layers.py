"""Layers of which only some are computed again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.workload.blocks import build_step_work

GPT = Transformer(
    num_layers=8, hidden_size=256, num_attention_heads=4, num_kv_heads=4, head_size=64, ffn_hidden_size=1024,
    vocab_size=2048,
)  # fmt: skip
MEGATRON = Training(framework="megatron")
FULL = Plan(pipeline_parallel=2, num_micro_batches=4, recompute="full")


def build(plan: Plan, model: Transformer = GPT) -> StepWork:
    return build_step_work(model, plan, MEGATRON, 128)


def counts(work: StepWork) -> list[list[dict[str, int]]]:
    """Layers by name, of each chunk of each stage."""
    return [
        [{work.layers[run.layer].name: run.count for run in chunk} for chunk in stage.chunks]
        for stage in work.stages
    ]


def test_the_first_layers_of_each_stage_are_computed_again_and_the_others_keep_all():
    some = build(replace(FULL, recompute_layers=1))
    assert counts(some) == [
        [{"embedding": 1, "layer": 1, "kept layer": 3}],
        [{"layer": 1, "kept layer": 3, "head": 1}],
    ]
    by_name = {layer.name: layer for layer in some.layers}
    assert any(call.is_recomputed for call in by_name["layer"].backward)
    assert not any(call.is_recomputed for call in by_name["kept layer"].backward)
    assert by_name["layer"].forward == by_name["kept layer"].forward


def test_each_chunk_has_its_own_first_layers():
    plan = replace(FULL, virtual_stages_per_rank=2, schedule="interleaved", recompute_layers=1)
    assert counts(build(plan)) == [
        [{"embedding": 1, "layer": 1, "kept layer": 1}, {"layer": 1, "kept layer": 1}],
        [{"layer": 1, "kept layer": 1}, {"layer": 1, "kept layer": 1, "head": 1}],
    ]


def test_what_is_computed_twice_grows_by_the_layer_up_to_all():
    flops = [build(replace(FULL, recompute_layers=n)).recompute_flops for n in (1, 2, 3, 4)]
    assert flops == [n * flops[0] for n in (1, 2, 3, 4)]
    assert flops[-1] == build(FULL).recompute_flops
    assert build(replace(FULL, recompute_layers=9)).recompute_flops == flops[-1]


def test_layers_that_predict_further_keep_all():
    """As Megatron-LM skips them with --recompute-method block."""
    model = replace(GPT, num_prediction_layers=1)
    last = counts(build(replace(FULL, recompute_layers=4), model))[-1][-1]
    assert (last["layer"], last["kept layer"]) == (4, 1)


def test_memory_is_between_that_of_all_layers_and_that_of_none():
    plans = (replace(FULL, recompute="none"), *(replace(FULL, recompute_layers=n) for n in (1, 2, 3)), FULL)
    found = [estimate_footprint(GPT, plan, MEGATRON, 128).peak_bytes for plan in plans]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) >= 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recompute_layers": 0, "recompute": "full"}, "recompute_layers=0: must be at least 1"),
        ({"recompute_layers": 2}, "recompute_layers=2 with recompute=none.*take recompute=full"),
        ({"recompute_layers": 2, "recompute": "selective"}, "with recompute=selective"),
    ],
)
def test_it_goes_with_full_recomputation_alone(changes: dict[str, object], message: str):
    with pytest.raises(PlanError, match=message):
        Plan(**changes)  # type: ignore[arg-type]


def test_plain_pytorch_computes_every_layer_again_or_none():
    with pytest.raises(PlanError, match="leave out recompute_layers"):
        estimate_footprint(GPT, Plan(recompute="full", recompute_layers=1), Training(), 128)
