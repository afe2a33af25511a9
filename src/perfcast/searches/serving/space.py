"""Deployments in columns: which replicas, how many of each, their limits, and under which load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.serving.deployment import Aggregated, Deployment, Disaggregated, Pool
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.searches.ranking.pareto import pareto_front
from perfcast.searches.serving.replicas import Replica
from perfcast.searches.serving.request import DeploymentSearchRequest
from perfcast.searches.serving.sampled import PROMPTS, WRITERS, Samples

#: Replicas of a pool, and clients of a replica where their number is free, that are tried.
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096)
#: Replicas that read to replicas that write.
_RATIOS = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2), (1, 4), (4, 1), (1, 6), (6, 1))
#: Replicas of each cluster and precision that make pools of two, at most.
_MOST_POOLS = 8
#: Requests of each client, and of all, that a deployment is judged by.
_REQUESTS_OF_A_CLIENT, _LEAST_REQUESTS, _MOST_REQUESTS = 10, 200, 3000
NONE = -1
#: Where in the samples a whole prompt stands, one that writes, and 64.
_ONE_PROMPT = int(np.searchsorted(PROMPTS, 1.0))
_ALONE, _MANY = (int(np.searchsorted(WRITERS, each)) for each in (1.0, 64.0))


@dataclass(frozen=True, eq=False)
class Deployments:
    """Deployments and their loads, each column of shape (n,).

    Attributes:
        reader: Which replica reads; ``NONE`` where there is one pool.
        writer: Which replica writes, or does both.
        reader_choice, writer_choice: Which of its limits.
        readers, writers: Replicas of each pool; 0 readers where there is one.
        amount: Clients, or requests per second, of all.
        num_requests: That it is judged by.
    """

    reader: Integers
    writer: Integers
    reader_choice: Integers
    writer_choice: Integers
    readers: Integers
    writers: Integers
    amount: Floats
    num_requests: Floats

    def __len__(self) -> int:
        return len(self.writer)

    @property
    def is_split(self) -> Flags:
        """Whether there are two pools."""
        return np.asarray(self.reader != NONE)

    def take(self, rows: Integers | Flags) -> Deployments:
        """Some of them."""
        return Deployments(*(getattr(self, each.name)[rows] for each in fields(self)))

    def num_devices(self, replicas: Sequence[Replica]) -> Integers:
        """Of both pools."""
        each = np.array([replica.num_devices for replica in replicas])
        readers = np.where(self.is_split, each[self.reader] * self.readers, 0)
        return np.asarray(readers + each[self.writer] * self.writers)

    def deployment(self, row: int, replicas: Sequence[Replica]) -> Deployment:
        """One of them."""
        writes = Pool(replicas[self.writer[row]].plan, int(self.writers[row]))
        if self.reader[row] == NONE:
            return Aggregated(writes)
        return Disaggregated(Pool(replicas[self.reader[row]].plan, int(self.readers[row])), writes)


def list_deployments(
    request: DeploymentSearchRequest, replicas: Sequence[Replica], samples: Samples
) -> Deployments:
    """All that are weighed: of one pool, and of two."""
    rows: list[tuple[float, ...]] = []
    if "aggregated" in request.kinds:
        for place, replica in enumerate(replicas):
            rows += _of_one_pool(request, place, replica)
    if "disaggregated" in request.kinds:
        for reader, writer in _pairs(replicas, samples):
            rows += _of_two_pools(request, reader, writer, replicas)
    columns = np.array(rows, dtype=np.float64).reshape(-1, 7)
    reader, writer, reader_choice, writer_choice, readers, writers = columns[:, :6].astype(np.int64).T
    amount = columns[:, 6]
    return Deployments(
        reader, writer, reader_choice, writer_choice, readers, writers, amount, _num_requests(request, amount)
    )


def _num_requests(request: DeploymentSearchRequest, amount: Floats) -> Floats:
    """Ten of each client, as benchmarks send, as far as they can be played."""
    if isinstance(request.load, OpenLoad):
        return np.full_like(amount, 1000.0)
    usual = np.maximum(_REQUESTS_OF_A_CLIENT * amount, _LEAST_REQUESTS)
    return np.asarray(np.minimum(usual, np.maximum(_MOST_REQUESTS, 2 * amount)))


def _counts(most: int) -> list[int]:
    return sorted({*(count for count in _COUNTS if count < most), most} - {0})


def _amounts(request: DeploymentSearchRequest, places: int, replicas: int) -> list[float]:
    """The load, or clients up to all places of so many replicas."""
    if isinstance(request.load, ClosedLoad):
        return [float(request.load.concurrency)]
    if isinstance(request.load, OpenLoad):
        return [request.load.requests_per_second]
    return [float(count * replicas) for count in _counts(places)]


def _of_one_pool(request: DeploymentSearchRequest, place: int, replica: Replica) -> list[tuple[float, ...]]:
    most = replica.target.cluster.num_devices // replica.num_devices
    found: list[tuple[float, ...]] = []
    for choice, sequences in enumerate(replica.max_sequences.tolist()):
        engines = replica.plan.data_parallel
        for count in [most] if request.load is None else _counts(most):
            amounts = _amounts(request, sequences * engines, count)
            found += [(NONE, place, 0, choice, 0, count, amount) for amount in amounts]
    return found


def _pairs(replicas: Sequence[Replica], samples: Samples) -> list[tuple[int, int]]:
    """Replicas of one cluster and precision, the best readers with the best writers."""
    kinds: dict[tuple[str, object], list[int]] = {}
    for place, replica in enumerate(replicas):
        kinds.setdefault((replica.target.asked, replica.precise.precision), []).append(place)
    found: list[tuple[int, int]] = []
    for places in kinds.values():
        devices = np.array([replicas[place].num_devices for place in places], dtype=float)
        reading = samples.reading[places, 0].sum(axis=-1)
        best_readers = _best(devices * reading[:, _ONE_PROMPT], reading[:, _ONE_PROMPT])
        writing = samples.writing[places].sum(axis=-1)
        rooms = np.array([replicas[place].kv_tokens.max() for place in places], dtype=float)
        best_writers = _best(writing[:, _ALONE], devices * writing[:, _MANY] / np.sqrt(rooms))
        found += [(places[one], places[other]) for one in best_readers for other in best_writers]
    return found


def _best(first: Floats, second: Floats) -> list[int]:
    """Places that none beats in both, and the next ones, as many as pools are made of."""
    left = np.arange(len(first))
    found: list[int] = []
    while len(left) and len(found) < _MOST_POOLS:
        front = left[pareto_front(np.stack([first[left], second[left]], axis=1))]
        found += front.tolist()
        left = np.setdiff1d(left, front)
    return found[:_MOST_POOLS]


def _of_two_pools(
    request: DeploymentSearchRequest, reader: int, writer: int, replicas: Sequence[Replica]
) -> list[tuple[float, ...]]:
    reads, writes = replicas[reader], replicas[writer]
    devices = reads.target.cluster.num_devices
    choices = _common_choices(reads, writes)
    places = int(writes.max_sequences.max()) * writes.plan.data_parallel
    found: list[tuple[float, ...]] = []
    for ratio in _RATIOS:
        each = ratio[0] * reads.num_devices + ratio[1] * writes.num_devices
        most = devices // each
        if not most:
            continue
        for times in [most] if request.load is None else _counts(most):
            amounts = _amounts(request, places, ratio[1] * times)
            found += [
                (reader, writer, reading, writing, ratio[0] * times, ratio[1] * times, amount)
                for reading, writing in choices
                for amount in amounts
            ]
    return found


def _common_choices(reads: Replica, writes: Replica) -> list[tuple[int, int]]:
    """Limits that both pools have, with the most sequences of all: who reads tries steps of every size."""
    pairs = list(zip(writes.max_sequences.tolist(), writes.max_step_tokens.tolist(), strict=True))
    others = list(zip(reads.max_sequences.tolist(), reads.max_step_tokens.tolist(), strict=True))
    most = max(sequences for sequences, _ in pairs)
    return [(at, pairs.index(pair)) for at, pair in enumerate(others) if pair in pairs and pair[0] == most]
