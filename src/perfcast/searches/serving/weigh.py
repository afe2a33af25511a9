"""What all deployments do, by the formula of the steady state, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.serving.load import OpenLoad
from perfcast.core.serving.steady import EngineColumns, LatencyColumns, LoadColumns, SteadyState
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.engines import transfer_between
from perfcast.searches.serving.replicas import Replica
from perfcast.searches.serving.request import DeploymentSearchRequest, Statistic
from perfcast.searches.serving.sampled import SampledSteps, Samples
from perfcast.searches.serving.space import Deployments
from perfcast.simulate.closed_form.serving import steady_columns, tandem_columns
from perfcast.simulate.closed_form.serving.ranks import alone_share
from perfcast.simulate.closed_form.serving.work import RequestWork, work_of
from perfcast.units import HOUR


@dataclass(frozen=True, eq=False)
class Weighed:
    """Figures of deployments, each column of shape (n,).

    Attributes:
        first_seconds, token_seconds, whole_seconds: Time to the first token, of each further one, and to the
            last, of the search's statistic.
        user_tokens_per_second: Over the mean time of a token.
        tokens_per_second: Of answers, of all replicas.
        num_devices: Of all replicas.
        dollars_per_token: Of an answer; NaN without a price.
        bound_by: Shares of time by what limits.
        is_stable: Whether no queue grows without end.
    """

    first_seconds: Floats
    token_seconds: Floats
    whole_seconds: Floats
    user_tokens_per_second: Floats
    tokens_per_second: Floats
    num_devices: Integers
    dollars_per_token: Floats
    bound_by: Mapping[str, Floats]
    is_stable: Flags

    @property
    def tokens_per_second_per_device(self) -> Floats:
        """The field's throughput per GPU."""
        return self.tokens_per_second / self.num_devices


def weigh(
    request: DeploymentSearchRequest, replicas: Sequence[Replica], samples: Samples, rows: Deployments
) -> Weighed:
    """All rows: one evaluation for the deployments of one pool, and one for those of two."""
    found: list[tuple[Integers, SteadyState]] = []
    for is_split in (False, True):
        for places in _alike(replicas, np.flatnonzero(rows.is_split == is_split), rows):
            part = rows.take(places)
            state = (_of_two if is_split else _of_one)(request, replicas, samples, part)
            found.append((places, state))
    return _joined(request, replicas, rows, found)


def _alike(replicas: Sequence[Replica], places: Integers, rows: Deployments) -> list[Integers]:
    """Rows whose engines follow the same rules."""
    limits = [replica.limits for replica in replicas]
    kinds = [(each.policy, each.chunks_prompts, each.block_tokens, each.schedules_ahead) for each in limits]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    of_replica = np.array([numbers[kind] for kind in kinds])
    of_row = of_replica[rows.writer[places]]
    return [places[of_row == number] for number in numbers.values() if (of_row == number).any()]


def engine_columns(
    request: DeploymentSearchRequest,
    replicas: Sequence[Replica],
    samples: Samples,
    replica: Integers,
    choice: Integers,
    count: Integers,
) -> EngineColumns:
    """A pool of each row; the batches that a pipeline keeps under way are engines with a share of places."""
    limits = replicas[replica[0]].limits
    ranks = np.array([each.plan.data_parallel for each in replicas], dtype=float)[replica]
    stages = np.array([each.times.stages for each in replicas], dtype=float)[replica]

    def of(name: str) -> Floats:
        return np.array(
            [getattr(replicas[at], name)[which] for at, which in zip(replica, choice, strict=True)],
            dtype=float,
        )

    return EngineColumns(
        times=SampledSteps(samples, replica),
        policy=limits.policy,
        engines=count * ranks * stages,
        max_sequences=np.maximum(of("max_sequences") // stages, 1.0),
        max_step_tokens=of("max_step_tokens"),
        kv_tokens=np.maximum(of("kv_tokens") // stages, 1.0),
        ranks=ranks,
        chunks_prompts=limits.chunks_prompts,
        block_tokens=limits.block_tokens,
        schedules_ahead=limits.schedules_ahead,
        polls_every_steps=limits.polls_every_steps,
        speculation=request.engine.speculation,
        alone_share=_alone_shares(request, replicas)[replica],
    )


def _alone_shares(request: DeploymentSearchRequest, replicas: Sequence[Replica]) -> Floats:
    """Of each replica."""
    work = mean_work(request)
    return np.array(
        [
            alone_share(
                work, each.times, each.plan.data_parallel, float(each.max_step_tokens.max() / work.new_tokens)
            )
            for each in replicas
        ]
    )


def mean_work(request: DeploymentSearchRequest) -> RequestWork:
    """What requests ask for on average."""
    speculation = request.engine.speculation
    return work_of(
        request.prompts,
        request.answers,
        prefix_hit_share=request.prefix_hit_share,
        tokens_per_step=1.0 if speculation is None else speculation.tokens_per_step,
    )


def _load(request: DeploymentSearchRequest, rows: Deployments) -> LoadColumns:
    """In the long run: without the first of a benchmark's requests, which all come at once."""
    endless = np.full(len(rows), np.inf)
    if isinstance(request.load, OpenLoad):
        return LoadColumns("open", rows.amount, endless, request.load.burstiness)
    return LoadColumns("closed", rows.amount, endless)


def _of_one(
    request: DeploymentSearchRequest, replicas: Sequence[Replica], samples: Samples, rows: Deployments
) -> SteadyState:
    return steady_columns(
        _load(request, rows), request.prompts, request.answers,
        engine_columns(request, replicas, samples, rows.writer, rows.writer_choice, rows.writers),
        request_seconds=_request_seconds(replicas, rows), prefix_hit_share=request.prefix_hit_share,
    )  # fmt: skip


def _of_two(
    request: DeploymentSearchRequest, replicas: Sequence[Replica], samples: Samples, rows: Deployments
) -> SteadyState:
    tokens = request.prompts.mean_tokens
    seconds = np.array(
        [
            _transfer_seconds(replicas[one], replicas[other], tokens)
            for one, other in zip(rows.reader, rows.writer, strict=True)
        ]
    )
    return tandem_columns(
        _load(request, rows), request.prompts, request.answers,
        engine_columns(request, replicas, samples, rows.reader, rows.reader_choice, rows.readers),
        engine_columns(request, replicas, samples, rows.writer, rows.writer_choice, rows.writers),
        transfer_seconds=seconds, request_seconds=_request_seconds(replicas, rows),
        prefix_hit_share=request.prefix_hit_share,
    )  # fmt: skip


def _request_seconds(replicas: Sequence[Replica], rows: Deployments) -> float:
    """From a client to an engine's queue and back."""
    framework = replicas[rows.writer[0]].target.program.framework
    return load_serving_constants().request_seconds[framework]


def _transfer_seconds(reads: Replica, writes: Replica, tokens: float) -> float:
    """Of the keys and values of a prompt."""
    target = reads.target
    found = transfer_between(
        target.cluster, target.program.framework, (reads.plan, writes.plan), reads.token_bytes
    )
    return found.latency_seconds + tokens * found.seconds_per_token


def _joined(
    request: DeploymentSearchRequest,
    replicas: Sequence[Replica],
    rows: Deployments,
    found: list[tuple[Integers, SteadyState]],
) -> Weighed:
    n = len(rows)
    devices = rows.num_devices(replicas)
    names = dict.fromkeys(name for _, state in found for name in state.bound_by)
    columns = {each.name: np.full(n, np.nan) for each in fields(Weighed)}
    bounds = {name: np.zeros(n) for name in names}
    stable = np.zeros(n, dtype=bool)
    for places, state in found:
        columns["first_seconds"][places] = _of(state.time_to_first_token, request.statistic)
        columns["token_seconds"][places] = _of(state.time_per_output_token, request.statistic)
        columns["whole_seconds"][places] = _of(state.end_to_end, request.statistic)
        columns["tokens_per_second"][places] = state.output_tokens_per_second
        mean = state.time_per_output_token.mean
        columns["user_tokens_per_second"][places] = 1 / np.maximum(mean, 1e-12)
        stable[places] = state.is_stable
        for name, shares in state.bound_by.items():
            bounds[name][places] = shares
    prices = np.array([_price(replica) for replica in replicas])[rows.writer]
    return Weighed(
        first_seconds=columns["first_seconds"],
        token_seconds=columns["token_seconds"],
        whole_seconds=columns["whole_seconds"],
        user_tokens_per_second=columns["user_tokens_per_second"],
        tokens_per_second=columns["tokens_per_second"],
        num_devices=devices,
        dollars_per_token=prices * devices / HOUR / columns["tokens_per_second"],
        bound_by=bounds,
        is_stable=stable,
    )


def _price(replica: Replica) -> float:
    price = replica.target.dollars_per_device_hour
    return np.nan if price is None else price


def _of(latency: LatencyColumns, statistic: Statistic) -> Floats:
    found: Floats = getattr(latency, statistic)
    return found
