"""What the host does around the messages of a pipeline."""

from __future__ import annotations

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.workload.blocks import build_step_work
from perfcast.workload.blocks.step.messages import MESSAGES

MODEL = Transformer(
    num_layers=4,
    hidden_size=256,
    num_attention_heads=8,
    num_kv_heads=4,
    head_size=32,
    ffn_hidden_size=512,
    vocab_size=1024,
    is_gated=True,
    norm="rmsnorm",
)


def test_each_pass_of_a_stage_costs_the_host_its_engine_where_there_are_stages() -> None:
    plan = Plan(pipeline_parallel=2, num_micro_batches=4)
    for framework, expected in (("deepspeed", True), ("megatron", False)):
        work = build_step_work(MODEL, plan, Training(framework=framework), 512)
        names = [work.layers[run.layer].name for stage in work.stages for run in stage.chunks[0]]
        assert (names.count(MESSAGES) == 2) is expected
    single = build_step_work(MODEL, Plan(), Training(framework="deepspeed"), 512)
    assert MESSAGES not in [layer.name for layer in single.layers]
