"""Embedding lookups, run for real: forward, and backward with the optimizer's update of the touched rows.

A case's tables are looked up one after the other, as a recommendation model does, by
``torch.nn.EmbeddingBag`` with sparse gradients on one thread. Batches take turns, all with the same popular
rows.

Cases take turns too: each is visited several times, for a few steps of which the first is not counted. What
other programs, or other guests of the host, do to a machine lasts from a millisecond to some tenths of a
second; steps one after the other would all see the same of it. The probes of ``probes`` run before
and after each step, and say what it was.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from perfcast.core.arrays import Floats, Integers
from perfcast.core.embedding.lookup import EmbeddingLookup, EmbeddingTable, ReuseHistogram
from perfcast.core.embedding.reuse import count_reuse, joined_reuse, part_of_reuse
from perfcast.errors import UnknownNameError
from perfcast.measure.embedding.cases import EmbeddingCase, draw_indices
from perfcast.measure.embedding.probes import Clock, Probes
from perfcast.units import GIB, MIB
from perfcast.workload.recommender.indices import draw_bag_lengths

OPTIMIZERS = ("sgd", "adagrad")
VISITS = 12

_NUM_BATCHES = 3
#: A learning rate at which weights stay as they are; zero might be special.
_LEARNING_RATE = 1e-6
#: Tables of all cases lie in one block: filling new memory would take longer than the lookups.
_ARENA_BYTES = GIB
#: The allocator keeps freed blocks up to this size from here on, as it does after a model's first steps.
_KEPT_BYTES = 31 * MIB


@dataclass(frozen=True, eq=False)
class EmbeddingRun:
    """Counted steps of one case.

    Attributes:
        lookups: Of each table, with the reuse that was counted (mean of the batches).
        names, distributions: Of each table.
        forward, backward: Seconds of all tables together, backward with the update; shape [steps].
        probes: Seconds of each probe beside the step, shape [steps, 3].
    """

    lookups: tuple[EmbeddingLookup, ...]
    names: tuple[str, ...]
    distributions: tuple[str, ...]
    optimizer: str
    forward: Floats
    backward: Floats
    probes: Floats


@dataclass(frozen=True, slots=True)
class _Batch:
    """Indices and offsets of every table, and what was counted in them."""

    indices: tuple[Tensor, ...]
    offsets: tuple[Tensor, ...]
    reuse: tuple[ReuseHistogram, ...]


class EmbeddingRunner:
    """Runs cases of one optimizer in turns.

    Raises:
        UnknownNameError: Not one of ``OPTIMIZERS``.
    """

    def __init__(
        self,
        optimizer: str = "sgd",
        visits: int = VISITS,
        clock: Clock = time.thread_time,
        arena_bytes: int | None = None,
    ) -> None:
        if optimizer not in OPTIMIZERS:
            raise UnknownNameError("optimizer", optimizer, OPTIMIZERS, f"Known: {', '.join(OPTIMIZERS)}.")
        self._optimizer, self._visits, self._clock = optimizer, visits, clock
        # Filled, since pages never written are all one page.
        self._arena = torch.full(((arena_bytes or _ARENA_BYTES) // 4,), 0.5)
        self._probes = Probes(clock)
        torch.empty(_KEPT_BYTES // 4)

    def run(self, cases: Sequence[EmbeddingCase]) -> tuple[EmbeddingRun, ...]:
        """Visit every case in turn, in another order each time."""
        rng = random.Random(cases[0].seed if cases else 0)
        with _one_thread():
            ready = [_ReadyCase(case, self._optimizer, self._arena, rng) for case in cases]
            for _ in range(self._visits):
                for one in rng.sample(ready, len(ready)):
                    one.visit(self._clock, self._probes)
        return tuple(one.result() for one in ready)


class _ReadyCase:
    """A case with its tables, batches and what was measured so far."""

    def __init__(self, case: EmbeddingCase, optimizer: str, arena: Tensor, rng: random.Random) -> None:
        drawn = np.random.default_rng(case.seed)
        self.case, self.optimizer = case, optimizer
        self.batches = [_draw_batch(case, drawn) for _ in range(_NUM_BATCHES)]
        self.bags = bags_in_arena(case.tables, arena, rng)
        self.update = _updater(optimizer, self.bags)
        self.gradients = [torch.ones(case.batch_size, table.dim) for table in case.tables]
        self.steps: list[tuple[float, ...]] = []

    def visit(self, clock: Clock, probes: Probes) -> None:
        """A step with each batch, the first of which only brings back what a step before leaves in caches."""
        self._step(self.batches[0], clock)
        before = probes.seconds()
        for batch in self.batches[1:]:
            taken = self._step(batch, clock)
            after = probes.seconds()
            self.steps.append((*taken, *np.sqrt(before * after).tolist()))
            before = after

    def _step(self, batch: _Batch, clock: Clock) -> tuple[float, float]:
        start = clock()
        pooled = [bag(i, o) for bag, i, o in zip(self.bags, batch.indices, batch.offsets, strict=True)]
        middle = clock()
        torch.autograd.backward(pooled, self.gradients)
        self.update.step()
        end = clock()
        self.update.zero_grad(set_to_none=True)
        return middle - start, end - middle

    def result(self) -> EmbeddingRun:
        case, steps = self.case, np.array(self.steps)
        return EmbeddingRun(
            lookups=tuple(
                _lookup(table, case, [batch.reuse[i] for batch in self.batches])
                for i, table in enumerate(case.tables)
            ),
            names=tuple(table.name for table in case.tables),
            distributions=case.distributions,
            optimizer=self.optimizer,
            forward=steps[:, 0],
            backward=steps[:, 1],
            probes=steps[:, 2:],
        )


def _draw_batch(case: EmbeddingCase, rng: np.random.Generator) -> _Batch:
    drawn = [
        draw_indices(name, table.num_rows, round(table.pooling * case.batch_size), rng)
        for table, name in zip(case.tables, case.distributions, strict=True)
    ]
    lengths = [
        draw_bag_lengths(len(indices), case.batch_size, table.pooling_deviation, rng)
        for table, indices in zip(case.tables, drawn, strict=True)
    ]
    return _Batch(
        tuple(torch.from_numpy(indices) for indices in drawn),
        tuple(torch.from_numpy(_offsets(length)) for length in lengths),
        tuple(count_reuse(indices) for indices in drawn),
    )


def _offsets(lengths: Integers) -> Integers:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)[:-1]))


def bags_in_arena(
    tables: Sequence[EmbeddingTable], arena: Tensor, rng: random.Random
) -> list[nn.EmbeddingBag]:
    """Tables one after the other from a random place of the arena, which holds them all; no shared pages."""
    page = 1024  # elements of 4 KiB
    sizes = [-(-table.num_rows * table.dim // page) * page for table in tables]
    start = rng.randrange((len(arena) - sum(sizes)) // page + 1) * page
    bags = []
    for table, size in zip(tables, sizes, strict=True):
        weights = arena[start : start + table.num_rows * table.dim].view(table.num_rows, table.dim)
        bags.append(nn.EmbeddingBag(table.num_rows, table.dim, mode="sum", sparse=True, _weight=weights))
        start += size
    return bags


def _updater(optimizer: str, bags: Sequence[nn.EmbeddingBag]) -> torch.optim.Optimizer:
    weights = [bag.weight for bag in bags]
    if optimizer == "sgd":
        return torch.optim.SGD(weights, lr=_LEARNING_RATE)
    return torch.optim.Adagrad(weights, lr=_LEARNING_RATE)


def _lookup(table: EmbeddingTable, case: EmbeddingCase, counted: Sequence[ReuseHistogram]) -> EmbeddingLookup:
    return EmbeddingLookup(
        table.num_rows,
        table.dim,
        case.batch_size,
        table.pooling,
        table.dtype,
        reuse=part_of_reuse(joined_reuse(counted), 1 / len(counted)),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            yield
    finally:
        torch.set_num_threads(threads)
