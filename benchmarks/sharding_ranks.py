"""Two processes joined by gloo that look up embedding tables; ``sharding_measured.py`` tells them what."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

from perfcast.core.embedding import (
    EmbeddingTable,
    ShardingKind,
    TablePlacement,
)
from perfcast.core.embedding_reuse import count_reuse
from perfcast.measure.embedding_cases import draw_indices
from perfcast.search.sharding.exchange import Curve, CurveExchange

NUM_RANKS = 2

PARTS = ("indices", "forward", "outputs", "gradients", "backward")

#: Batches that are run in turn; the one before them is what the prediction has seen.
NUM_BATCHES = 2

SIZES = tuple(int(4096 * 2 ** (k / 2)) for k in range(25))

CASE_REPEATS = 10


@dataclass(frozen=True)
class Job:
    """What the ranks are told: one task and its placements."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    distributions: tuple[str, ...]
    plans: tuple[tuple[str, tuple[TablePlacement, ...]], ...]
    batch_size: int
    seed: int
    repeats: int


@dataclass(frozen=True)
class Case:
    """Tables that one rank looks up one after the other."""

    tables: tuple[EmbeddingTable, ...]
    distributions: tuple[str, ...]
    batch_size: int
    seed: int


@dataclass(frozen=True)
class Samples:
    """What one rank measured under one placement.

    Attributes:
        parts: Index into ``PARTS`` of each item: an exchange, or one table's lookup one way.
        seconds: Shape [repeats, items].
    """

    parts: np.ndarray
    seconds: np.ndarray

    def by_part(self, quarter: int | None = None) -> np.ndarray:
        """Least of the repeats (of one quarter of them), added up by part."""
        taken = self.seconds if quarter is None else np.array_split(self.seconds, 4)[quarter]
        return np.bincount(self.parts, weights=taken.min(axis=0), minlength=len(PARTS))


class Ranks:
    """Two processes that run jobs together."""

    def __enter__(self) -> Ranks:
        context = multiprocessing.get_context("spawn")
        self.orders = [context.Queue() for _ in range(NUM_RANKS)]
        self.answers = [context.Queue() for _ in range(NUM_RANKS)]
        port = free_port()
        self.processes = [
            context.Process(
                target=work, args=(rank, port, self.orders[rank], self.answers[rank]), daemon=True
            )
            for rank in range(NUM_RANKS)
        ]
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for queue in self.orders:
            queue.put(None)
        for process in self.processes:
            process.join(timeout=20)
            process.kill()

    def ask(self, order: object) -> list[Any]:
        for queue in self.orders:
            queue.put(order)
        found = [queue.get(timeout=600) for queue in self.answers]
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found

    def measure_exchange(self) -> CurveExchange:
        """Slower rank's processor time of an all-to-all, by the bytes that a rank holds."""
        seconds = np.max(self.ask(("exchange", None)), axis=0)
        curve = Curve(np.array([0.0, *SIZES]), np.maximum.accumulate([seconds[0], *seconds]))
        return CurveExchange(curve, curve)

    def run(self, job: Job) -> dict[str, list[Samples]]:
        """Of each placement, by rank; a rank's are those of both processes that took its place."""
        answers = self.ask(("job", job))
        return {
            plan: [
                joined([answers[(rank + side) % NUM_RANKS][plan][side] for side in range(NUM_RANKS)])
                for rank in range(NUM_RANKS)
            ]
            for plan, _ in job.plans
        }


def joined(samples: Sequence[Samples]) -> Samples:
    """Repeats of the same items in turns."""
    seconds = np.stack([one.seconds for one in samples], axis=1)
    return Samples(samples[0].parts, seconds.reshape(-1, seconds.shape[2]))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def work(rank: int, port: int, orders: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=NUM_RANKS)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        while (order := orders.get()) is not None:
            try:
                answers.put(ACTIONS[order[0]](order[1], rank))
            except Exception as error:
                answers.put(error)
                raise
    dist.destroy_process_group()


def sweep(_: None, rank: int) -> list[float]:
    seconds = []
    for size in SIZES:
        sent = torch.ones(size // 4)
        received = torch.empty_like(sent)
        times = []
        for _ in range(25):
            dist.barrier()
            start = time.process_time()
            dist.all_to_all_single(received, sent)
            times.append(time.process_time() - start)
        seconds.append(min(times))
    return seconds


def run_job(job: Job, rank: int) -> dict[str, list[Samples]]:
    """Of every placement, as it is and with both ranks exchanged."""
    rng = np.random.default_rng(job.seed)
    draw_batch(job.tables, job.distributions, job.batch_size, rng)  # what the prediction has seen
    batches = [draw_batch(job.tables, job.distributions, job.batch_size, rng) for _ in range(NUM_BATCHES)]
    bags: dict[tuple[int, int], nn.EmbeddingBag] = {}
    held = {
        (name, side): Held(job, rank, exchanged(plan, side), batches, bags)
        for name, plan in job.plans
        for side in range(NUM_RANKS)
    }
    timers: dict[tuple[str, int], list[Timer]] = {key: [] for key in held}
    for one in held.values():
        one.step(0)
    keys = list(held)
    for turn in range(job.repeats // NUM_RANKS):
        for at in rng.permutation(len(keys)):
            timers[keys[at]].append(held[keys[at]].step(turn))
    samples = {
        key: Samples(np.array(found[0].parts), np.array([timer.seconds for timer in found]))
        for key, found in timers.items()
    }
    return {name: [samples[name, side] for side in range(NUM_RANKS)] for name, _ in job.plans}


def exchanged(plan: Sequence[TablePlacement], side: int) -> tuple[TablePlacement, ...]:
    """Rank r holds what rank r + side held."""
    return tuple(replace(one, ranks=tuple((rank + side) % NUM_RANKS for rank in one.ranks)) for one in plan)


def run_cases(cases: Sequence[Case], rank: int) -> dict[int, dict[str, Any]]:
    """Every second case: least processor seconds of each table forward and backward, and the reuse in it."""
    found = {}
    for index in range(rank, len(cases), NUM_RANKS):
        case = cases[index]
        everything = tuple(TablePlacement(ShardingKind.TABLE_WISE, (rank,)) for _ in case.tables)
        job = Job("", case.tables, case.distributions, (), case.batch_size, case.seed, CASE_REPEATS)
        rng = np.random.default_rng(case.seed)
        batch = draw_batch(case.tables, case.distributions, case.batch_size, rng)
        held = Held(job, rank, everything, [batch], {})
        inputs = [torch.from_numpy(indices) for indices in batch]
        gradients = [torch.ones(case.batch_size, table.dim) for table in case.tables]
        timers = []
        for _ in range(job.repeats):
            timers.append(Timer())
            held.backward(timers[-1], held.forward(timers[-1], inputs), gradients)
        least = np.min([timer.seconds for timer in timers[1:]], axis=0)
        half = len(case.tables)
        reuse = [count_reuse(indices) for indices in batch]
        found[index] = {"forward": least[:half], "backward": least[half:], "reuse": reuse}
    return found


class Held:
    """What one rank holds under one placement; slices of columns are tables of their own."""

    def __init__(
        self,
        job: Job,
        rank: int,
        plan: Sequence[TablePlacement],
        batches: Sequence[Sequence[np.ndarray]],
        bags: dict[tuple[int, int], nn.EmbeddingBag],
    ) -> None:
        pieces = [
            (table, owner, len(placement.ranks))
            for table, placement in enumerate(plan)
            for owner in placement.ranks
        ]
        self.rank, self.local = rank, job.batch_size // NUM_RANKS
        self.mine = [(table, parts) for table, owner, parts in pieces if owner == rank]
        self.bags = [
            bags.setdefault((table, parts), new_bag(job.tables[table], parts)) for table, parts in self.mine
        ]
        self.poolings = [round(job.tables[table].pooling) for table, _ in self.mine]
        self.widths = [
            sum(job.tables[t].dim // p for t, owner, p in pieces if owner == r) for r in range(NUM_RANKS)
        ]
        self.counts = [
            sum(round(job.tables[t].pooling) * self.local for t, owner, _ in pieces if owner == r)
            for r in range(NUM_RANKS)
        ]
        self.sent = [self.local_indices(job, pieces, batch) for batch in batches]
        self.offsets = [torch.arange(0, job.batch_size * p, p) for p in self.poolings]
        self.updates = [torch.optim.SGD([bag.weight], lr=1e-6) for bag in self.bags]

    def local_indices(
        self, job: Job, pieces: Sequence[tuple[int, int, int]], batch: Sequence[np.ndarray]
    ) -> torch.Tensor:
        """This rank's samples' indices for every piece, in the order of the ranks that hold them."""
        parts = [np.zeros(0, dtype=np.int64)]
        for owner in range(NUM_RANKS):
            for table, holder, _ in pieces:
                if holder == owner:
                    count = round(job.tables[table].pooling) * self.local
                    parts.append(batch[table][self.rank * count : (self.rank + 1) * count])
        return torch.from_numpy(np.concatenate(parts))

    def step(self, turn: int) -> Timer:
        timer = Timer()
        received = torch.empty(NUM_RANKS * self.counts[self.rank], dtype=torch.int64)
        splits = [self.counts[self.rank]] * NUM_RANKS
        sent = self.sent[turn % NUM_BATCHES]
        timer.run("indices", dist.all_to_all_single, received, sent, splits, self.counts)
        pooled = self.forward(timer, self.merge(received))
        widths, mine = self.widths, self.widths[self.rank]
        sums = torch.cat([*pooled, torch.empty(NUM_RANKS * self.local, 0)], dim=1).detach().contiguous()
        outputs = torch.empty(self.local * sum(widths))
        to_others, from_others = [self.local * mine] * NUM_RANKS, [self.local * width for width in widths]
        timer.run("outputs", dist.all_to_all_single, outputs, sums.view(-1), from_others, to_others)
        gradients = torch.empty(NUM_RANKS * self.local * mine)
        timer.run("gradients", dist.all_to_all_single, gradients, outputs, to_others, from_others)
        split = (
            gradients.view(-1, mine).split([bag.embedding_dim for bag in self.bags], dim=1) if pooled else []
        )
        self.backward(timer, pooled, [part.contiguous() for part in split])
        return timer

    def merge(self, received: torch.Tensor) -> list[torch.Tensor]:
        """Indices of each piece for the whole batch: those of every rank's samples after another."""
        sizes = [pooling * self.local for pooling in self.poolings]
        by_rank = [part.split(sizes) for part in received.split(sum(sizes))] if sizes else []
        return [torch.cat(parts) for parts in zip(*by_rank, strict=True)]

    def forward(self, timer: Timer, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [
            timer.run("forward", bag, indices, offsets)
            for bag, indices, offsets in zip(self.bags, inputs, self.offsets, strict=True)
        ]

    def backward(self, timer: Timer, pooled: list[torch.Tensor], gradients: list[torch.Tensor]) -> None:
        for one, gradient, update in zip(pooled, gradients, self.updates, strict=True):
            timer.run("backward", learn, one, gradient, update)


def learn(pooled: torch.Tensor, gradient: torch.Tensor, update: torch.optim.Optimizer) -> None:
    torch.autograd.backward(pooled, gradient)
    update.step()
    update.zero_grad(set_to_none=True)


def new_bag(table: EmbeddingTable, parts: int) -> nn.EmbeddingBag:
    weights = torch.full((table.num_rows, table.dim // parts), 0.5)
    return nn.EmbeddingBag(*weights.shape, mode="sum", sparse=True, _weight=weights)


class Timer:
    """Processor time of all threads of a process, item by item; the exchanges keep the ranks together."""

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.seconds: list[float] = []

    def run(self, part: str, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.process_time()
        result = function(*arguments)
        self.seconds.append(time.process_time() - start)
        self.parts.append(PARTS.index(part))
        return result


def draw_batch(
    tables: Sequence[EmbeddingTable], distributions: Sequence[str], batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Indices of every table; every bag has the same number."""
    return [
        np.resize(draw_indices(distribution, table.num_rows, count, rng), count)
        for table, distribution in zip(tables, distributions, strict=True)
        for count in (batch_size * round(table.pooling),)
    ]


ACTIONS: dict[str, Callable[[Any, int], Any]] = {"exchange": sweep, "cases": run_cases, "job": run_job}
