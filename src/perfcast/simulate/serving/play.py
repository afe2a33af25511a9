"""Requests played through one pool of engines, or one that reads prompts and one that writes answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.serving.deployment import Pool
from perfcast.core.serving.load import ClosedLoad, Load, MeasuredWindow, OpenLoad, SaturatedLoad
from perfcast.core.serving.outcome import Played
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import Scheduling, Speculation
from perfcast.core.serving.step import StepTimes
from perfcast.errors import InputError
from perfcast.simulate.serving.log import StepNotes
from perfcast.simulate.serving.loop import Loop, Stage
from perfcast.simulate.serving.replica import Replica
from perfcast.simulate.serving.route import RoutePolicy, Router
from perfcast.simulate.serving.schedulers.choose import build_scheduler


@dataclass(frozen=True)
class Engines:
    """A pool, how its engines schedule, and how long their steps take.

    Attributes:
        pool: Replicas, and engines of each.
        scheduling: Of every engine.
        times: Of a replica's step.
        speculation: Tokens drafted ahead where answers are written; None: none.
        route: Which engine a request goes to; None: as the scheduler's framework does.
    """

    pool: Pool
    scheduling: Scheduling
    times: StepTimes
    speculation: Speculation | None = None
    route: RoutePolicy | None = None


@dataclass(frozen=True, slots=True)
class KVTransfer:
    """Keys and values of a prompt on their way from one pool to the other.

    Attributes:
        latency_seconds: Of each prompt.
        seconds_per_token: Of it.
    """

    latency_seconds: float = 0.0
    seconds_per_token: float = 0.0

    def seconds(self, tokens: int) -> float:
        """Of a prompt."""
        return self.latency_seconds + tokens * self.seconds_per_token


def play_requests(
    requests: Requests,
    load: Load,
    engines: Engines | tuple[Engines, Engines],
    *,
    transfer: KVTransfer | None = None,
    request_seconds: float = 0.0,
    seed: int = 0,
    measure: MeasuredWindow = "all",
    window: tuple[float, float] | None = None,
    jumps: bool = True,
) -> Played:
    """Every request from sending to its last token.

    Args:
        requests: In the order in which they are sent.
        load: When they are sent: by clients that wait for their answers (all begin at once, as benchmark
            clients do), at drawn or recorded times, or all at the beginning.
        engines: Of one pool; or of one that reads prompts, and one that writes answers.
        transfer: Between two pools; None: at once.
        request_seconds: From a client to an engine's queue.
        seed: Of the times of an open load.
        measure: Over what figures are taken: 'all' requests, as benchmark clients do, or the 'steady' state.
        window: Seconds from and until which single steps are noted; None: not at all.
        jumps: Whether runs of equal steps are played at once; without, the same step by step, slower.

    Raises:
        InputError: A request that no engine could ever answer; a transfer with one pool.
    """
    pools = engines if isinstance(engines, tuple) else (engines,)
    if transfer is not None and len(pools) == 1:
        raise InputError("keys and values are transferred between two pools; there is one")
    requests = _sent(requests, load, seed)
    stages = [_stage(each, number, len(pools), jumps) for number, each in enumerate(pools)]
    for stage in stages:
        stage.replicas[0].engines[0].check(requests)
    notes = StepNotes([stage.replicas for stage in stages], window) if window is not None else None
    loop = Loop(
        requests,
        stages,
        clients=load.concurrency if isinstance(load, ClosedLoad) else None,
        request_seconds=request_seconds,
        transfer=(transfer or KVTransfer()).seconds,
        notes=notes,
    )
    played = loop.play().played(requests, load, tuple(each.times for each in pools), measure)
    return played if notes is None else replace(played, steps=notes.log())


def _sent(requests: Requests, load: Load, seed: int) -> Requests:
    """With the times of the load. Gaps of an open load are gamma distributed with the burstiness as squared
    coefficient of variation: shape 1 / burstiness, as vLLM's benchmark client draws them from its own inverse
    (vllm/benchmarks/serve.py: --burstiness is the shape)."""
    num = len(requests)
    if isinstance(load, OpenLoad):
        mean = 1 / load.requests_per_second
        draws = np.random.default_rng(seed)
        shape = 1 / load.burstiness if load.burstiness else None
        gaps = np.full(num, mean) if shape is None else draws.gamma(shape, mean / shape, num)
        return replace(requests, arrival_seconds=np.cumsum(gaps))
    if isinstance(load, SaturatedLoad | ClosedLoad):
        return replace(requests, arrival_seconds=np.zeros(num))
    return requests


def _stage(engines: Engines, number: int, of: int, jumps: bool) -> Stage:
    """The pool with that number of one or two."""
    policy = engines.scheduling.policy
    reads_only = of == 2 and number == 0
    stages = engines.times.stages
    scheduling = _share(engines.scheduling, stages)
    speculation = None if reads_only else engines.speculation
    replicas = [
        Replica(
            place,
            [
                [build_scheduler(scheduling, speculation, hands_over=reads_only) for _ in range(stages)]
                for _ in range(engines.pool.engines_per_replica)
            ],
            engines.times,
            jumps=jumps,
        )
        for place in range(engines.pool.replicas)
    ]
    route = engines.route or ("round_robin" if policy == "sglang" else "least_requests")
    return Stage(
        number=number,
        replicas=replicas,
        router=Router(replicas, route),
        recomputes_token=policy in ("vllm", "vllm_v0"),
        streams_when_loaded=policy == "sglang",
    )


def _share(scheduling: Scheduling, stages: int) -> Scheduling:
    """Of one of the batches that are under way in a pipeline."""
    if stages == 1:
        return scheduling
    return replace(
        scheduling,
        max_sequences=max(1, scheduling.max_sequences // stages),
        kv_tokens=max(1, scheduling.kv_tokens // stages),
    )
