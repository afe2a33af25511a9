"""Whose program a plan suggests where none is named, and whose runs what plain PyTorch cannot."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.core.training import TrainingFramework

#: Whose program answers where none is named.
DEFAULT_SERVING = "vllm"


def default_framework(plan: Plan) -> TrainingFramework:
    """FSDP for ZeRO 3, Megatron where models are cut, DeepSpeed for less of ZeRO, else plain PyTorch."""
    if plan.zero_stage == 3:
        return "fsdp"
    cuts = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel * plan.expert_parallel
    if cuts > 1:
        return "megatron"
    return "deepspeed" if plan.zero_stage else "pytorch"


def framework_instead(framework: TrainingFramework, plan: Plan) -> TrainingFramework:
    """Whose program runs a plan that was changed: plain PyTorch hands over what it cannot do itself."""
    if framework != "pytorch":
        return framework
    if plan.zero_stage == 3 or plan.tensor_parallel > 1:
        return default_framework(plan)
    return "deepspeed" if plan.offload != "none" else framework
