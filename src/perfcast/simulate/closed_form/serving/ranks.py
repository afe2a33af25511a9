"""Attention data-parallel ranks of which one reads alone: how much of the longer step is left."""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.serving.step import StepBatches, StepTimes
from perfcast.simulate.closed_form.serving.work import RequestWork

#: Sequences that write in each rank meanwhile: the share hardly depends on them.
_WRITERS = 8.0


def alone_share(work: RequestWork, times: StepTimes, ranks: int, most_prompts: float) -> float:
    """φ: of what a step takes more where all ranks read than where all write, the part where one reads.

    Args:
        most_prompts: That a step of a rank reads, or a part of one.
    """
    if ranks == 1:
        return 1.0
    reads = np.zeros(ranks)
    reads[0] = min(1.0, most_prompts)
    together = times.seconds_together(_batches(work, reads), ranks)
    all_read = float(times.seconds_of(_batches(work, reads[:1]))[0])
    all_write = float(times.seconds_of(_batches(work, np.zeros(1)))[0])
    if all_read <= all_write:
        return 1.0
    return float(np.clip((together - all_write) / (all_read - all_write), 0.0, 1.0))


def _batches(work: RequestWork, prompts: Floats) -> StepBatches:
    writers = np.full(len(prompts), _WRITERS)
    return StepBatches(
        sequences=writers,
        cached_tokens=writers * work.held_tokens,
        prompts=np.ceil(prompts),
        prompt_tokens=prompts * work.new_tokens,
        prompt_pairs=prompts * work.pairs,
        ended_prompts=prompts,
    )
