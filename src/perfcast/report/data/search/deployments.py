"""What JSON holds of a search over deployments that serve requests as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from perfcast.core.program import StepProgram
from perfcast.report.answers import Answer, view
from perfcast.report.data.serving.forecast import FormData, LoadData, PoolData, form_of, load_of, pools_of
from perfcast.searches.serving.result import DeploymentSearchResult, FoundDeployment


@dataclass(frozen=True, kw_only=True)
class DeploymentData:
    """A deployment under a load.

    Attributes:
        rank: Among those listed, from 1.
        command: The perfcast serving that forecasts it.
        cluster: Catalog name.
        device: Catalog name.
        num_devices: Of all replicas.
        pools: What serves.
        load: How requests come.
        dtype: Format of the weights.
        kv_cache_dtype: Format of keys and values; null: as the framework keeps them beside dtype.
        max_sequences: Of an engine at once.
        max_step_tokens: New tokens of a step of an engine.
        first_token_seconds: Until the first token, in seconds, of the search's statistic.
        token_seconds: Of each further token, in seconds, of the search's statistic.
        end_to_end_seconds: Until the last token, in seconds, of the search's statistic.
        output_tokens_per_second_per_device: Of answers.
        output_tokens_per_second_per_user: Inverse of the mean time of a token.
        dollars_per_output_token: Null without a price.
        worst_over_limit: Of the times over their limits, the largest; at most 1 keeps all, 0 without limits.
        bound_by: Shares of time by what limits, of sum 1.
        gives_up: What it has less or more of than the first, in words.
        answer: By events, with intervals; null where it is known by formula alone.
    """

    rank: int
    command: str
    cluster: str
    device: str
    num_devices: int
    pools: tuple[PoolData, ...]
    load: LoadData
    dtype: str
    kv_cache_dtype: str | None
    max_sequences: int | None
    max_step_tokens: int | None
    first_token_seconds: float
    token_seconds: float
    end_to_end_seconds: float
    output_tokens_per_second_per_device: float
    output_tokens_per_second_per_user: float
    dollars_per_output_token: float | None
    worst_over_limit: float
    bound_by: Mapping[str, float]
    gives_up: tuple[str, ...]
    answer: FormData | None


@dataclass(frozen=True, kw_only=True)
class DeploymentSearchData(Answer):
    """What a search over deployments found.

    Attributes:
        fits: Whether the devices' memory holds the best, as that of every deployment here; no unit.
        verdict: The line with which the answer begins: what does not fit; empty where all fits.
        model: As asked for.
        program: What runs.
        objective: What deployments are ordered by.
        statistic: Of the requests' times, what limits and figures are of.
        input_tokens: Mean of a prompt.
        output_tokens: Mean of an answer.
        max_first_token_seconds: Limit, in seconds; null for none.
        max_token_seconds: Limit, in seconds; null for none.
        max_end_to_end_seconds: Limit, in seconds; null for none.
        ranked: Deployments that keep the limits, the best first, by events where any were played.
        front: By formula, those that none beats in a device's throughput and a user's speed (and dollars).
        failed: Clusters that cannot serve, and why.
        num_replicas: Different replicas whose steps were timed.
        num_deployments: That were weighed by formula.
        num_kept: Of those, that keep the limits.
        num_played: That were played by events.
        formula_over_events_first_token, formula_over_events_token: How far the formula is from the events,
            median of what was played; null where nothing was.
        defaults: What was chosen where nothing was asked for, in words.
        assumptions: What was taken for granted.
        timings: Seconds that the search took on this machine, by its part; no two runs are alike in them.
    """

    table: ClassVar[str] = "ranked"

    fits: bool
    verdict: str
    model: str
    program: StepProgram
    objective: str
    statistic: str
    input_tokens: float
    output_tokens: float
    max_first_token_seconds: float | None
    max_token_seconds: float | None
    max_end_to_end_seconds: float | None
    ranked: tuple[DeploymentData, ...]
    front: tuple[DeploymentData, ...]
    failed: Mapping[str, str]
    num_replicas: int
    num_deployments: int
    num_kept: int
    num_played: int
    formula_over_events_first_token: float | None
    formula_over_events_token: float | None
    defaults: tuple[str, ...]
    assumptions: tuple[str, ...]
    timings: Mapping[str, float]


def data_of(found: DeploymentSearchResult) -> DeploymentSearchData:
    """Every figure in SI units."""
    request, apart = found.request, found.disagreement or (None, None)
    return view(
        DeploymentSearchData,
        found,
        fits=True,
        verdict="",
        objective=request.objective,
        statistic=request.statistic,
        input_tokens=request.prompts.mean_tokens,
        output_tokens=request.answers.mean_tokens,
        max_first_token_seconds=request.limits.time_to_first_token_seconds,
        max_token_seconds=request.limits.time_per_output_token_seconds,
        max_end_to_end_seconds=request.limits.end_to_end_seconds,
        ranked=tuple(_deployment(each, rank) for rank, each in enumerate(found.ranked, 1)),
        front=tuple(_deployment(each, rank) for rank, each in enumerate(found.front, 1)),
        formula_over_events_first_token=apart[0],
        formula_over_events_token=apart[1],
        timings=found.seconds_by_part,
    )


def _deployment(found: FoundDeployment, rank: int) -> DeploymentData:
    request = found.request
    return view(
        DeploymentData,
        found,
        rank=rank,
        device=request.cluster.device,
        pools=pools_of(found.deployment),
        load=load_of(found.load),
        dtype=request.dtype,
        kv_cache_dtype=request.kv_cache_dtype,
        max_sequences=request.engine.max_sequences,
        max_step_tokens=request.engine.max_step_tokens,
        first_token_seconds=found.first_seconds,
        end_to_end_seconds=found.whole_seconds,
        output_tokens_per_second_per_device=found.tokens_per_second_per_device,
        output_tokens_per_second_per_user=found.tokens_per_second_per_user,
        dollars_per_output_token=found.dollars_per_token,
        worst_over_limit=found.worst,
        answer=None if found.forecast is None else form_of(found.forecast),
    )
