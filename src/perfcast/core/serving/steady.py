"""The steady state of serving by formula, in columns: one row a deployment under one load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from perfcast.core.arrays import Flags, Floats
from perfcast.core.serving.scheduling import SchedulerPolicy, Speculation
from perfcast.core.serving.step import StepTimes

#: As the classes of ``core.serving.load``; a recording has no steady state of its own.
LoadKind = Literal["closed", "open", "saturated"]


@dataclass(frozen=True, eq=False)
class LoadColumns:
    """Loads of n deployments.

    Attributes:
        kind: Of all of them.
        amount: 'closed': clients; 'open': requests per second; 'saturated': of no meaning. Shape (n,).
        num_requests: That are looked at, with the first of them, before which nothing ran; infinite: the
            steady state alone. Shape (n,).
        burstiness: As in ``OpenLoad``.
    """

    kind: LoadKind
    amount: Floats
    num_requests: Floats
    burstiness: float = 1.0


@dataclass(frozen=True, eq=False)
class EngineColumns:
    """Pools of n deployments whose steps take equally long for equal batches.

    Attributes:
        times: Of a step.
        engines: Schedulers that share the load: replicas times ``ranks``, shape (n,).
        ranks: Of a replica, that step together; shape (n,), or of all.
        alone_share: Of what a step that reads takes more than one that writes, what is left where one of the
            ranks reads alone: 1 where they share nothing; shape (n,), or of all.
        max_sequences, max_step_tokens, kv_tokens: As in ``Scheduling``, shape (n,).
        policy, chunks_prompts, block_tokens, schedules_ahead, polls_every_steps: As in ``Scheduling``.
    """

    times: StepTimes
    policy: SchedulerPolicy
    engines: Floats
    max_sequences: Floats
    max_step_tokens: Floats
    kv_tokens: Floats
    ranks: Floats | int = 1
    chunks_prompts: bool = True
    block_tokens: int = 16
    schedules_ahead: bool = False
    polls_every_steps: int = 1
    speculation: Speculation | None = None
    alone_share: Floats | float = 1.0

    @property
    def reads_apart(self) -> bool:
        """Whether prompts are read in steps in which no answer goes on."""
        return self.policy in ("sglang", "vllm_v0")

    @property
    def tokens_per_step(self) -> float:
        """That a sequence gains."""
        return 1.0 if self.speculation is None else self.speculation.tokens_per_step

    @property
    def new_tokens(self) -> int:
        """Of a sequence that writes, computed in a step."""
        return 1 if self.speculation is None else 1 + self.speculation.drafted_tokens


@dataclass(frozen=True, eq=False)
class LatencyColumns:
    """Seconds over requests, each of shape (n,); infinite where a queue grows without end."""

    mean: Floats
    median: Floats
    p90: Floats
    p99: Floats

    def of(self, percentile: float | None) -> Floats:
        """The mean (None), or one of the three percentiles, 0.5, 0.9 or 0.99."""
        if percentile is None:
            return self.mean
        return {0.5: self.median, 0.9: self.p90, 0.99: self.p99}[percentile]


@dataclass(frozen=True, eq=False)
class SteadyState:
    """What n deployments do in the long run, each column of shape (n,).

    Attributes:
        time_to_first_token, time_per_output_token, end_to_end: Of requests.
        requests_per_second, output_tokens_per_second, input_tokens_per_second: Of all replicas.
        mean_batch: Requests that an engine has under way (of two pools: that writes), mean over time.
        kv_share: Of the memory for keys and values, held on average.
        bound_by: Shares of time by what limits, of sum 1, as in ``ServingForecast``.
        is_stable: Whether no queue grows without end.
    """

    time_to_first_token: LatencyColumns
    time_per_output_token: LatencyColumns
    end_to_end: LatencyColumns
    requests_per_second: Floats
    output_tokens_per_second: Floats
    input_tokens_per_second: Floats
    mean_batch: Floats
    kv_share: Floats
    bound_by: Mapping[str, Floats]
    is_stable: Flags

    def __len__(self) -> int:
        return len(np.atleast_1d(self.requests_per_second))
