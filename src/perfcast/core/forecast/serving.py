"""A forecast of serving: what clients wait, what replicas answer, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfcast.core.forecast.fit import Fit
from perfcast.core.program import StepProgram
from perfcast.core.serving.deployment import Deployment
from perfcast.core.serving.load import Load
from perfcast.core.serving.outcome import Played

#: Events of every step, or the steady state by formula.
ServingMethod = Literal["events", "closed_form"]


@dataclass(frozen=True, slots=True)
class Between:
    """A figure with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds over requests.

    Attributes:
        mean, median, p90, p99: Each with its interval.
    """

    mean: Between
    median: Between
    p90: Between
    p99: Between


@dataclass(frozen=True, slots=True)
class ServingRates:
    """What a deployment does in the long run.

    Attributes:
        requests_per_second, output_tokens_per_second, input_tokens_per_second: Of all replicas.
        output_tokens_per_second_per_device: The field's 'throughput per GPU'.
        output_tokens_per_second_per_user: What a client sees: the inverse of the mean time of a token.
        goodput_requests_per_second: Of requests that keep all limits; None without limits.
        dollars_per_million_input_tokens, dollars_per_million_output_tokens: The whole bill over either; None
            without a price.
        joules_per_million_input_tokens, joules_per_million_output_tokens: All energy over either; None where
            the device states no power.
    """

    requests_per_second: Between
    output_tokens_per_second: Between
    input_tokens_per_second: Between
    output_tokens_per_second_per_device: Between
    output_tokens_per_second_per_user: Between
    goodput_requests_per_second: Between | None = None
    dollars_per_million_input_tokens: Between | None = None
    dollars_per_million_output_tokens: Between | None = None
    joules_per_million_input_tokens: Between | None = None
    joules_per_million_output_tokens: Between | None = None


@dataclass(frozen=True, slots=True)
class ServingForecast:
    """One deployment under one load.

    Attributes:
        method: Which of the two forms these figures are of; the other's are in ``other``, where both ran.
        time_to_first_token, time_per_output_token, end_to_end: Of requests in the measured window.
        kv_tokens: Tokens whose keys and values one engine's memory holds.
        memory_bytes: Of the device that needs most, weights and cache and what a step takes.
        mean_batch: Sequences of a step of an engine, mean over time.
        bound_by: Shares of time by what limits: 'compute', 'memory', 'communication', 'host', 'kv_memory'
            (places wait for memory), 'queue' (idle engines: the load is the limit), of sum 1.
        within_limits: Share of requests that keep all limits; None without limits.
        keeps_limits: Whether as many do as were asked for; None without limits.
        played: Every request; None of the closed form.
    """

    model: str
    device: str
    cluster: str
    num_devices: int
    deployment: Deployment
    load: Load
    program: StepProgram = field(repr=False)
    dtype: str
    kv_cache_dtype: str
    cost_model: str
    method: ServingMethod
    time_to_first_token: Latency
    time_per_output_token: Latency
    end_to_end: Latency
    rates: ServingRates
    mean_batch: float
    kv_tokens: int
    memory_bytes: int
    capacity_bytes: int
    bound_by: Mapping[str, float]
    fits: tuple[Fit, ...]
    assumptions: tuple[str, ...] = field(repr=False)
    defaults: tuple[str, ...] = ()
    within_limits: Between | None = None
    keeps_limits: bool | None = None
    other: ServingForecast | None = field(default=None, repr=False)
    played: Played | None = field(default=None, repr=False)
