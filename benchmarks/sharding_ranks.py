"""Two processes joined by gloo that look up embedding tables; ``sharding_measured.py`` tells them what."""

from __future__ import annotations

import os
import random
import resource
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

from perfcast.core.embedding.lookup import EmbeddingTable, TablePlacement
from perfcast.measure.embedding.cases import draw_indices
from perfcast.measure.embedding.probes import Probes
from perfcast.units import GIB, MIB

NUM_RANKS = 2

#: Batches that are run in turn; the one before them is what the prediction has seen.
NUM_BATCHES = 2

#: Bytes that a rank holds before a collective.
SIZES = tuple(int(16_384 * 2 ** (k / 2)) for k in range(21))
COLLECTIVE_VISITS = 20
#: Columns of a piece that is packed for a collective.
PIECE_COLUMNS = 64
#: Every so many turns a step is run a second time with both ranks at once.
TOGETHER = 6
#: Times that a collective is repeated within a step: it is over soon, and unsteady.
COLLECTIVES = 3
LEAST_TURNS, MOST_TURNS = 6, 60
#: The allocator keeps what is freed for the next step, as training jobs tell it to.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 * MIB), "MALLOC_TRIM_THRESHOLD_": str(4 * GIB)}


@dataclass(frozen=True)
class Job:
    """What the ranks are told: one task and its placements."""

    name: str
    tables: tuple[EmbeddingTable, ...]
    distributions: tuple[str, ...]
    plans: tuple[tuple[str, tuple[TablePlacement, ...]], ...]
    batch_size: int
    seed: int
    seconds: float
    sides: int = NUM_RANKS


@dataclass(frozen=True)
class Timed:
    """What a piece of work gave, and its seconds (shape [n]), the probes beside it, the pages new to it."""

    result: Any
    seconds: np.ndarray
    probes: np.ndarray | None = None
    faults: int = 0


class Ranks:
    """Two processes that run jobs together."""

    def __enter__(self) -> Ranks:
        os.environ.update(ALLOCATOR)
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

    def ask(self, action: str, order: object) -> list[Any]:
        """What each rank answers."""
        for queue in self.orders:
            queue.put((action, order))
        found = [queue.get(timeout=600) for queue in self.answers]
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def work(rank: int, port: int, orders: Any, answers: Any) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=NUM_RANKS)
    probes = Probes()
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        while (order := orders.get()) is not None:
            try:
                answers.put(ACTIONS[order[0]](order[1], rank, probes))
            except Exception as error:
                answers.put(error)
                raise
    dist.destroy_process_group()


def sweep(_: None, rank: int, probes: Probes) -> np.ndarray:
    """Seconds of packing and exchanging each of ``SIZES``, shape [visits, sizes]."""
    rng = random.Random(0)
    seconds = np.zeros((COLLECTIVE_VISITS, len(SIZES)))
    for visit in range(COLLECTIVE_VISITS):
        for at in rng.sample(range(len(SIZES)), len(SIZES)):
            rows = 64
            pieces = [torch.ones(rows, PIECE_COLUMNS)] * max(SIZES[at] // (4 * rows * PIECE_COLUMNS), 1)
            dist.barrier()
            begun = time.perf_counter()
            sent = torch.cat(pieces, dim=1).view(-1)
            received = torch.empty_like(sent)
            dist.all_to_all_single(received, sent)
            seconds[visit, at] = time.perf_counter() - begun
    return seconds


def run_job(job: Job, rank: int, probes: Probes) -> dict[str, list[dict[str, np.ndarray]]]:
    """Of every placement, its steps as it is and with both ranks exchanged (``Steps``)."""
    rng = np.random.default_rng(job.seed)
    draw_batch(job.tables, job.distributions, job.batch_size, rng)  # what the prediction has seen
    batches = [draw_batch(job.tables, job.distributions, job.batch_size, rng) for _ in range(NUM_BATCHES)]
    bags: dict[tuple[int, int], nn.EmbeddingBag] = {}
    held = {
        (name, side): Held(job, rank, exchanged(plan, side), batches, bags)
        for name, plan in job.plans
        for side in range(job.sides)
    }
    keys = list(held)
    for one in held.values():
        one.step(0, probes)  # touches new memory
    found: dict[tuple[str, int], list[dict[str, Any]]] = {key: [] for key in keys}
    turn, turns, begun = 0, LEAST_TURNS, time.perf_counter()
    while turn < turns:
        for at in rng.permutation(len(keys)):
            taken = held[keys[at]].step(turn, probes)
            taken["together"] = held[keys[at]].step_together(turn) if turn % TOGETHER == 0 else np.nan
            found[keys[at]].append(taken)
        turn += 1
        if turn == LEAST_TURNS // 2:
            turns = agreed(job.seconds * turn / (time.perf_counter() - begun))
    return {
        name: [
            {part: np.array([step[part] for step in found[name, side]]) for part in found[name, side][0]}
            for side in range(job.sides)
        ]
        for name, _ in job.plans
    }


def agreed(turns: float) -> int:
    """What the first rank says, within limits."""
    told = torch.tensor([turns])
    dist.broadcast(told, 0)
    return int(np.clip(float(told), LEAST_TURNS, MOST_TURNS))


def exchanged(plan: Sequence[TablePlacement], side: int) -> tuple[TablePlacement, ...]:
    """Rank r holds what rank r + side held."""
    return tuple(replace(one, ranks=tuple((rank + side) % NUM_RANKS for rank in one.ranks)) for one in plan)


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

    def step(self, turn: int, probes: Probes) -> dict[str, Any]:
        """Lookups alone, one rank after the other; collectives together.

        Seconds by the clock of the collective before the lookups and of those after them, each k times,
        ``communication`` [2, k]; of the processor for each table, ``forward`` and ``backward`` [tables]; of
        the probes beside either, ``probes`` [2, 3]; and pages that were new in the lookups, ``faults``.
        """
        first = self.communication(lambda: self.receive_indices(self.sent[turn % NUM_BATCHES]))
        forward = self.alone(probes, self.look_up, self.bags, first.result, self.offsets)
        second = self.communication(lambda: self.return_gradients(self.send_outputs(forward.result)))
        backward = self.alone(probes, learn, forward.result, second.result, self.updates)
        return {
            "communication": np.stack([first.seconds, second.seconds]),
            "forward": forward.seconds,
            "backward": backward.seconds,
            "probes": np.stack([forward.probes, backward.probes]),
            "faults": forward.faults + backward.faults,
        }

    def step_together(self, turn: int) -> float:
        """Seconds by the clock of a whole step with both ranks at once."""
        dist.barrier()
        begun = time.perf_counter()
        inputs = self.receive_indices(self.sent[turn % NUM_BATCHES])
        pooled = [
            self.look_up(bag, *both) for bag, *both in zip(self.bags, inputs, self.offsets, strict=True)
        ]
        gradients = self.return_gradients(self.send_outputs(pooled))
        for one in zip(pooled, gradients, self.updates, strict=True):
            learn(*one)
        dist.barrier()
        return time.perf_counter() - begun

    def communication(self, work: Callable[[], Any]) -> Timed:
        seconds = []
        for _ in range(COLLECTIVES):
            dist.barrier()
            begun = time.perf_counter()
            result = work()
            seconds.append(time.perf_counter() - begun)
        return Timed(result, np.array(seconds))

    def alone(self, probes: Probes, work: Callable[..., Any], *columns: Sequence[Any]) -> Timed:
        """What this rank does for each table while the other one waits."""
        for rank in range(NUM_RANKS):
            dist.barrier()
            if rank == self.rank:
                before, pages = probes.seconds(), page_faults()
                marks, result = [time.thread_time()], []
                for one in zip(*columns, strict=True):
                    result.append(work(*one))
                    marks.append(time.thread_time())
                pages = page_faults() - pages
                found = Timed(result, np.diff(marks), np.sqrt(before * probes.seconds()), pages)
        return found

    def receive_indices(self, sent: torch.Tensor) -> list[torch.Tensor]:
        """Indices of each piece for the whole batch: those of every rank's samples after another."""
        received = torch.empty(NUM_RANKS * self.counts[self.rank], dtype=torch.int64)
        dist.all_to_all_single(received, sent, [self.counts[self.rank]] * NUM_RANKS, self.counts)
        sizes = [pooling * self.local for pooling in self.poolings]
        by_rank = [part.split(sizes) for part in received.split(sum(sizes))] if sizes else []
        return [torch.cat(parts) for parts in zip(*by_rank, strict=True)]

    def send_outputs(self, pooled: Sequence[torch.Tensor]) -> torch.Tensor:
        """Sums of this rank's samples from every rank's tables."""
        sums = torch.cat([*pooled, torch.empty(NUM_RANKS * self.local, 0)], dim=1).detach().contiguous()
        outputs = torch.empty(self.local * sum(self.widths))
        dist.all_to_all_single(outputs, sums.view(-1), *reversed(self.splits()))
        return outputs

    def return_gradients(self, outputs: torch.Tensor) -> list[torch.Tensor]:
        """Gradients of each of this rank's pieces, whole batch."""
        mine = self.widths[self.rank]
        gradients = torch.empty(NUM_RANKS * self.local * mine)
        dist.all_to_all_single(gradients, outputs, *self.splits())
        if not mine:
            return []
        parts = gradients.view(-1, mine).split([bag.embedding_dim for bag in self.bags], dim=1)
        return [part.contiguous() for part in parts]

    def splits(self) -> tuple[list[int], list[int]]:
        """Elements of this rank's tables for every rank, and of every rank's tables for this one."""
        mine = self.widths[self.rank]
        return [self.local * mine] * NUM_RANKS, [self.local * width for width in self.widths]

    @staticmethod
    def look_up(bag: nn.EmbeddingBag, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return bag(indices, offsets)


def page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def learn(pooled: torch.Tensor, gradient: torch.Tensor, update: torch.optim.Optimizer) -> None:
    torch.autograd.backward(pooled, gradient)
    update.step()
    update.zero_grad(set_to_none=True)


def new_bag(table: EmbeddingTable, parts: int) -> nn.EmbeddingBag:
    weights = torch.full((table.num_rows, table.dim // parts), 0.5)
    return nn.EmbeddingBag(*weights.shape, mode="sum", sparse=True, _weight=weights)


def draw_batch(
    tables: Sequence[EmbeddingTable], distributions: Sequence[str], batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Indices of every table; every bag has the same number."""
    return [
        np.resize(draw_indices(distribution, table.num_rows, count, rng), count)
        for table, distribution in zip(tables, distributions, strict=True)
        for count in (batch_size * round(table.pooling),)
    ]


ACTIONS: dict[str, Callable[[Any, int, Probes], Any]] = {
    "communication": sweep,
    "job": run_job,
}
