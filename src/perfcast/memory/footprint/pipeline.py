"""How many micro-batches' activations a pipeline stage holds at most.

1F1B: stage i of p starts p - i forwards before its first backward (Narayanan et al.: PipeDream, SOSP 2019;
Megatron-LM, SC 2021, section 2.2.1). GPipe holds all of them (Huang et al., 2019). Interleaved 1F1B runs
2·(p - i - 1) + (v - 1)·p chunks ahead (Megatron-LM: schedules.py, from section 2.2.2). The zero-bubble
schedule ZB-H1 holds what 1F1B does (Qi et al.: Zero Bubble Pipeline Parallelism, ICLR 2024, section 3).
DualPipe feeds p - i micro-batches from one end and i + 1 from the other: p + 1 in all, each of one of the two
parts of the model that a rank holds (DeepSeek-V3 Technical Report, arXiv 2412.19437, table 2).
"""

from __future__ import annotations

from perfcast.core.plan import Plan


def chunks_in_flight(plan: Plan, stage: int) -> int:
    """Forwards of a chunk (a virtual stage's share of the layers) that wait at the peak."""
    num_stages, chunks = plan.pipeline_parallel, plan.virtual_stages_per_rank
    forwards = plan.num_micro_batches * chunks
    if plan.schedule == "dualpipe":
        each = plan.num_micro_batches // 2
        return min(each, num_stages - stage) + min(each, stage + 1)
    if plan.schedule == "gpipe":
        return forwards
    if chunks > 1:
        return min(forwards, 2 * (num_stages - stage - 1) + (chunks - 1) * num_stages + 1)
    return min(forwards, num_stages - stage)


def chunks_of_a_rank(plan: Plan) -> int:
    """Parts of the model that a rank holds."""
    return 2 if plan.schedule == "dualpipe" else plan.virtual_stages_per_rank
