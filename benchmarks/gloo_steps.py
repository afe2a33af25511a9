"""Training steps on real processes joined by gloo, timed and recorded; ``gloo_forecasts.py`` starts them.

    python benchmarks/gloo_steps.py FOLDER SECONDS     (RANK, WORLD_SIZE and MEETING in the environment)

Every rank builds all configurations of ``configurations()`` and takes turns on them: in each round, for each
configuration in a random order that all ranks share, some plain steps from a barrier to the rank's own end,
then some recorded ones. Writes ``times-RANK.json`` and a trace for each configuration and round; before, the
ranks exchange messages of many sizes (``sweep-RANK.json``).
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, embedding_bag
from torch.nn.parallel import DistributedDataParallel

PLAIN_STEPS, RECORDED_STEPS, WARM_UPS = 8, 2, 2
SIZES = tuple(1024 * 2**k for k in range(13))
SWEEPS = 15
LEAST_ROUNDS = 2

#: Rows, columns and lookups a bag of every table.
TABLE_SETS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "mixed": ((200, 16, 1), (1000, 32, 2), (50_000, 32, 20), (20_000, 64, 10), (5000, 64, 5), (300, 16, 30)),
    "even": tuple((20_000, 32, 8) for _ in range(8)),
    "heavy": tuple((10_000, 64, 20) for _ in range(4)),
}
#: Width, layers, heads.
TRANSFORMERS: dict[str, tuple[int, int, int]] = {
    "narrow": (64, 2, 4),
    "wide": (128, 2, 4),
    "deep": (64, 4, 4),
}
LENGTH, VOCABULARY = 16, 500


@dataclass(frozen=True)
class Configuration:
    workload: str
    kind: str
    batch: int

    @property
    def name(self) -> str:
        return f"{self.workload} {self.kind} batch {self.batch}"


def configurations() -> tuple[Configuration, ...]:
    dlrm = [Configuration("dlrm", kind, batch) for kind in TABLE_SETS for batch in (32, 64, 128)]
    transformers = [Configuration("transformer", kind, batch) for kind in TRANSFORMERS for batch in (2, 4, 8)]
    return (*dlrm, *transformers)


class AllToAll(torch.autograd.Function):
    """Pieces for every rank against pieces from every rank; its backward goes the other way."""

    @staticmethod
    def forward(context, sent: Tensor, out: list[int], into: list[int]) -> Tensor:  # type: ignore[no-untyped-def,override]
        context.splits = (out, into)
        received = sent.new_empty(sum(into))
        dist.all_to_all_single(received, sent.contiguous(), into, out)
        return received

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def,override]
        out, into = context.splits
        sent = gradient.new_empty(sum(out))
        dist.all_to_all_single(sent, gradient.contiguous(), out, into)
        return sent, None, None


class FusedBag(torch.autograd.Function):
    """Sums of rows; its backward updates the rows that were read, as fused optimizers do."""

    @staticmethod
    def forward(context, weight: Tensor, trigger: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:  # type: ignore[no-untyped-def,override]
        context.save_for_backward(indices)
        context.weight, context.pooling = weight, len(indices) // len(offsets)
        return embedding_bag(indices, weight, offsets, mode="sum")

    @staticmethod
    def backward(context, gradient: Tensor):  # type: ignore[no-untyped-def,override]
        (indices,) = context.saved_tensors
        rows = gradient.repeat_interleave(context.pooling, dim=0)
        context.weight.index_add_(0, indices, rows, alpha=-1e-6)
        return None, torch.zeros(()), None, None


class Recommender:
    """DLRM: bottom net, tables shared out over ranks, sums exchanged, top net; dense nets by DDP."""

    def __init__(self, tables: Sequence[tuple[int, int, int]], batch: int, rank: int, ranks: int) -> None:
        self.batch, self.ranks, self.rank = batch, ranks, rank
        holder = [0] * len(tables)
        loads = [0.0] * ranks
        for place in sorted(range(len(tables)), key=lambda at: -tables[at][1] * tables[at][2]):
            holder[place] = loads.index(min(loads))
            loads[holder[place]] += tables[place][1] * tables[place][2]
        self.widths = [
            sum(t[1] for t, own in zip(tables, holder, strict=True) if own == r) for r in range(ranks)
        ]
        mine = [table for table, own in zip(tables, holder, strict=True) if own == rank]
        self.tables = [torch.full((rows, dim), 0.01) for rows, dim, _ in mine]
        whole = batch * ranks
        self.indices = [torch.randint(rows, (whole * pooling,)) for rows, _, pooling in mine]
        self.offsets = [torch.arange(0, whole * pooling, pooling) for _, _, pooling in mine]
        total = sum(dim for _, dim, _ in tables)
        self.trigger = torch.zeros((), requires_grad=True)
        self.bottom = DistributedDataParallel(mlp(64, 256, 64))
        self.top = DistributedDataParallel(mlp(64 + total, 256, 128, 1))
        self.dense, self.labels = torch.rand(batch, 64), torch.rand(batch, 1)
        self.update = torch.optim.SGD([*self.bottom.parameters(), *self.top.parameters()], lr=1e-3)

    def step(self) -> None:
        pooled = [
            FusedBag.apply(table, self.trigger, indices, offsets)
            for table, indices, offsets in zip(self.tables, self.indices, self.offsets, strict=True)
        ]
        mine = self.widths[self.rank]
        sums = (
            torch.cat(pooled, dim=1)
            if pooled
            else torch.zeros(self.batch * self.ranks, 0, requires_grad=True)
        )
        out, into = [self.batch * mine] * self.ranks, [self.batch * width for width in self.widths]
        received = AllToAll.apply(sums.reshape(-1), out, into)
        parts = [p.view(self.batch, -1) for p in received.split(into) if p.numel()]
        bottom = self.bottom(self.dense)
        loss = binary_cross_entropy_with_logits(self.top(torch.cat([bottom, *parts], dim=1)), self.labels)
        loss.backward()
        self.update.step()
        self.update.zero_grad()


class Transformer:
    """Encoder layers and a head, data parallel."""

    def __init__(self, sizes: tuple[int, int, int], batch: int) -> None:
        width, layers, heads = sizes
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        net = nn.Sequential(
            nn.Embedding(VOCABULARY, width),
            nn.TransformerEncoder(layer, layers, enable_nested_tensor=False),
            nn.Linear(width, VOCABULARY),
        )
        self.net = DistributedDataParallel(net)
        self.tokens = torch.randint(VOCABULARY, (batch, LENGTH))
        self.update = torch.optim.SGD(self.net.parameters(), lr=1e-3)

    def step(self) -> None:
        outputs = self.net(self.tokens)
        loss = cross_entropy(outputs.view(-1, VOCABULARY), self.tokens.view(-1))
        loss.backward()
        self.update.step()
        self.update.zero_grad()


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def build(one: Configuration, rank: int, ranks: int) -> Callable[[], None]:
    torch.manual_seed(rank)
    if one.workload == "dlrm":
        return Recommender(TABLE_SETS[one.kind], one.batch, rank, ranks).step
    return Transformer(TRANSFORMERS[one.kind], one.batch).step


def sweep(ranks: int) -> dict[str, list[float]]:
    """Least seconds of each collective by ``SIZES``, the bytes that every rank holds."""
    found: dict[str, list[float]] = {"all_reduce": [], "all_to_all": [], "barrier": []}
    for size in SIZES:
        sent, received = torch.ones(size // 4), torch.ones(size // 4)
        for name, run in (
            ("all_reduce", lambda own=sent: dist.all_reduce(own)),
            ("all_to_all", lambda own=sent, into=received: dist.all_to_all_single(into, own)),
            ("barrier", dist.barrier),
        ):
            seconds = []
            for _ in range(SWEEPS):
                dist.barrier()
                begun = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - begun)
            found[name].append(min(seconds))
    return found


def timed_steps(step: Callable[[], None], count: int) -> list[tuple[float, float]]:
    """Seconds of each step by the clock, and of this thread's processor."""
    seconds = []
    for _ in range(count):
        begun, busy = time.perf_counter(), time.thread_time()
        step()
        dist.barrier()
        seconds.append((time.perf_counter() - begun, time.thread_time() - busy))
    return seconds


def record(step: Callable[[], None], place: Path) -> None:
    plan = torch.profiler.schedule(wait=0, warmup=1, active=RECORDED_STEPS, repeat=1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, schedule=plan, record_shapes=True) as profiler:
        for _ in range(1 + RECORDED_STEPS):
            step()
            dist.barrier()
            profiler.step()
    profiler.export_chrome_trace(str(place))


def goes_on(turn: int, passed: float, limit: float) -> bool:
    """Whether another round is begun: as the first rank says."""
    told = torch.tensor([float(turn < LEAST_ROUNDS or passed * (turn + 1) / max(turn, 1) < limit)])
    dist.broadcast(told, 0)
    return bool(told.item())


def main() -> int:
    folder, limit = Path(sys.argv[1]), float(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=os.environ["MEETING"], rank=rank, world_size=ranks)
    (folder / f"sweep-{rank}.json").write_text(json.dumps(sweep(ranks)))
    steps = {one.name: build(one, rank, ranks) for one in configurations()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    order = random.Random(0)
    for name in steps:
        timed_steps(steps[name], WARM_UPS)
    begun, turn = time.monotonic(), 0
    while goes_on(turn, time.monotonic() - begun, limit):
        for name in order.sample(list(steps), len(steps)):
            times[name] += timed_steps(steps[name], PLAIN_STEPS)
            record(steps[name], folder / f"{name.replace(' ', '-')}.{turn}.{rank}.json")
        turn += 1
    (folder / f"times-{rank}.json").write_text(json.dumps(times))
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
