"""Made-up times of serving steps, linear in everything, and schedulers and requests for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Pool
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SchedulerPolicy, Scheduling
from perfcast.core.serving.step import StepBatch, StepBatches


@dataclass(frozen=True)
class LinearSteps:
    """Seconds of a step: a fixed part, and so much for each sequence, cached token, prompt token and pair."""

    fixed: float = 8e-3
    sequence: float = 2e-5
    cached_token: float = 4e-9
    prompt_token: float = 3e-5
    prompt_pair: float = 1e-10
    stages: int = 1

    def seconds(self, batch: StepBatch) -> float:
        return (
            self.fixed
            + self.sequence * batch.sequences
            + self.cached_token * batch.cached_tokens
            + self.prompt_token * batch.prompt_tokens
            + self.prompt_pair * batch.prompt_pairs
        )

    def seconds_of(self, batches: StepBatches) -> Floats:
        return np.asarray(
            self.fixed
            + self.sequence * batches.sequences
            + self.cached_token * batches.cached_tokens
            + self.prompt_token * batches.prompt_tokens
            + self.prompt_pair * batches.prompt_pairs
        )

    def seconds_together(self, batches: StepBatches, num_ranks: int) -> float:
        return float(self.seconds_of(batches).max())

    def latency_seconds(self, batch: StepBatch) -> float:
        return self.stages * self.seconds(batch)

    def seconds_by_bound(self, batches: StepBatches) -> Floats:
        """Steps that read prompts are bounded by compute, others by memory; what is fixed is the host's."""
        seconds = self.seconds_of(batches)
        reads = batches.prompt_tokens > 0
        host = np.full(len(seconds), self.fixed)
        none = np.zeros(len(seconds))
        paced = seconds - host
        return np.stack([np.where(reads, paced, none), np.where(reads, none, paced), none, host], axis=1)


#: What costs nothing.
INSTANT = LinearSteps(0.0, 0.0, 0.0, 0.0, 0.0)


def scheduling(
    policy: SchedulerPolicy = "vllm",
    *,
    max_sequences: int = 256,
    max_step_tokens: int = 8192,
    kv_tokens: int = 500_000,
    chunks_prompts: bool = True,
    block_tokens: int = 16,
    schedules_ahead: bool = False,
) -> Scheduling:
    """A scheduler with room for most."""
    return Scheduling(
        policy=policy,
        max_sequences=max_sequences,
        max_step_tokens=max_step_tokens,
        kv_tokens=kv_tokens,
        chunks_prompts=chunks_prompts,
        block_tokens=block_tokens,
        schedules_ahead=schedules_ahead,
    )


def pool(*, replicas: int = 1, data_parallel: int = 1) -> Pool:
    """Replicas of so many attention data-parallel ranks each."""
    return Pool(Plan(data_parallel=data_parallel), replicas)


def equal_requests(num: int, prompt: int = 1024, answer: int = 128, cached: int = 0) -> Requests:
    """All of the same lengths, all there from the beginning."""
    return Requests(
        arrival_seconds=np.zeros(num),
        prompt_tokens=np.full(num, prompt, dtype=np.int64),
        answer_tokens=np.full(num, answer, dtype=np.int64),
        cached_tokens=np.full(num, cached, dtype=np.int64),
    )


def drawn_requests(num: int, prompt: int = 1024, answer: int = 128, seed: int = 0) -> Requests:
    """Lengths between 80 and 100 % of those given, as benchmark clients draw them."""
    draws = np.random.default_rng(seed)
    prompts = draws.integers(max(1, round(0.8 * prompt)), prompt, num, endpoint=True)
    answers = draws.integers(max(1, round(0.8 * answer)), answer, num, endpoint=True)
    return Requests(np.zeros(num), prompts, answers, np.zeros(num, dtype=np.int64))
