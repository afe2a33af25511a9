"""Whose program a plan suggests where none is named, and whose runs what plain PyTorch cannot."""

from __future__ import annotations

from perfcast.core.plan import Plan, RecomputeModule
from perfcast.core.training import TrainingFramework
from perfcast.frameworks.profile import TrainingProfile

#: Whose program answers where none is named.
DEFAULT_SERVING = "vllm"


def default_framework(plan: Plan) -> TrainingFramework:
    """FSDP for ZeRO 3, HAI-LLM for DualPipe, Megatron where models are cut, DeepSpeed for less of ZeRO, else
    plain PyTorch."""
    if plan.zero_stage == 3:
        return "fsdp"
    if plan.schedule == "dualpipe" and plan.pipeline_parallel > 1:
        return "hai_llm"
    cuts = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel * plan.expert_parallel
    if cuts > 1:
        return "megatron"
    return "deepspeed" if plan.zero_stage else "pytorch"


def recomputed_modules(profile: TrainingProfile, plan: Plan) -> tuple[RecomputeModule, ...]:
    """Modules of a layer that are computed again; none where the whole layer is, or single operators are."""
    if plan.recompute == "full" or (plan.recompute == "selective" and profile.selective == "operators"):
        return ()
    chosen = plan.recompute_modules or profile.recompute_modules if plan.recompute == "selective" else ()
    return tuple(dict.fromkeys((*profile.always_recomputes, *chosen)))


def framework_instead(framework: TrainingFramework, plan: Plan) -> TrainingFramework:
    """Whose program runs a plan that was changed: plain PyTorch hands over what it cannot do itself."""
    if framework != "pytorch":
        return framework
    if plan.zero_stage == 3 or plan.tensor_parallel > 1:
        return default_framework(plan)
    return "deepspeed" if plan.offload != "none" else framework
