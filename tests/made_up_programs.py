"""Programs that made-up forecasts are of."""

from __future__ import annotations

from perfcast.core.program import StepProgram

EAGER = StepProgram(
    framework="pytorch", is_captured=True, what="the model's own modules", instead="--compile: fused"
)
KERNELS = StepProgram(framework="megatron", is_captured=False, what="Megatron-LM's kernels")
