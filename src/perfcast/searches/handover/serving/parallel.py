"""What of a replica's plan no serving framework can do, and what all of them say alike."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.searches.handover.job import spoken
from perfcast.searches.handover.serving.job import ServingJob

#: Formats that are those of the weights as published, or made of 16-bit weights while they are loaded.
_AS_LOADED = ("bf16", "fp16", "fp32")
#: Formats that vLLM and SGLang make of 16-bit weights themselves (--quantization fp8: scales of a tensor's or
#: a channel's weights, of a token's activations).
MADE_WHILE_LOADING = ("fp8", "fp8_token")


def experts_tensor_parallel(plan: Plan) -> int:
    """Ranks that share one expert, where the others hold other experts: programs leave none idle."""
    return plan.ranks_per_stage // plan.expert_parallel


def find_common_obstacles(job: ServingJob, plan: Plan) -> tuple[str, ...]:
    """What none of the frameworks can do."""
    etp, wanted = plan.tensor_parallel_of_experts, experts_tensor_parallel(plan)
    return spoken(
        [
            (
                bool(job.engine.rank_wait_steps) and job.framework != "trtllm",
                "prompts that wait until every attention data-parallel rank has one",
            ),
            (
                (job.engine.polls_every_steps or 1) > 1 and job.framework != "sglang",
                f"requests that are looked at every {job.engine.polls_every_steps} steps",
            ),
            (plan.context_parallel > 1, f"cp={plan.context_parallel}"),
            (
                plan.data_parallel > 1 and not job.has_experts,
                f"dp={plan.data_parallel} of a dense model: ask for replicas instead",
            ),
            (
                job.has_experts and etp != wanted,
                f"ep={plan.expert_parallel} and etp={etp} over {plan.ranks_per_stage} ranks: these hold "
                f"every expert once, so that etp={wanted}",
            ),
        ]
    )


def weights_note(job: ServingJob, made: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What the user must see to, where the framework does not make the format itself."""
    if job.dtype in _AS_LOADED or job.dtype in made:
        return ()
    return (f"The forecast is of weights in {job.dtype}: {job.model} must be a checkpoint in it",)
