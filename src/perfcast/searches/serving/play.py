"""The best deployments by formula, played by events, which win where the two differ.

Both judge the steady state, not the rush at a benchmark's beginning. A deployment that events find to break
a limit is tried again with fewer clients, or other limits of its engines: what events make of the formula's
times is taken to hold for all rows of its kind, and, in the median of what was played, for the other kinds of
one pool, or of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.forecast.serving import Latency, ServingForecast
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.errors import PlanError
from perfcast.prediction.request.serving import EngineOptions, ServingRequest
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.predict import predict_serving
from perfcast.searches.resolve import Progress
from perfcast.searches.serving.rank import excess, order
from perfcast.searches.serving.replicas import Replica
from perfcast.searches.serving.request import DeploymentSearchRequest, Statistic
from perfcast.searches.serving.space import Deployments
from perfcast.searches.serving.weigh import Weighed

#: How often a kind is tried anew where events break a limit that the formula keeps.
_TRIES = 3
#: Plays for each kind that is wanted, at most, and of all where few are wanted.
_PLAYS_OF_A_KIND, _LEAST_PLAYS = 2, 8


@dataclass(frozen=True)
class PlayedDeployment:
    """A deployment by events.

    Attributes:
        row: Of the columns.
        request: What was asked: the same gives the same figures.
        worst: Of its times over their limits; at most 1 keeps all.
        tokens_per_second_per_device, dollars_per_token: By events; None without a price.
    """

    row: int
    request: ServingRequest
    forecast: ServingForecast
    worst: float
    tokens_per_second_per_device: float
    dollars_per_token: float | None


def serving_request(
    request: DeploymentSearchRequest, replicas: Sequence[Replica], rows: Deployments, row: int
) -> ServingRequest:
    """What ``perfcast serving`` answers for a row."""
    writer = replicas[rows.writer[row]]
    target = writer.target
    at = int(rows.writer_choice[row])
    reading = replicas[rows.reader[row]] if rows.is_split[row] else writer
    read_at = int(rows.reader_choice[row]) if rows.is_split[row] else at
    amount = round(float(rows.amount[row]))
    load = request.load if isinstance(request.load, OpenLoad) else ClosedLoad(amount)
    engine: EngineOptions = replace(
        request.engine,
        framework=target.program.framework,
        max_sequences=int(writer.max_sequences[at]),
        max_step_tokens=int(reading.max_step_tokens[read_at]),
        rank_wait_steps=request.engine.rank_wait_steps if writer.plan.data_parallel > 1 else None,
    )
    return ServingRequest(
        model=request.model,
        cluster=target.cluster,
        load=load,
        deployment=rows.deployment(row, replicas),
        prompts=request.prompts,
        answers=request.answers,
        num_requests=int(rows.num_requests[row]),
        prefix_hit_share=request.prefix_hit_share,
        engine=engine,
        limits=request.limits,
        dtype=writer.precise.dtype,
        kv_cache_dtype=writer.precise.kv_cache_dtype,
        cost_model=target.asked_cost_model,
        method="events",
        measure="steady",
        seed=request.seed,
        dollars_per_device_hour=target.dollars_per_device_hour,
    )


class Player:
    """Plays rows, each once.

    Args:
        request: Of the search.
        replicas, rows, weighed: What was weighed.

    Attributes:
        num_played: So far.
        refused: Why the last that could not be played could not.
    """

    def __init__(
        self,
        request: DeploymentSearchRequest,
        replicas: Sequence[Replica],
        rows: Deployments,
        weighed: Weighed,
    ) -> None:
        self._request, self._replicas, self._rows, self._weighed = request, replicas, rows, weighed
        self._tables = StepTables()
        self.num_played = 0
        self.refused = ""

    def play(self, row: int) -> PlayedDeployment | None:
        """One row; None where the deployment cannot be forecast."""
        asked = serving_request(self._request, self._replicas, self._rows, row)
        try:
            forecast = predict_serving(asked, self._tables)
        except PlanError as error:
            self.refused = str(error)
            return None
        self.num_played += 1
        rates, devices = forecast.rates, forecast.num_devices
        dollars = rates.dollars_per_million_output_tokens
        return PlayedDeployment(
            row, asked, forecast, worst_of(self._request, forecast),
            rates.output_tokens_per_second.value / devices, None if dollars is None else dollars.value / 1e6,
        )  # fmt: skip


def worst_of(request: DeploymentSearchRequest, forecast: ServingForecast) -> float:
    """The worst of a forecast's times over its limit."""
    limits = request.limits
    pairs = (
        (limits.time_to_first_token_seconds, forecast.time_to_first_token),
        (limits.time_per_output_token_seconds, forecast.time_per_output_token),
        (limits.end_to_end_seconds, forecast.end_to_end),
    )
    parts = [_of(latency, request.statistic) / limit for limit, latency in pairs if limit is not None]
    return max(parts, default=0.0)


def _of(latency: Latency, statistic: Statistic) -> float:
    value: float = getattr(latency, statistic).value
    return value


class _Learned:
    """What events make of the formula's times: factors of each row, as ``rank.excess`` takes them."""

    def __init__(self, request: DeploymentSearchRequest, rows: Deployments, weighed: Weighed) -> None:
        self._statistic, self._rows, self._weighed = request.statistic, rows, weighed
        self._seen: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
        self._of_kind: dict[int, tuple[float, ...]] = {}

    def learn(self, played: PlayedDeployment, kind: int) -> None:
        """One more."""
        found, row = played.forecast, played.row
        pairs = (
            (found.time_to_first_token, self._weighed.first_seconds),
            (found.time_per_output_token, self._weighed.token_seconds),
            (found.end_to_end, self._weighed.whole_seconds),
        )
        factors = tuple(
            float(np.clip(_of(latency, self._statistic) / max(seconds[row], 1e-12), 0.2, 5.0))
            for latency, seconds in pairs
        )
        self._seen[bool(self._rows.is_split[row])].append(factors)
        self._of_kind[kind] = factors

    def factors(self, kinds: Integers) -> dict[str, Floats]:
        """Of every row."""
        found = np.ones((len(self._rows), 3))
        for is_split, seen in self._seen.items():
            if seen:
                found[self._rows.is_split == is_split] = np.median(np.array(seen), axis=0)
        for kind, factors in self._of_kind.items():
            found[kinds == kind] = factors
        return dict(zip(("first", "token", "whole"), found.T, strict=True))


def _next_row(
    request: DeploymentSearchRequest, weighed: Weighed, open_rows: Flags, factors: dict[str, Floats]
) -> int | None:
    """The best that should keep the limits by events; where none should, the nearest that does by formula."""
    worst = excess(request, weighed, factors)
    best = order(request, weighed, open_rows & (worst <= 1))
    if len(best):
        return int(best[0])
    left = np.flatnonzero(open_rows & (excess(request, weighed) <= 1))
    return int(left[np.argmin(worst[left])]) if len(left) else None


def play_best(
    request: DeploymentSearchRequest,
    player: Player,
    rows: Deployments,
    weighed: Weighed,
    kinds: Integers,
    on_progress: Progress,
) -> list[PlayedDeployment]:
    """The best of each kind by formula, until enough kinds keep the limits by events; all that were played.

    Args:
        kinds: Of all rows.
    """
    found: list[PlayedDeployment] = []
    learned = _Learned(request, rows, weighed)
    open_rows = np.ones(len(rows), dtype=bool)
    tries: dict[int, int] = {}
    kept = 0
    most = max(_PLAYS_OF_A_KIND * request.num_played, _LEAST_PLAYS)
    while kept < request.num_played and sum(tries.values()) < most:
        on_progress("played by events", kept, request.num_played)
        row = _next_row(request, weighed, open_rows, learned.factors(kinds))
        if row is None:
            break
        kind = int(kinds[row])
        tries[kind] = tries.get(kind, 0) + 1
        open_rows[row] = False
        played = player.play(row)
        if played is not None:
            found.append(played)
            learned.learn(played, kind)
        if played is None or played.worst <= 1 or tries[kind] == _TRIES:
            open_rows[kinds == kind] = False
            kept += played is not None and played.worst <= 1
    return found
