"""Is the placement with the least predicted time the fastest one? Measured on two processes that exchange.

Run by hand: ``python benchmarks/sharding_measured.py [--tasks 20] [--store FILE] [--seconds 60]``; ten
minutes and 4 GB on two idle cores. With a store it stops after so many seconds, and the same command goes on.
Prints for each task and each placement (six published rules and the search's choice) the predicted and the
measured step, then in how many tasks the predicted best is the measured best. Placements of several rules
that are the same, up to the names of the two ranks, are one.

A task is drawn as published (``searches/sharding/inputs/tasks``), for two ranks, from a made-up pool whose
tables are small enough for such a machine; half of the tasks are heavy. Indices are drawn uniform, Zipf, or
with a published reuse histogram; the histograms that the prediction knows are counted in one batch, the
batches that are run are others.

A step: all-to-all of indices, lookups of ``torch.nn.EmbeddingBag``, all-to-all of sums, all-to-all of their
gradients, backward with sparse SGD, packing and unpacking between them. Ranks are two processes with one
thread each, joined by gloo. Collectives are timed by the clock, both ranks at once, from a barrier to the
last one's end; lookups by the processor's, one rank after the other: together they would share the memory of
one machine, as devices with memories of their own do not (a step that is run so, timed as a whole, is shown
beside it). A makespan is the sharders' objective: the sum of collectives, slowest forward, slowest backward.

Placements take turns step by step, in a random order, and so do the processes in the place of the ranks. Of
every table of a placement the median counts, of steps stated for one speed of the machine
(``perfcast.measure.embedding.probes``), less what all placements of the task share in a turn. The spread is
how far quartiles of the makespans of eight parts of the repeats are apart.

Before the tasks the same processes measure the all-to-all of packed pieces of many sizes, and the steps of
other tasks (tables of another pool, placed at random), to whose tables the package's learned cost is fitted.
Every prediction is made before the first task is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from sharding_outcomes import OURS, print_summary, print_task, read_steps, read_task, table_seconds
from sharding_ranks import NUM_RANKS, SIZES, Job, Ranks, draw_batch

from perfcast.core.embedding.lookup import (
    EmbeddingLookup,
    EmbeddingTable,
    ShardingKind,
    TablePlacement,
)
from perfcast.core.embedding.reuse import count_reuse
from perfcast.cost.embedding.learned import EmbeddingNet, EmbeddingWeights, LearnedEmbeddingPricer
from perfcast.cost.embedding.model import PHASES, price_lookups
from perfcast.evidence.train.embedding.fit import fit_nets, gather_cases
from perfcast.measure.embedding.cases import DISTRIBUTIONS
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.searches.sharding.communication import CommunicationCurves, Curve
from perfcast.searches.sharding.inputs.tasks import ShardingTask, draw_tasks, with_drawn_widths
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.units import GIB

#: Seconds that the turns of a calibration task take.
CASE_SECONDS = 1.0
#: Random placements of a calibration task, which take turns.
CASE_PLANS = 3
#: Of a calibration task's tables are split by columns.
SPLIT_SHARE = 0.2


class Store:
    """Answers of the ranks by name, one JSON line each; kept in memory alone without a file."""

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None
        self.kept: dict[str, Any] = {}
        if self.path and self.path.exists():
            for line in self.path.read_text().splitlines():
                name, content = json.loads(line)
                self.kept[name] = content

    def put(self, name: str, content: Any) -> None:
        self.kept[name] = content
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([name, content], default=as_json) + "\n")


def as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.round(value.astype(float), 7).tolist()
    raise TypeError(type(value))


def main() -> int:
    options = parsed_options()
    store = Store(options.store)
    tasks = make_tasks(options)
    measure_all(store, make_cases(options), tasks, options)
    done = [task.name for task in tasks if task.name in store.kept]
    outcomes = [read_task(name, store.kept[name], store.kept["plans"][name]) for name in done]
    for some in outcomes:
        print_task(some)
    if outcomes:
        print_summary(outcomes, store.kept["plans"]["spread"])
    if options.json:
        Path(options.json).write_text(
            json.dumps([[asdict(one) for one in some] for some in outcomes], indent=1)
        )
    if len(done) < len(tasks):
        print(f"{len(done)} of {len(tasks)} tasks are measured; the same command goes on")
    return 0


def measure_all(
    store: Store, cases: Sequence[Job], tasks: Sequence[ShardingTask], options: argparse.Namespace
) -> None:
    """What the store lacks, as far as the time goes."""
    until = time.monotonic() + options.seconds
    with Ranks() as ranks:
        if "communication" not in store.kept:
            store.put("communication", np.max(ranks.ask("communication", None), axis=0))
        for case in cases:
            if case.name not in store.kept and time.monotonic() < until:
                store.put(case.name, ranks.ask("job", case))
        if all(case.name in store.kept for case in cases) and "plans" not in store.kept:
            store.put("plans", plan_tasks(store, cases, tasks, options))
        for index, task in enumerate(tasks):
            if "plans" in store.kept and task.name not in store.kept and time.monotonic() < until:
                store.put(task.name, measure_task(ranks, task, store.kept["plans"], options, index))


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--turns-seconds", type=float, default=9.0, help="of a task's placements")
    parser.add_argument("--cases", type=int, default=32, help="calibration tasks, measured before the others")
    parser.add_argument("--memory-gib", type=float, default=1.0, help="of all tables of a task together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--case-seed", type=int, default=103, help="of the calibration tasks and their tables"
    )
    parser.add_argument("--store", help="where what was measured is kept, so that another run goes on")
    parser.add_argument("--seconds", type=float, default=1e6, help="begin no task later than this")
    parser.add_argument("--json", help="where the outcomes are written")
    return parser.parse_args()


def make_tasks(options: argparse.Namespace) -> tuple[ShardingTask, ...]:
    half = options.tasks // 2
    return draw_tasks(
        make_pool(options.seed), NUM_RANKS, options.memory_gib / 2 / 0.8 * GIB, num_heavy=half,
        num_others=options.tasks - half, seed=options.seed,
    )  # fmt: skip


def make_pool(seed: int, count: int = 400) -> tuple[EmbeddingTable, ...]:
    """Rows even in the logarithm from 100 to 300,000, lookups a bag log-normal about 10."""
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.uniform(np.log(100), np.log(300_000), count)).astype(int)
    poolings = np.clip(np.round(np.exp(rng.normal(np.log(10), 1.2, count))), 1, 100)
    tables = [EmbeddingTable(f"t{i}", int(rows[i]), 1, float(poolings[i])) for i in range(count)]
    return with_drawn_widths(tables)


def make_cases(options: argparse.Namespace) -> list[Job]:
    """Tasks from another pool, placed at random."""
    pool = make_pool(options.case_seed)
    half = options.cases // 2
    tasks = draw_tasks(
        pool, NUM_RANKS, options.memory_gib / 2 / 0.8 * GIB, num_heavy=half,
        num_others=options.cases - half, seed=options.case_seed,
    )  # fmt: skip
    return [make_case(task, options, options.case_seed + 999 + index) for index, task in enumerate(tasks)]


def make_case(task: ShardingTask, options: argparse.Namespace, seed: int) -> Job:
    rng = np.random.default_rng(seed)
    distributions = tuple(map(str, rng.choice(DISTRIBUTIONS, len(task.tables))))
    plans = tuple((str(at), random_placements(len(task.tables), rng)) for at in range(CASE_PLANS))
    return Job(
        f"case {task.name}",
        task.tables,
        distributions,
        plans,
        options.batch_size,
        seed,
        CASE_SECONDS,
        sides=1,
    )


def random_placements(count: int, rng: np.random.Generator) -> tuple[TablePlacement, ...]:
    return tuple(
        TablePlacement(ShardingKind.COLUMN_WISE, tuple(range(NUM_RANKS)))
        if rng.random() < SPLIT_SHARE
        else TablePlacement(ShardingKind.TABLE_WISE, (int(rng.integers(NUM_RANKS)),))
        for _ in range(count)
    )


def case_lookups(case: Job) -> list[list[EmbeddingLookup]]:
    """Of each rank's pieces, with the reuse of the batch that the prediction sees."""
    seen = draw_batch(case.tables, case.distributions, case.batch_size, np.random.default_rng(case.seed))
    reuse = [count_reuse(indices) for indices in seen]
    return [
        [
            EmbeddingLookup(
                table.num_rows, table.dim // len(placement.ranks), case.batch_size, table.pooling, reuse=mine
            )
            for table, placement, mine in zip(case.tables, placements, reuse, strict=True)
            if rank in placement.ranks
        ]
        for _, placements in case.plans
        for rank in range(NUM_RANKS)
    ]


def fit_cost(store: Store, cases: Sequence[Job]) -> LearnedEmbeddingPricer:
    """The learned cost of all cases, with the spread of one that was fitted to two thirds on the others."""
    lookups = [mine for case in cases for mine in case_lookups(case)]
    measured = table_seconds(
        [
            read_steps(rank[name][0])
            for case in cases
            for name, _ in case.plans
            for rank in store.kept[case.name]
        ]
    )
    members, spread = {}, {}
    for phase in PHASES:
        seconds = [one[phase] for one in measured]
        fit = [at for at in range(len(lookups)) if at // (NUM_RANKS * CASE_PLANS) % 3 < 2]
        trial = fit_tables(lookups, seconds, fit)
        pricer = LearnedEmbeddingPricer(EmbeddingWeights({phase: trial}, {phase: 0.0}), is_measured_here=True)
        errors = [
            np.log(price_lookups(pricer, lookups[at], phase).seconds / seconds[at].sum())
            for at in range(len(lookups))
            if at not in fit and lookups[at]
        ]
        spread[phase] = float(np.std(errors))
        members[phase] = fit_tables(lookups, seconds, range(len(lookups)))
    return LearnedEmbeddingPricer(EmbeddingWeights(members, spread), is_measured_here=True)


def fit_tables(
    lookups: Sequence[Sequence[EmbeddingLookup]], seconds: Sequence[np.ndarray], taken: Sequence[int]
) -> tuple[EmbeddingNet, ...]:
    """Fitted to single tables."""
    single = [[lookup] for at in taken for lookup in lookups[at]]
    times = np.concatenate([seconds[at] for at in taken]).tolist()
    return fit_nets(gather_cases(single, times), has_step=False)


def communication_curve(seconds: np.ndarray) -> CommunicationCurves:
    """Of packing and exchanging, by the bytes that a rank holds; ``seconds`` [visits, sizes]."""
    middle = np.median(seconds, axis=0)
    curve = Curve(np.array([0.0, *SIZES]), np.maximum.accumulate([middle[0], *middle]))
    return CommunicationCurves(curve, curve)


def plan_tasks(
    store: Store, cases: Sequence[Job], tasks: Sequence[ShardingTask], options: argparse.Namespace
) -> dict[str, Any]:
    """Placements of every task with what is predicted, before any of them is measured."""
    cost, communication = fit_cost(store, cases), communication_curve(np.array(store.kept["communication"]))
    found: dict[str, Any] = {"spread": cost.relative_spread}
    for index, task in enumerate(tasks):
        found[task.name] = choose_plans(task, cost, communication, options, index)
    return found


def measure_task(
    ranks: Ranks, task: ShardingTask, plans: Any, options: argparse.Namespace, index: int
) -> list[Any]:
    """Of each rank, steps of each plan as it is and with the ranks exchanged."""
    distributions, _ = drawn(task, options, index)
    named = tuple((str(at), as_placements(plan["pieces"])) for at, plan in enumerate(plans[task.name]))
    job = Job(
        task.name, task.tables, distributions, named, options.batch_size, task_seed(options, index),
        options.turns_seconds,
    )  # fmt: skip
    return ranks.ask("job", job)


def as_placements(pieces: Sequence[Any]) -> tuple[TablePlacement, ...]:
    return tuple(TablePlacement(ShardingKind(kind), tuple(ranks)) for kind, ranks in pieces)


def task_seed(options: argparse.Namespace, index: int) -> int:
    return int(options.seed) + 100 + index


def drawn(
    task: ShardingTask, options: argparse.Namespace, index: int
) -> tuple[tuple[str, ...], list[np.ndarray]]:
    """The distribution of each table, and the batch that the prediction sees."""
    seed = task_seed(options, index)
    names = np.random.default_rng(seed).choice(DISTRIBUTIONS, len(task.tables))
    distributions = tuple(map(str, names))
    batch = draw_batch(task.tables, distributions, options.batch_size, np.random.default_rng(seed))
    return distributions, batch


def choose_plans(
    task: ShardingTask,
    cost: LearnedEmbeddingPricer,
    communication: CommunicationCurves,
    options: argparse.Namespace,
    index: int,
) -> list[dict[str, Any]]:
    """The search's choice and the published rules' with what is predicted; the same placement once."""
    _, seen = drawn(task, options, index)
    known = tuple(
        replace(table, reuse=count_reuse(indices)) for table, indices in zip(task.tables, seen, strict=True)
    )
    problem = ShardingProblem(
        known, NUM_RANKS, options.batch_size, 8.0 * GIB, cost, communication, "sgd",
        (ShardingKind.TABLE_WISE, ShardingKind.COLUMN_WISE),
    )  # fmt: skip
    choice = choose_sharding(problem, seed=task_seed(options, index))
    found = [(OURS, choice.placements, choice.time)]
    found += [(one.name, one.placements, one.time) for one in choice.baselines if one.placements and one.time]
    plans: dict[Any, dict[str, Any]] = {}
    for name, placements, predicted in found:
        entry = plans.setdefault(
            min(placements, mirrored(placements), key=repr),
            {
                "names": [],
                "pieces": [(one.kind.value, one.ranks) for one in placements],
                "predicted": predicted.step_seconds,
                "parts": (
                    predicted.index_seconds,
                    predicted.output_seconds + predicted.gradient_seconds,
                    predicted.forward_seconds,
                    predicted.backward_seconds,
                ),
            },
        )
        entry["names"].append(name)
    return list(plans.values())


def mirrored(placements: Sequence[TablePlacement]) -> tuple[TablePlacement, ...]:
    """With the ranks' names exchanged: the same to a measurement that runs both sides."""
    return tuple(replace(one, ranks=tuple(1 - rank for rank in one.ranks)) for one in placements)


if __name__ == "__main__":
    sys.exit(main())
