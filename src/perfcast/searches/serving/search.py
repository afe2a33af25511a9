"""The best deployment for requests as they come: all weighed by formula, the best played by events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.serving.load import ClosedLoad
from perfcast.errors import PlanError
from perfcast.prediction.request.serving import ServingRequest
from perfcast.searches.resolve import Progress, cluster_stem, ignore_progress
from perfcast.searches.serving.command import plan_text, serving_command
from perfcast.searches.serving.explain import explain_no_replica, explain_none, with_what_it_gives_up
from perfcast.searches.serving.play import (
    PlayedDeployment,
    Player,
    play_best,
    serving_request,
)
from perfcast.searches.serving.rank import excess, front, kinds_of, order
from perfcast.searches.serving.replicas import Replica, Shortage, build_replicas
from perfcast.searches.serving.request import DeploymentSearchRequest
from perfcast.searches.serving.result import DeploymentSearchResult, FoundDeployment
from perfcast.searches.serving.sampled import Samples, sample_steps
from perfcast.searches.serving.space import Deployments, list_deployments
from perfcast.searches.serving.targets import Target, resolve_targets
from perfcast.searches.serving.weigh import Weighed, mean_work, weigh

_MOST_ON_FRONT = 40
_ASSUMPTIONS = (
    "all deployments are weighed by the formula of the steady state; those of the list are played by events, "
    "and the events count",
    "devices that a deployment leaves idle cost nothing",
    "two pools are made of the replicas that read best and those that write best",
)


@dataclass
class _Clock:
    """Seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


@dataclass(frozen=True)
class _Field:
    """All that was weighed."""

    request: DeploymentSearchRequest
    targets: Sequence[Target]
    replicas: Sequence[Replica]
    rows: Deployments
    weighed: Weighed
    kinds: Integers


def search_deployments(
    request: DeploymentSearchRequest, on_progress: Progress = ignore_progress
) -> DeploymentSearchResult:
    """Deployments that keep the limits, the best first.

    Raises:
        PlanError: None does; says which limit, and how close the closest come. None fits.
        InputError: Unknown names, no price of a cluster.
    """
    clock = _Clock()
    with clock.part("names"):
        targets, failed = resolve_targets(request)
    replicas: list[Replica] = []
    short: list[Shortage] = []
    with clock.part("steps"):
        for target in targets:
            found, without = build_replicas(request, target, on_progress)
            replicas += found
            short += without
    if not replicas:
        raise PlanError(explain_no_replica(request, short, list(failed.values())))
    with clock.part("formula"):
        field_ = _weigh(request, targets, replicas)
        keeps = excess(request, field_.weighed) <= 1
        best = order(request, field_.weighed, keeps)
    if not len(best):
        raise PlanError(explain_none(request, field_.weighed, lambda row: _describe(field_, row)))
    player = Player(request, replicas, field_.rows, field_.weighed)
    with clock.part("events"):
        played = play_best(request, player, field_.rows, field_.weighed, field_.kinds, on_progress)
    ranked = _ranked(field_, best, played)
    if not ranked:
        raise PlanError(_explain_broken(request, field_, played, player.refused))
    return DeploymentSearchResult(
        request=request,
        model=targets[0].model.name,
        program=targets[0].program,
        ranked=with_what_it_gives_up(ranked),
        front=_front(field_, best),
        failed=failed,
        num_replicas=len(replicas),
        num_deployments=len(field_.rows),
        num_kept=len(best),
        num_played=player.num_played,
        disagreement=_disagreement(request, field_.weighed, played),
        defaults=tuple(dict.fromkeys(note for target in targets for note in target.defaults)),
        assumptions=_assumptions(replicas),
        seconds_by_part=clock.seconds,
    )


def _weigh(
    request: DeploymentSearchRequest, targets: Sequence[Target], replicas: Sequence[Replica]
) -> _Field:
    samples: Samples = sample_steps(mean_work(request), [replica.times for replica in replicas])
    rows = list_deployments(request, replicas, samples)
    if not len(rows):
        raise PlanError("no deployment: two pools need the devices of two replicas")
    weighed = weigh(request, replicas, samples, rows)
    return _Field(request, targets, replicas, rows, weighed, kinds_of(rows, np.arange(len(replicas))))


def _ranked(field_: _Field, best: Integers, played: Sequence[PlayedDeployment]) -> list[FoundDeployment]:
    """By events where any were played; else by formula, the best of each kind."""
    top = field_.request.top
    if field_.request.num_played == 0:
        _, first = np.unique(field_.kinds[best], return_index=True)
        return [_by_formula(field_, int(best[at])) for at in np.sort(first)[:top]]
    kept = [_by_events(field_, each) for each in played if each.worst <= 1]
    return sorted(kept, key=lambda each: _key(field_.request, each))[:top]


def _key(request: DeploymentSearchRequest, found: FoundDeployment) -> tuple[float, float]:
    value = {
        "tokens-per-second": -found.tokens_per_second_per_device,
        "dollars-per-token": found.dollars_per_token or 0.0,
        "devices": float(found.num_devices),
        "latency": found.whole_seconds,
    }[request.objective]
    return value, found.whole_seconds


def _by_formula(field_: _Field, row: int) -> FoundDeployment:
    weighed = field_.weighed
    return _found(
        field_,
        row,
        first=float(weighed.first_seconds[row]),
        token=float(weighed.token_seconds[row]),
        whole=float(weighed.whole_seconds[row]),
        rate=float(weighed.tokens_per_second_per_device[row]),
        user=float(weighed.user_tokens_per_second[row]),
        dollars=float(weighed.dollars_per_token[row]),
        worst=float(excess(field_.request, weighed)[row]),
        bounds={name: float(shares[row]) for name, shares in weighed.bound_by.items() if shares[row] > 0},
        played=None,
    )


def _by_events(field_: _Field, played: PlayedDeployment) -> FoundDeployment:
    forecast, statistic = played.forecast, field_.request.statistic
    dollars = played.dollars_per_token
    return _found(
        field_,
        played.row,
        first=getattr(forecast.time_to_first_token, statistic).value,
        token=getattr(forecast.time_per_output_token, statistic).value,
        whole=getattr(forecast.end_to_end, statistic).value,
        rate=played.tokens_per_second_per_device,
        user=forecast.rates.output_tokens_per_second_per_user.value,
        dollars=np.nan if dollars is None else dollars,
        worst=played.worst,
        bounds=dict(forecast.bound_by),
        played=played,
    )


def _found(
    field_: _Field,
    row: int,
    *,
    first: float,
    token: float,
    whole: float,
    rate: float,
    user: float,
    dollars: float,
    worst: float,
    bounds: dict[str, float],
    played: PlayedDeployment | None,
) -> FoundDeployment:
    target = field_.replicas[field_.rows.writer[row]].target
    request = _request(field_, row) if played is None else played.request
    deployment = field_.rows.deployment(row, field_.replicas)
    sized = f"{cluster_stem(target.asked)}:{target.cluster.num_devices}"
    return FoundDeployment(
        cluster=target.cluster.name,
        deployment=deployment,
        load=request.load,
        request=request,
        command=serving_command(request, target.model.name, sized),
        num_devices=deployment.num_devices,
        first_seconds=first,
        token_seconds=token,
        whole_seconds=whole,
        tokens_per_second_per_device=rate,
        tokens_per_second_per_user=user,
        dollars_per_token=None if np.isnan(dollars) else dollars,
        worst=worst,
        bound_by=bounds,
        forecast=None if played is None else played.forecast,
    )


def _request(field_: _Field, row: int) -> ServingRequest:
    return serving_request(field_.request, field_.replicas, field_.rows, row)


def _front(field_: _Field, best: Integers) -> tuple[FoundDeployment, ...]:
    found = front(field_.weighed, best)
    if len(found) > _MOST_ON_FRONT:
        found = found[np.unique(np.linspace(0, len(found) - 1, _MOST_ON_FRONT).round().astype(int))]
    shown = [_by_formula(field_, int(row)) for row in found]
    return tuple(sorted(shown, key=lambda each: -each.tokens_per_second_per_user))


def _describe(field_: _Field, row: int) -> str:
    """A row in one line."""
    rows, replicas = field_.rows, field_.replicas
    writer = replicas[rows.writer[row]]
    said = f"{writer.target.asked}: {rows.writers[row]} × {plan_text(writer.plan)}"
    if rows.is_split[row]:
        reader = replicas[rows.reader[row]]
        said += f" written, {rows.readers[row]} × {plan_text(reader.plan)} read"
    if field_.request.load is None or isinstance(field_.request.load, ClosedLoad):
        said += f", {rows.amount[row]:g} clients"
    return said


def _explain_broken(
    request: DeploymentSearchRequest, field_: _Field, played: Sequence[PlayedDeployment], refused: str
) -> str:
    """The formula finds some, events find that they break a limit."""
    if not played:
        return f"no deployment that keeps the limits by formula can be played: {refused}"
    nearest = min(played, key=lambda each: each.worst)
    return (
        f"the {len(played)} best deployments by formula break a limit when they are played; the nearest, "
        f"{_describe(field_, nearest.row)}, takes {nearest.worst:.2f} times what is allowed "
        f"({request.statistic}): allow more, or play more with --num-played"
    )


def _disagreement(
    request: DeploymentSearchRequest, weighed: Weighed, played: Sequence[PlayedDeployment]
) -> tuple[float, float] | None:
    if not played:
        return None

    def apart(name: str, formula: Floats) -> float:
        ratios = [
            formula[each.row] / max(getattr(getattr(each.forecast, name), request.statistic).value, 1e-12)
            for each in played
        ]
        return float(np.median(np.abs(np.array(ratios) - 1)))

    return apart("time_to_first_token", weighed.first_seconds), apart(
        "time_per_output_token", weighed.token_seconds
    )


def _assumptions(replicas: Sequence[Replica]) -> tuple[str, ...]:
    notes = dict.fromkeys(note for replica in replicas for note in replica.times.assumptions)
    return (*_ASSUMPTIONS, *list(notes)[:8])
