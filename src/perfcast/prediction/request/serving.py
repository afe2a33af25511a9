"""What is asked of serving: a model, what serves it, which requests come, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from perfcast.core.dtype import AUTO
from perfcast.core.serving.deployment import Deployment
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, Load, MeasuredWindow, RecordedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import SchedulerPolicy, Speculation
from perfcast.errors import InputError
from perfcast.ranges import REQUESTS, SEED, Range
from perfcast.units import KILO

if TYPE_CHECKING:
    from perfcast.core.machine.cluster import Cluster
    from perfcast.cost.model import CostModel
    from perfcast.prediction.model import Model

#: Which of the two forms answers; both: each beside the other.
AskedMethod = Literal["events", "closed_form", "both"]
#: Tokens that are written one step after the other.
_WRITTEN = Range(0, 200_000_000, "take fewer --num-requests, or --method closed-form")
_LEAST_REQUESTS, _REQUESTS_OF_A_CLIENT, _REQUESTS_OF_A_STREAM = 200, 10, 1000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client accepts, in seconds, of ``percentile`` of the requests; None: anything."""

    time_to_first_token_seconds: float | None = None
    time_per_output_token_seconds: float | None = None
    end_to_end_seconds: float | None = None
    percentile: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.percentile <= 1:
            raise InputError(f"percentile {self.percentile:g}: a share of requests above 0 and at most 1")

    @property
    def seconds(self) -> tuple[float | None, float | None, float | None]:
        """To the first token, of each further one, from end to end."""
        return self.time_to_first_token_seconds, self.time_per_output_token_seconds, self.end_to_end_seconds

    @property
    def any_stated(self) -> bool:
        """Whether there is any."""
        return any(limit is not None for limit in self.seconds)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What may be set of a serving program; None: what it takes by itself.

    Attributes:
        framework: 'vllm', 'sglang' or 'trtllm'.
        version: Of the framework, as 'X.Y.Z'; None: the newest that its profile knows.
        policy: Whose scheduler; None: the framework's.
        max_sequences, max_step_tokens, chunks_prompts, block_tokens: As in ``core.serving.scheduling``.
        memory_fraction: Of the device's memory that the program takes (vLLM: gpu_memory_utilization, SGLang:
            mem_fraction_static, TensorRT-LLM: free_gpu_memory_fraction).
        rank_wait_steps: For how many steps prompts wait until every attention data-parallel rank has one
            (TensorRT-LLM's attention_dp_config with enable_balance).
        polls_every_steps: As in ``core.serving.scheduling`` (SGLang's --scheduler-recv-interval).
        cuda_graphs: Whether steps of decoding are replayed; None: as the framework does.
        host_seconds: Of a step, where it was measured; None: by the framework's profile.
        speculation: Drafted tokens (of the model's own prediction layers).
        expert_load: The busiest rank's tokens over the mean; 1 is balanced.
    """

    framework: str | None = None
    version: str | None = None
    policy: SchedulerPolicy | None = None
    max_sequences: int | None = None
    max_step_tokens: int | None = None
    chunks_prompts: bool | None = None
    block_tokens: int | None = None
    memory_fraction: float | None = None
    rank_wait_steps: int | None = None
    polls_every_steps: int | None = None
    cuda_graphs: bool | None = None
    host_seconds: float | None = None
    speculation: Speculation | None = None
    expert_load: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.expert_load < KILO:
            raise InputError(f"expert load {self.expert_load:g}: the busiest over the mean is 1 or more")
        if self.memory_fraction is not None and not 0 < self.memory_fraction <= 1:
            raise InputError(f"memory fraction {self.memory_fraction:g}: above 0 and at most 1")
        if self.host_seconds is not None and not 0 <= self.host_seconds < KILO:
            raise InputError(f"host seconds {self.host_seconds:g}: 0 or more, of one step")


@dataclass(frozen=True, kw_only=True)
class ServingRequest:
    """A model under load.

    Attributes:
        cluster: Whose devices hold all replicas.
        deployment: None: the smallest plan that holds the model, as often as the devices allow.
        prompts, answers: Lengths; of no meaning where ``requests`` are given.
        requests: Of a recording; its own times count where the load is 'recorded'.
        num_requests: That are played; None: ten of each client, at least 200, and a thousand of a stream.
        measure: Over what figures are taken.
        prefix_hit_share: Of a prompt's tokens, those whose keys and values another request left.
        dtype: Of weights; 'auto' takes what is usual for model and device.
        kv_cache_dtype: None or 'auto': what the framework keeps beside ``dtype``.
        request_seconds: Of a request between client and engine; None: as fitted to servers of the framework.
        seed: Of lengths and arrivals; equal requests give equal answers.
        dollars_per_device_hour: None: no bill.
        window: From when to when every step is kept for a timeline, in seconds; None: none is.
    """

    model: Model
    cluster: Cluster
    load: Load
    deployment: Deployment | None = None
    prompts: Lengths | None = None
    answers: Lengths | None = None
    requests: Requests | None = None
    num_requests: int | None = None
    measure: MeasuredWindow = "all"
    prefix_hit_share: float = 0.0
    engine: EngineOptions = EngineOptions()
    limits: Limits = Limits()
    dtype: str = AUTO
    kv_cache_dtype: str | None = None
    cost_model: str | CostModel | None = None
    method: AskedMethod = "both"
    request_seconds: float | None = None
    seed: int = 0
    dollars_per_device_hour: float | None = None
    window: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.requests is None) == (self.prompts is None or self.answers is None):
            raise InputError("give lengths of prompts and answers, or a file of requests")
        if isinstance(self.load, RecordedLoad) and self.requests is None:
            raise InputError("a recorded load needs a file of requests")
        if not 0 <= self.prefix_hit_share < 1:
            raise InputError(f"prefix hit share {self.prefix_hit_share:g}: between 0 and 1, without 1")
        if self.request_seconds is not None and not 0 <= self.request_seconds < KILO:
            raise InputError(f"request seconds {self.request_seconds:g}: 0 or more, of one request")
        SEED.check("seed", self.seed)
        if self.requests is None:
            REQUESTS.check("requests:", self.played_requests)
        if self.method != "closed_form" and self.answers is not None:
            tokens = self.played_requests * self.answers.mean_tokens
            _WRITTEN.check("tokens of all answers, played step by step:", tokens)

    @property
    def played_requests(self) -> int:
        """How many requests are played."""
        if self.num_requests is not None:
            return self.num_requests
        if self.requests is not None:
            return len(self.requests)
        if not isinstance(self.load, ClosedLoad):
            return _REQUESTS_OF_A_STREAM
        return max(_LEAST_REQUESTS, _REQUESTS_OF_A_CLIENT * self.load.concurrency)
