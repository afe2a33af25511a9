"""Keys of a plan that change nothing: what they would set does not happen under the rest of the plan."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.core.plan import Plan
from perfcast.core.work import StepWork

_USUAL = Plan()


def idle_settings(work: StepWork, *, is_training: bool) -> tuple[str, ...]:
    """A sentence for each key that departs from the usual and has no effect."""
    plan = work.plan
    has_experts = any("expert" in layer.name for layer in work.layers)
    rows = (*_always(plan, has_experts), *(_of_training(plan) if is_training else _of_inference(plan)))
    return tuple(f"{setting} has no effect: {reason}" for setting, reason in rows)


def _always(plan: Plan, has_experts: bool) -> Iterator[tuple[str, str]]:
    if plan.context_parallel == 1 and plan.context_communication != _USUAL.context_communication:
        yield f"cp_type={plan.context_communication}", "cp=1 cuts no sequence"
    if plan.pipeline_parallel == 1 and plan.schedule != _USUAL.schedule:
        yield f"schedule={plan.schedule}", "pp=1 has no pipeline"
    if plan.tensor_parallel == 1 and plan.sequence_parallel:
        yield "sp=1", "tp=1 cuts nothing"
    if plan.expert_parallel == 1 and plan.dispatch is not None:
        yield f"dispatch={plan.dispatch}", "ep=1 sends no tokens"
    if has_experts:
        return
    for key, value, usual in (
        ("etp", plan.expert_tensor_parallel, None),
        ("capacity", plan.capacity_factor, None),
        ("imbalance", plan.expert_imbalance, _USUAL.expert_imbalance),
    ):
        if value != usual:
            yield f"{key}={value}", "the model has no experts"


def _of_training(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.num_shards is not None and not plan.zero_stage:
        yield f"shards={plan.num_shards}", "zero=0 shards nothing"
    if plan.zero_stage != 3 and plan.offload != "parameters":
        if plan.num_prefetched != _USUAL.num_prefetched:
            yield f"prefetch={plan.num_prefetched}", f"zero={plan.zero_stage} gathers no weights"
        if not plan.reshard_after_forward:
            yield "reshard=0", f"zero={plan.zero_stage} gathers no weights"
    if plan.bucket_bytes is not None and plan.num_dense_replicas == 1:
        yield f"bucket={plan.bucket_bytes}", "dp · cp = 1 replica reduces no gradients"


def _of_inference(plan: Plan) -> Iterator[tuple[str, str]]:
    for key, value, usual in (
        ("recompute", plan.recompute, _USUAL.recompute),
        ("recompute_layers", plan.recompute_layers, None),
        ("offload", plan.offload, _USUAL.offload),
        ("schedule", plan.schedule, _USUAL.schedule),
        ("shards", plan.num_shards, None),
        ("prefetch", plan.num_prefetched, _USUAL.num_prefetched),
        ("bucket", plan.bucket_bytes, None),
    ):
        if value != usual and (key != "schedule" or plan.pipeline_parallel > 1):
            yield f"{key}={value}", "it is of a training"
