"""What a search over deployments finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfcast.core.forecast.serving import ServingForecast
from perfcast.core.program import StepProgram
from perfcast.core.serving.deployment import Deployment
from perfcast.core.serving.load import Load
from perfcast.prediction.request.serving import ServingRequest
from perfcast.searches.serving.request import DeploymentSearchRequest


@dataclass(frozen=True, kw_only=True)
class FoundDeployment:
    """A deployment under a load, with its figures; seconds are of the search's statistic.

    Attributes:
        request: What ``predict_serving`` is asked for it.
        command: The ``perfcast serving`` that forecasts it.
        forecast: By events; None where it is known by formula alone.
        worst: Of its times over their limits; at most 1 keeps all.
        bound_by: Shares of time by what limits.
        gives_up: What it has less or more of than the first, in words; empty of the first.
    """

    cluster: str
    deployment: Deployment
    load: Load
    request: ServingRequest
    command: str
    num_devices: int
    first_seconds: float
    token_seconds: float
    whole_seconds: float
    tokens_per_second_per_device: float
    tokens_per_second_per_user: float
    dollars_per_token: float | None
    worst: float
    bound_by: Mapping[str, float]
    forecast: ServingForecast | None
    gives_up: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeploymentSearchResult:
    """Deployments, the best first.

    Attributes:
        ranked: That keep the limits, by events where any were played, the best of each kind.
        front: By formula: of those that keep the limits, the ones that none beats in a device's throughput
            and a user's speed (and dollars) at once, the fastest for a user first.
        failed: Clusters that cannot serve, and why.
        num_replicas, num_deployments, num_kept, num_played: Different replicas whose steps were timed;
            deployments weighed, those that keep the limits by formula; those played by events.
        disagreement: Median of how far formula and events are apart, of the first token and of each further
            one, over what was played; None where nothing was.
        seconds_by_part: That the search took.
    """

    request: DeploymentSearchRequest
    model: str
    program: StepProgram
    ranked: tuple[FoundDeployment, ...]
    front: tuple[FoundDeployment, ...]
    failed: Mapping[str, str]
    num_replicas: int
    num_deployments: int
    num_kept: int
    num_played: int
    disagreement: tuple[float, float] | None
    defaults: tuple[str, ...]
    assumptions: tuple[str, ...]
    seconds_by_part: Mapping[str, float] = field(default_factory=dict)

    @property
    def winner(self) -> FoundDeployment:
        """The first."""
        return self.ranked[0]

    @property
    def clusters(self) -> Sequence[str]:
        """With a ranked deployment, each once."""
        return tuple(dict.fromkeys(found.cluster for found in self.ranked))
