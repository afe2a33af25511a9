"""Is the placement with the least predicted time the fastest one, where every rank is measured by itself?

Run by hand: ``python benchmarks/sharding_alone.py [--tasks 20] [--turns 16] [--store FILE]``; one thread and
4 GB, some four minutes of processor time. With a store it goes on where it stopped.

Tasks are drawn as published (``searches/sharding/inputs/tasks``): four ranks, 36 to 67 tables, half of the
tasks heavy, from a made-up pool whose tables are small enough for this machine; indices uniform, Zipf, or by
a published reuse histogram, of which the prediction counts one batch; other batches are run.

A rank is what a device with a memory of its own does: its tables' lookups forward, then backward with sparse
SGD, one rank after the other on one processor, in its time. A makespan is the slowest rank's forward and the
slowest rank's backward: the sharders' objective without collectives, which one memory cannot tell and which
are left out of the prediction too. All placements of a task take turns in a random order. Of a turn counts
what parts it from the others: each piece's time over the piece's usual one, all pieces' median left out.

Two measurements are read off the same turns:

    by placement    a piece counts by the median of its turns under this placement: what lies beside it on the
                    rank is in its time, and so is the noise of these turns alone
    by table        a piece counts by the median of its turns under all placements: steadier by the root of
                    their number, blind to what lies beside it

Repeats: the same from the even and from the odd turns alone. A task is decided where both name the same best
placement. The lookups' cost is fitted before to tables of another pool, alone and by themselves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sharding_measured import fit_tables, make_pool
from sharding_ranks import draw_batch, learn
from torch import nn

from perfcast.core.embedding.lookup import EmbeddingLookup, EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.embedding.reuse import count_reuse
from perfcast.cost.embedding.learned import EmbeddingWeights, LearnedEmbeddingPricer
from perfcast.cost.embedding.model import PHASES, price_lookups
from perfcast.measure.embedding.cases import DISTRIBUTIONS
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.searches.sharding.communication import CommunicationCurves, Curve
from perfcast.searches.sharding.inputs.tasks import ShardingTask, draw_tasks
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.units import GIB

NUM_RANKS, BATCH_SIZE, NUM_BATCHES = 4, 256, 2
OURS, CLOSE = "perfcast", 0.03
RULES_OF_STUDY = ("naive", "naive_chunk", "random", "size_greedy", "lookup_greedy", "size_lookup_greedy")
#: Tables of the fit, measured in groups as on a rank.
NUM_FITTED, GROUP, NUM_PASSES = 480, 12, 4
#: A table, in how many slices of columns, and which of them.
Piece = tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """A placement that one or more rules chose.

    Attributes:
        ranks: Pieces of each rank.
        predicted: Forward and backward of every rank, shape [2, ranks].
    """

    names: tuple[str, ...]
    ranks: tuple[tuple[Piece, ...], ...]
    predicted: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def predicted_seconds(self) -> float:
        return sum(max(phase) for phase in self.predicted)


class Pieces:
    """What a task's ranks hold: an embedding table for each piece, and its indices."""

    def __init__(self, tables: Sequence[EmbeddingTable], distributions: Sequence[str], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tables = tables
        self.seen = draw_batch(tables, distributions, BATCH_SIZE, rng)
        batches = [draw_batch(tables, distributions, BATCH_SIZE, rng) for _ in range(NUM_BATCHES)]
        self.batches = [[torch.from_numpy(own) for own in batch] for batch in batches]
        self.bags: dict[Piece, tuple[nn.EmbeddingBag, torch.optim.Optimizer]] = {}

    def hold(self, piece: Piece) -> None:
        if piece not in self.bags:
            table, parts, _ = piece
            weights = torch.full((self.tables[table].num_rows, self.tables[table].dim // parts), 0.5)
            bag = nn.EmbeddingBag(*weights.shape, mode="sum", sparse=True, _weight=weights)
            self.bags[piece] = (bag, torch.optim.SGD([bag.weight], lr=1e-6))

    def run(self, rank: Sequence[Piece], turn: int) -> np.ndarray:
        """Processor seconds of every piece forward and backward, shape [2, pieces]."""
        batch = self.batches[turn % NUM_BATCHES]
        inputs = []
        for piece in rank:
            pooling = round(self.tables[piece[0]].pooling)
            inputs.append(
                (*self.bags[piece], batch[piece[0]], torch.arange(0, BATCH_SIZE * pooling, pooling))
            )
        pooled, marks = [], [time.thread_time()]
        for bag, _, indices, offsets in inputs:
            pooled.append(bag(indices, offsets))
            marks.append(time.thread_time())
        gradients = [torch.ones_like(one) for one in pooled]
        back = [time.thread_time()]
        for (_, update, _, _), sums, gradient in zip(inputs, pooled, gradients, strict=True):
            learn(sums, gradient, update)
            back.append(time.thread_time())
        return np.stack([np.diff(marks), np.diff(back)])


class Store:
    """Answers by name, one JSON line each."""

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None
        lines = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        self.kept: dict[str, Any] = dict(json.loads(line) for line in lines)

    def put(self, name: str, content: Any) -> None:
        self.kept[name] = content
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([name, content]) + "\n")


def main() -> int:
    options = parsed_options()
    torch.set_num_threads(1)
    store = Store(options.store)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        fitted = make_fitted(options)
        if "fit" not in store.kept:
            store.put("fit", measure_fitted(fitted, options))
        cost = fit_cost(fitted, store.kept["fit"])
        results = []
        for index, task in enumerate(make_tasks(options)):
            distributions = drawn(task, options.seed + 100 + index)
            pieces = Pieces(task.tables, distributions, options.seed + 100 + index)
            plans = choose_plans(task, pieces, cost, options.seed + 100 + index)
            if task.name not in store.kept:
                store.put(task.name, measure_task(pieces, plans, options.turns, options.seed + index))
            results.append(read_task(task.name, plans, store.kept[task.name]))
            print_task(results[-1])
    print_summary(results, cost)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return 0


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--turns", type=int, default=16, help="of every placement of a task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fit-seed", type=int, default=103, help="of the tables that the cost is fitted to")
    parser.add_argument("--memory-gib", type=float, default=1.0, help="of all tables of a task together")
    parser.add_argument("--store", help="where what was measured is kept, so that another run goes on")
    parser.add_argument("--json", help="where the results are written")
    return parser.parse_args()


def make_tasks(options: argparse.Namespace) -> tuple[ShardingTask, ...]:
    half = options.tasks // 2
    return draw_tasks(
        make_pool(options.seed), NUM_RANKS, options.memory_gib / NUM_RANKS / 0.8 * GIB, num_heavy=half,
        num_others=options.tasks - half, seed=options.seed,
    )  # fmt: skip


def drawn(task: ShardingTask, seed: int) -> tuple[str, ...]:
    return tuple(map(str, np.random.default_rng(seed).choice(DISTRIBUTIONS, len(task.tables))))


@dataclass(frozen=True)
class Fitted:
    """A group of tables of another pool, some of them a slice of columns."""

    pieces: Pieces
    rank: tuple[Piece, ...]


def make_fitted(options: argparse.Namespace) -> list[Fitted]:
    rng = np.random.default_rng(options.fit_seed)
    pool = make_pool(options.fit_seed, NUM_FITTED)
    heavy = [table for table in make_pool(options.fit_seed + 1, 4 * NUM_FITTED) if table.pooling >= 20]
    every = [*pool[: NUM_FITTED // 2], *(replace(t, name=f"h{t.name}") for t in heavy[: NUM_FITTED // 2])]
    groups = []
    for at in range(0, len(every), GROUP):
        tables = [every[place] for place in range(at, min(at + GROUP, len(every)))]
        kinds = tuple(map(str, rng.choice(DISTRIBUTIONS, len(tables))))
        parts = rng.choice((1, 1, 2, 4), len(tables))
        rank = tuple((place, int(part), 0) for place, part in enumerate(parts))
        groups.append(Fitted(Pieces(tables, kinds, options.fit_seed + at), rank))
    return groups


def measure_fitted(groups: Sequence[Fitted], options: argparse.Namespace) -> list[list[list[float]]]:
    """Median seconds of every piece, forward and backward, of each group.

    All groups are measured several times over, so that no group stands for a slow minute of the machine.
    """
    turns: list[list[np.ndarray]] = [[] for _ in groups]
    for _ in range(NUM_PASSES):
        for group, own in zip(groups, turns, strict=True):
            for piece in group.rank:
                group.pieces.hold(piece)
            group.pieces.run(group.rank, 0)
            count = max(options.turns // NUM_PASSES, 1)
            own += [group.pieces.run(group.rank, turn) for turn in range(count)]
            group.pieces.bags.clear()
    return [np.median(np.stack(own), axis=0).tolist() for own in turns]


def lookup_of(pieces: Pieces, piece: Piece) -> EmbeddingLookup:
    """With the reuse of the batch that the prediction has seen."""
    table, parts, _ = piece
    own = pieces.tables[table]
    reuse = count_reuse(pieces.seen[table])
    return EmbeddingLookup(own.num_rows, own.dim // parts, BATCH_SIZE, own.pooling, reuse=reuse)


def fit_cost(groups: Sequence[Fitted], measured: Sequence[Any]) -> LearnedEmbeddingPricer:
    """The learned cost on all groups, with the spread of one fitted to three quarters on the others."""
    lookups = [[lookup_of(group.pieces, piece) for piece in group.rank] for group in groups]
    members, spread = {}, {}
    for at, phase in enumerate(PHASES):
        seconds = [np.array(own[at]) for own in measured]
        some = [index for index in range(len(groups)) if index % 4]
        trial = LearnedEmbeddingPricer(
            EmbeddingWeights({phase: fit_tables(lookups, seconds, some)}, {phase: 0.0}), is_measured_here=True
        )
        errors = [
            np.log(price_lookups(trial, [lookup], phase).seconds / own)
            for index in range(0, len(groups), 4)
            for lookup, own in zip(lookups[index], seconds[index], strict=True)
        ]
        spread[phase] = float(np.std(errors))
        members[phase] = fit_tables(lookups, seconds, range(len(groups)))
    return LearnedEmbeddingPricer(EmbeddingWeights(members, spread), is_measured_here=True)


def choose_plans(task: ShardingTask, pieces: Pieces, cost: LearnedEmbeddingPricer, seed: int) -> list[Plan]:
    """The search's choice and the published rules'; the same placement, up to the ranks' names, once."""
    known = tuple(
        replace(table, reuse=count_reuse(seen)) for table, seen in zip(task.tables, pieces.seen, strict=True)
    )
    nothing = Curve(np.array([1.0, 2.0]), np.zeros(2))
    problem = ShardingProblem(
        known, NUM_RANKS, BATCH_SIZE, 8.0 * GIB, cost, CommunicationCurves(nothing, nothing), "sgd",
        (ShardingKind.TABLE_WISE, ShardingKind.COLUMN_WISE),
    )  # fmt: skip
    choice = choose_sharding(problem, seed=seed)
    found = [(OURS, choice.placements)]
    found += [(one.name, one.placements) for one in choice.baselines if one.placements]
    plans: dict[Any, Plan] = {}
    for name, placements in found:
        ranks = ranks_of(placements)
        same = frozenset(ranks)
        if same in plans:
            plans[same] = replace(plans[same], names=(*plans[same].names, name))
        else:
            plans[same] = Plan((name,), ranks, predict(ranks, pieces, cost))
    return list(plans.values())


def ranks_of(placements: Sequence[TablePlacement]) -> tuple[tuple[Piece, ...], ...]:
    ranks: list[list[Piece]] = [[] for _ in range(NUM_RANKS)]
    for table, placement in enumerate(placements):
        for part, rank in enumerate(placement.ranks):
            ranks[rank].append((table, len(placement.ranks), part))
    return tuple(map(tuple, ranks))


def predict(
    ranks: Sequence[Sequence[Piece]], pieces: Pieces, cost: LearnedEmbeddingPricer
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    both = []
    for phase in PHASES:
        lookups = [[lookup_of(pieces, piece) for piece in rank] for rank in ranks]
        both.append(tuple(price_lookups(cost, own, phase).seconds if own else 0.0 for own in lookups))
    return (both[0], both[1])


def measure_task(pieces: Pieces, plans: Sequence[Plan], turns: int, seed: int) -> list[list[list[Any]]]:
    """Seconds of every piece by plan, turn and rank: [plans][turns][ranks] of [2, pieces]."""
    rng = np.random.default_rng(seed)
    for plan in plans:
        for rank in plan.ranks:
            for piece in rank:
                pieces.hold(piece)
            if rank:
                pieces.run(rank, 0)  # touches new memory
    found: list[list[list[Any]]] = [[] for _ in plans]
    for turn in range(turns):
        for at in rng.permutation(len(plans)):
            ranks = [pieces.run(rank, turn) if rank else np.zeros((2, 0)) for rank in plans[at].ranks]
            found[at].append([np.round(own, 8).tolist() for own in ranks])
    pieces.bags.clear()
    return found


# ---- reading -----------------------------------------------------------------------------------


def read_task(name: str, plans: Sequence[Plan], answers: Sequence[Any]) -> dict[str, Any]:
    """Makespans of every plan, from all turns, the even ones and the odd ones."""
    logs = steady_logs(plans, answers)
    rows = []
    for at, plan in enumerate(plans):
        row: dict[str, Any] = {"names": plan.names, "predicted": plan.predicted_seconds}
        for way in ("placement", "table"):
            row[way] = [
                makespan(plan, logs, at, way, turns)
                for turns in (slice(None), slice(0, None, 2), slice(1, None, 2))
            ]
        rows.append(row)
    return {"task": name, "plans": rows}


Logs = list[list[dict[Piece, np.ndarray]]]


def steady_logs(plans: Sequence[Plan], answers: Sequence[Any]) -> Logs:
    """ln seconds of every piece by plan and phase, shape [turns], less what all pieces of a turn share."""
    logs: Logs = []
    for plan, turns in zip(plans, answers, strict=True):
        phases: list[dict[Piece, np.ndarray]] = []
        for phase in range(2):
            own = {
                piece: np.log([turn[rank][phase][place] for turn in turns])
                for rank, held in enumerate(plan.ranks)
                for place, piece in enumerate(held)
            }
            shared = np.median([values - np.median(values) for values in own.values()], axis=0)
            phases.append({piece: values - shared for piece, values in own.items()})
        logs.append(phases)
    return logs


def makespan(plan: Plan, logs: Logs, at: int, way: str, turns: slice) -> float:
    total = 0.0
    for phase in range(2):
        ranks = []
        for held in plan.ranks:
            seconds = 0.0
            for piece in held:
                same = [at] if way == "placement" else range(len(logs))
                samples = [logs[one][phase][piece][turns] for one in same if piece in logs[one][phase]]
                seconds += float(np.exp(np.median(np.concatenate(samples))))
            ranks.append(seconds)
        total += max(ranks)
    return total


def best(rows: Sequence[Mapping[str, Any]], key: str, part: int = 0) -> Mapping[str, Any]:
    def value(row: Mapping[str, Any]) -> float:
        return float(row[key]) if key == "predicted" else float(row[key][part])

    return min(rows, key=value)


def print_task(result: Mapping[str, Any]) -> None:
    rows = sorted(result["plans"], key=lambda row: row["predicted"])
    print(f"\n{result['task']}")
    least = {way: best(rows, way)[way][0] for way in ("placement", "table")}
    for row in rows:
        ways = "  ".join(
            f"by {way} {1e3 * row[way][0]:6.2f} ms +{100 * (row[way][0] / least[way] - 1):5.1f} %"
            for way in least
        )
        print(f"  {' = '.join(row['names']):44} predicted {1e3 * row['predicted']:6.2f} ms  {ways}")
    sys.stdout.flush()


def print_summary(results: Sequence[Mapping[str, Any]], cost: LearnedEmbeddingPricer) -> None:
    spread = " and ".join(f"{100 * cost.weights.spread[phase]:.1f} % {phase}" for phase in PHASES)
    print(f"\nthe cost errs on tables left out of a fit by {spread} (one standard deviation)")
    for title, keep in (
        ("all seven rules and the search", lambda names: True),
        ("the six rules of the study", lambda names: bool(set(names) & set(RULES_OF_STUDY))),
    ):
        groups = [[row for row in result["plans"] if keep(row["names"])] for result in results]
        print(f"\n{title}, {len(groups)} tasks")
        for way in ("placement", "table"):
            print_way(groups, way)
    errors = [row["predicted"] / row["table"][0] - 1 for result in results for row in result["plans"]]
    print(f"\nerror of a makespan: mean {100 * statistics.mean(map(abs, errors)):.1f} %")
    mine = [next(row for row in result["plans"] if OURS in row["names"]) for result in results]
    gains = [
        min(row["table"][0] for row in result["plans"] if row is not own) / own["table"][0] - 1
        for result, own in zip(results, mine, strict=True)
        if len(result["plans"]) > 1
    ]
    gain = statistics.median(gains)
    print(f"the fastest rule takes longer than the search's choice by {100 * gain:.1f} % (median)")


def print_way(groups: Sequence[Sequence[Mapping[str, Any]]], way: str) -> None:
    count = len(groups)
    agree = [best(group, way, 1) is best(group, way, 2) for group in groups]
    hits = [best(group, "predicted") is best(group, way) for group in groups]
    close = [best(group, "predicted")[way][0] <= (1 + CLOSE) * best(group, way)[way][0] for group in groups]
    decided = [hit for hit, same in zip(hits, agree, strict=True) if same]
    halves = statistics.median(abs(row[way][1] / row[way][2] - 1) for group in groups for row in group)
    share = 100 * sum(hits) / count
    print(
        f"  by {way:9}  predicted best is measured best {sum(hits)} of {count} ({share:.0f} %), within 3 %"
        f" {sum(close)}; repeats agree on the best in {sum(agree)}, and there {sum(decided)} hits;"
        f" halves differ by {100 * halves:.2f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
