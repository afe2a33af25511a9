"""What is asked of a search over deployments that serve requests as they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from perfcast.core.dtype import AUTO
from perfcast.core.plans.text import PlanValue
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, PlanError
from perfcast.prediction.model import Model
from perfcast.prediction.request.serving import EngineOptions, Limits
from perfcast.searches.prices_file import PriceList
from perfcast.searches.space.fixed import write_fixed

#: What deployments are ordered by: output tokens a second of a device, what an output token costs, the fewest
#: devices, or the shortest time to the last token.
DeploymentObjective = Literal["tokens-per-second", "dollars-per-token", "devices", "latency"]
DEPLOYMENT_OBJECTIVES: tuple[DeploymentObjective, ...] = get_args(DeploymentObjective)
#: Of the requests' times, what limits are of.
Statistic = Literal["mean", "median", "p90", "p99"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
#: One pool of replicas, or one that reads prompts and one that writes answers.
PoolKind = Literal["aggregated", "disaggregated"]
POOL_KINDS: tuple[PoolKind, ...] = get_args(PoolKind)
_DEGREES = ("tp", "pp", "dp", "ep")


@dataclass(frozen=True, kw_only=True)
class DeploymentSearchRequest:
    """Requests that are served within limits, on one or several clusters.

    Attributes:
        clusters: Names with ``:N``, or files; a deployment takes no more devices than one of them has.
        load: Of the whole deployment; None: as many clients as serve the objective within the limits.
        limits: Seconds that ``statistic`` of the requests may take.
        engine: What is decided of the engines; its limits on sequences and tokens where ``max_sequences`` and
            ``max_step_tokens`` say nothing.
        dtypes, kv_cache_dtypes: Of weights and of keys and values, each tried with each.
        max_sequences, max_step_tokens: Of an engine, that are tried; empty: the framework's, and usual ones.
        kinds: Of deployments.
        fixed: Degrees of a replica that are decided, by ``tp``, ``pp``, ``dp``, ``ep``.
        cost_models: By device; a name or an object. Devices that are not there take the default.
        prices: Of a device and hour; None: nothing costs.
        top: Deployments that the result ranks.
        num_played: Of the best by formula, those that are played by events at least; 0: none.
        seed: Of lengths and arrivals that are played.
    """

    model: Model
    clusters: tuple[str, ...]
    prompts: Lengths
    answers: Lengths
    load: ClosedLoad | OpenLoad | None = None
    prefix_hit_share: float = 0.0
    limits: Limits = field(default_factory=Limits)
    statistic: Statistic = "p90"
    engine: EngineOptions = field(default_factory=EngineOptions)
    dtypes: tuple[str, ...] = (AUTO,)
    kv_cache_dtypes: tuple[str | None, ...] = (None,)
    max_sequences: tuple[int, ...] = ()
    max_step_tokens: tuple[int, ...] = ()
    kinds: tuple[PoolKind, ...] = POOL_KINDS
    fixed: Mapping[str, PlanValue] = field(default_factory=dict)
    objective: DeploymentObjective = "tokens-per-second"
    cost_models: Mapping[str, str | CostModel | None] = field(default_factory=dict)
    prices: PriceList | None = None
    top: int = 10
    num_played: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        for key, value in self.fixed.items():
            if key not in _DEGREES:
                raise PlanError(f"{write_fixed({key: value})}: a replica that serves has tp, pp, dp and ep")
        if self.objective == "dollars-per-token" and self.prices is None:
            raise InputError("--objective dollars-per-token needs --prices")
        if self.objective == "devices" and self.load is None:
            raise InputError("--objective devices needs a load: --concurrency N or --request-rate R")
        if not 0 <= self.prefix_hit_share < 1:
            raise InputError(f"prefix hit share {self.prefix_hit_share:g}: between 0 and 1, without 1")
