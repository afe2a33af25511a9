"""A step with frozen weights."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.workload.blocks import build_step_work
from perfcast.workload.models.adapters import freeze_weights

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


def test_frozen_weights_have_no_gradients_no_reduction_and_no_optimizer() -> None:
    plan = Plan(data_parallel=2, tensor_parallel=2, sequence_parallel=True, zero_stage=1)
    whole = build_step_work(MODEL, plan, Training(framework="megatron"), 512)
    frozen = freeze_weights(whole)
    for before, after in zip(whole.layers, frozen.layers, strict=True):
        kept = [call.operation for call in before.backward if not call.is_weight_gradient]
        assert [call.operation for call in after.backward] == kept
        assert not after.gradient_reduction
        assert not after.gather
        assert all(at < place for place, call in enumerate(after.backward) for at in call.after)
    assert not any(stage.optimizer for stage in frozen.stages)
    assert frozen.flops < whole.flops
