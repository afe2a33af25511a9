"""Embedding lookups, run for real: forward, and backward with the optimizer's update of the touched rows.

A case's tables are looked up one after the other, as a recommendation model does, by
``torch.nn.EmbeddingBag`` with sparse gradients on one thread. Batches take turns, all with the same popular
rows.

Times are of the processor, not of the wall, and still other programs stretch them, since they share its
caches and its memory: by half for milliseconds, by a fifth for seconds. So each repeat is followed by a
probe, a pass over 4 MiB, which also drops from the nearer caches what the rest of a step would drop.
Means over some twenty repeats of a lookup and of the probe beside it rise and fall together (correlation
0.95), so that a case's time is stated for a machine on which the probe takes a given time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perfcast.core.embedding import EmbeddingLookup, EmbeddingTable, ReuseHistogram
from perfcast.core.embedding_reuse import count_reuse, joined_reuse, part_of_reuse
from perfcast.errors import UnknownNameError
from perfcast.measure.embedding_cases import EmbeddingCase, draw_indices
from perfcast.units import MIB
from perfcast.workload.recommender_indices import draw_bag_lengths

OPTIMIZERS = ("sgd", "adagrad")

_NUM_BATCHES = 3
_WARM_UPS = 2
_REPEATS = 20
#: A learning rate at which weights stay as they are; zero might be special.
_LEARNING_RATE = 1e-6
_PROBE_ELEMENTS = MIB


@dataclass(frozen=True, slots=True)
class EmbeddingSample:
    """One measured case.

    Attributes:
        lookups: Of each table, with the reuse that was counted (mean of the batches).
        names, distributions: Of each table.
        forward_seconds, backward_seconds: Of all tables together, geometric means over repeats; backward with
            the update.
        probe_seconds: Of the probe beside them, likewise.
    """

    lookups: tuple[EmbeddingLookup, ...]
    names: tuple[str, ...]
    distributions: tuple[str, ...]
    optimizer: str
    forward_seconds: float
    backward_seconds: float
    probe_seconds: float

    def seconds(self, phase: str) -> float:
        """Of 'forward' or 'backward'."""
        return self.forward_seconds if phase == "forward" else self.backward_seconds

    def at_probe(self, probe_seconds: float) -> EmbeddingSample:
        """What would have been measured where the probe takes so long."""
        factor = probe_seconds / self.probe_seconds
        return replace(
            self,
            forward_seconds=self.forward_seconds * factor,
            backward_seconds=self.backward_seconds * factor,
            probe_seconds=probe_seconds,
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Indices and offsets of every table, and what was counted in them."""

    indices: tuple[Tensor, ...]
    offsets: tuple[Tensor, ...]
    reuse: tuple[ReuseHistogram, ...]


def measure_cases(
    cases: Sequence[EmbeddingCase],
    optimizer: str = "sgd",
    repeats: int = _REPEATS,
    clock: Callable[[], float] = time.thread_time,
) -> Iterator[EmbeddingSample]:
    """Measure cases one after the other, on one thread.

    Raises:
        UnknownNameError: Not one of ``OPTIMIZERS``.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownNameError("optimizer", optimizer, OPTIMIZERS, f"Known: {', '.join(OPTIMIZERS)}.")
    probe = make_probe()
    for case in cases:
        with _one_thread():
            sample = _measure(case, optimizer, repeats, clock, probe)
        yield sample


def make_probe() -> Callable[[], Tensor]:
    """A pass over 4 MiB: more than a core's own caches hold."""
    values = torch.ones(_PROBE_ELEMENTS)
    return lambda: values.add_(1.0)


def _measure(
    case: EmbeddingCase, optimizer: str, repeats: int, clock: Callable[[], float], probe: Callable[[], Tensor]
) -> EmbeddingSample:
    rng = np.random.default_rng(case.seed)
    batches = [_draw_batch(case, rng) for _ in range(_NUM_BATCHES)]
    bags = [_bag(table) for table in case.tables]
    update = _updater(optimizer, bags)
    gradients = [torch.ones(case.batch_size, table.dim) for table in case.tables]
    times: list[tuple[float, float, float]] = []
    for turn in range(_WARM_UPS + repeats):
        batch = batches[turn % len(batches)]
        start = clock()
        pooled = [bag(i, o) for bag, i, o in zip(bags, batch.indices, batch.offsets, strict=True)]
        middle = clock()
        torch.autograd.backward(pooled, gradients)
        update.step()
        end = clock()
        update.zero_grad(set_to_none=True)
        before = clock()
        probe()
        times.append((middle - start, end - middle, clock() - before))
    forward, backward, probed = zip(*times[_WARM_UPS:], strict=True)
    return EmbeddingSample(
        lookups=tuple(
            _lookup(table, case, [batch.reuse[i] for batch in batches]) for i, table in enumerate(case.tables)
        ),
        names=tuple(table.name for table in case.tables),
        distributions=case.distributions,
        optimizer=optimizer,
        forward_seconds=statistics.geometric_mean(forward),
        backward_seconds=statistics.geometric_mean(backward),
        probe_seconds=statistics.geometric_mean(probed),
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


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)[:-1]))


def _bag(table: EmbeddingTable) -> nn.EmbeddingBag:
    """Weights are filled, since pages never written are all one page."""
    weights = torch.full((table.num_rows, table.dim), 0.5)
    return nn.EmbeddingBag(table.num_rows, table.dim, mode="sum", sparse=True, _weight=weights)


def _updater(optimizer: str, bags: Sequence[nn.EmbeddingBag]) -> Any:
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
