"""Is the placement with the least predicted time the fastest one? Measured on two processes that exchange.

Run by hand: ``python benchmarks/sharding_measured.py [--tasks 24] [--cost learned] [--json FILE]``; ten
minutes and 4 GB on two idle cores. Prints for each task and each placement (six published rules and the
search's choice) the predicted and the measured step, then in how many tasks the predicted best is the
measured best.

A task is drawn as published (``search/sharding/tasks``), for two ranks, from a made-up pool whose tables are
small enough for such a machine; half of the tasks are heavy. Indices are drawn uniform, Zipf, or with a
published reuse histogram; the histograms that the prediction knows are counted in one batch, the batches that
are run are others.

A step: all-to-all of indices, lookups of ``torch.nn.EmbeddingBag``, all-to-all of sums, all-to-all of their
gradients, backward with sparse SGD. Ranks are two processes with one thread each, joined by gloo. Timed is
the processors' time of every exchange and of every table's lookup, forward and backward (other programs share
the machine; waiting is not counted). The time of each is the least of its repeats, since others can only
slow it; a part is the sum over a rank's tables, a step the sum over parts of the slower rank's. Placements
take turns step by step, in a random order, and so do the processes in the place of the ranks; the spread is
that of quarters of the repeats.

Before the tasks the same processes measure the curve that prices exchanges and, unless the cost is the
shipped one (``--cost learned``), lookups in tables of another pool, to which a cost with a handful of
constants is fitted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls
from sharding_ranks import NUM_RANKS, Case, Job, Ranks, Samples, draw_batch

from perfcast.core.embedding import (
    EmbeddingLookup,
    EmbeddingTable,
    ShardingKind,
)
from perfcast.core.embedding_columns import EmbeddingColumns, embedding_columns
from perfcast.core.embedding_reuse import count_reuse
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.measure.embedding_cases import DISTRIBUTIONS
from perfcast.prediction.names import memory_device
from perfcast.search.sharding.choose import choose_sharding
from perfcast.search.sharding.exchange import CurveExchange
from perfcast.search.sharding.problem import LookupCost, ShardingProblem
from perfcast.search.sharding.result import ShardingTime
from perfcast.search.sharding.tasks import WIDTHS, draw_tasks, with_drawn_widths
from perfcast.units import GIB, MIB

OURS = "perfcast"


#: Bytes beyond which a byte read, or a byte of rows in use, has another price.
CACHES = (0.25 * MIB, 1.0 * MIB, 4.0 * MIB)


@dataclass(frozen=True)
class Outcome:
    """Parts are those of ``PARTS``; measured ones for every rank."""

    task: str
    placement: str
    predicted_seconds: float
    measured_seconds: float
    quartile_spread: float
    predicted_parts: tuple[float, ...]
    measured_parts: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class CalibratedCost:
    """Sums of seconds: by table, bag, lookup, row in use; by byte beyond what caches hold; by width."""

    seconds: dict[str, np.ndarray]
    relative_spread: float

    def table_vectors(self, columns: EmbeddingColumns, phase: str) -> np.ndarray:
        lookups, rows, width = columns.num_lookups, columns.unique_rows, columns.row_bytes
        sizes = (lookups * width, rows * width)
        beyond = [np.maximum(size - cache, 0.0) for size in sizes for cache in CACHES]
        widest = np.searchsorted(WIDTHS[:-1], columns.dim)
        by_width = [
            np.where(widest == at, count, 0.0) for count in (lookups, rows) for at in range(len(WIDTHS))
        ]
        spread = lookups * columns.num_rows * width
        return np.stack(
            [
                np.ones(len(columns)), columns.batch_size * width, lookups, rows, lookups * width,
                rows * width, spread, *beyond, *by_width,
            ],
            axis=1,
        )  # fmt: skip

    def device_seconds(self, summed: np.ndarray, phase: str) -> np.ndarray:
        return summed @ self.seconds[phase]


def main() -> int:
    options = parsed_options()
    pool = make_pool(options.seed)
    half = options.tasks // 2
    tasks = draw_tasks(
        pool, NUM_RANKS, options.memory_gib / 2 / 0.8 * GIB, num_heavy=half, num_others=options.tasks - half,
        seed=options.seed,
    )  # fmt: skip
    with Ranks() as ranks:
        exchange = ranks.measure_exchange()
        cost = shipped_cost() if options.cost == "learned" else calibrate(ranks, options)
        print(
            f"lookups are expected to err by {100 * cost.relative_spread:.0f} % (one standard deviation)",
            flush=True,
        )
        outcomes: list[Outcome] = []
        for index, task in enumerate(tasks):
            outcomes += measure_task(
                ranks, cost, exchange, task.name, task.tables, options, options.seed + 100 + index
            )
            print_task(outcomes[-7:])
    print_summary(outcomes)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return 0


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument(
        "--cases", type=int, default=150, help="measured before the tasks for --cost calibrated"
    )
    parser.add_argument("--cost", choices=("calibrated", "learned"), default="calibrated")
    parser.add_argument("--memory-gib", type=float, default=1.0, help="of all tables of a task together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="where the outcomes are written")
    return parser.parse_args()


def make_pool(seed: int, count: int = 400) -> tuple[EmbeddingTable, ...]:
    """Rows even in the logarithm from 100 to 300,000, lookups a bag log-normal about 10."""
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.uniform(np.log(100), np.log(300_000), count)).astype(int)
    poolings = np.clip(np.round(np.exp(rng.normal(np.log(10), 1.2, count))), 1, 100)
    tables = [EmbeddingTable(f"t{i}", int(rows[i]), 1, float(poolings[i])) for i in range(count)]
    return with_drawn_widths(tables)


def shipped_cost() -> LookupCost:
    return embedding_pricer(memory_device("cpu"), optimizer="sgd")


def calibrate(ranks: Ranks, options: argparse.Namespace) -> CalibratedCost:
    """Fit on two thirds of the cases, and say how far off the rest is."""
    rng = np.random.default_rng(options.seed + 1)
    pool = make_pool(options.seed + 1)
    cases = []
    for index in range(options.cases):
        tables = tuple(pool[i] for i in rng.choice(len(pool), int(rng.integers(8, 18)), replace=False))
        names = tuple(str(rng.choice(DISTRIBUTIONS)) for _ in tables)
        cases.append(Case(tables, names, options.batch_size, options.seed + 1000 + index))
    answers = ranks.ask(("cases", cases))
    measured = [answers[index % NUM_RANKS][index] for index in range(len(cases))]
    columns = embedding_columns(
        [
            EmbeddingLookup(table.num_rows, table.dim, case.batch_size, table.pooling, reuse=reuse)
            for case, found in zip(cases, measured, strict=True)
            for table, reuse in zip(case.tables, found["reuse"], strict=True)
        ]
    )
    case_of = np.repeat(np.arange(len(cases)), [len(case.tables) for case in cases])
    fit = case_of % 3 < 2
    constants, errors = {}, []
    for phase in ("forward", "backward"):
        vectors = CalibratedCost({}, 0.0).table_vectors(columns, phase)
        seconds = np.concatenate([found[phase] for found in measured])
        scale = np.maximum(vectors[fit].max(axis=0), 1.0)
        weights = 1 / np.sqrt(seconds * seconds.mean())
        constants[phase] = (
            nnls((vectors / scale * weights[:, None])[fit], (seconds * weights)[fit])[0] / scale
        )
        sums = [np.bincount(case_of[~fit], values[~fit]) for values in (vectors @ constants[phase], seconds)]
        held = sums[1] > 0
        errors.append(np.log(sums[0][held] / sums[1][held]))
    return CalibratedCost(constants, float(np.std(np.concatenate(errors))))


def measure_task(
    ranks: Ranks,
    cost: LookupCost,
    exchange: CurveExchange,
    name: str,
    tables: Sequence[EmbeddingTable],
    options: argparse.Namespace,
    seed: int,
) -> list[Outcome]:
    rng = np.random.default_rng(seed)
    distributions = tuple(str(rng.choice(DISTRIBUTIONS)) for _ in tables)
    seen = draw_batch(tables, distributions, options.batch_size, rng)
    known = tuple(
        replace(table, reuse=count_reuse(indices)) for table, indices in zip(tables, seen, strict=True)
    )
    problem = ShardingProblem(
        known, NUM_RANKS, options.batch_size, 8.0 * GIB, cost, exchange, "sgd",
        (ShardingKind.TABLE_WISE, ShardingKind.COLUMN_WISE),
    )  # fmt: skip
    choice = choose_sharding(problem, seed=seed)
    predicted = {OURS: choice.time}
    plans = [(OURS, choice.placements)]
    for baseline in choice.baselines:
        assert baseline.time is not None
        assert baseline.placements is not None
        predicted[baseline.name] = baseline.time
        plans.append((baseline.name, baseline.placements))
    job = Job(
        name,
        tuple(tables),
        distributions,
        tuple(plans),
        options.batch_size,
        seed,
        options.repeats,
    )
    samples = ranks.run(job)
    return [outcome(name, plan, predicted[plan], samples[plan]) for plan, _ in plans]


def outcome(task: str, plan: str, predicted: ShardingTime, samples: Sequence[Samples]) -> Outcome:
    """Samples: of each rank."""
    least = np.array([one.by_part() for one in samples])
    quarters = [np.array([one.by_part(quarter) for one in samples]) for quarter in range(4)]
    steps = [parts.max(axis=0).sum() for parts in quarters]
    low, middle, high = np.quantile(steps, (0.25, 0.5, 0.75))
    return Outcome(
        task, plan, predicted.step_seconds, float(least.max(axis=0).sum()), float((high - low) / middle),
        (
            predicted.index_seconds, predicted.forward_seconds, predicted.output_seconds,
            predicted.gradient_seconds, predicted.backward_seconds,
        ),
        tuple(map(tuple, least.T.tolist())),
    )  # fmt: skip


def by_task(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    names = dict.fromkeys(outcome.task for outcome in outcomes)
    return [[outcome for outcome in outcomes if outcome.task == name] for name in names]


def print_task(outcomes: Sequence[Outcome]) -> None:
    print(f"\n{outcomes[0].task}")
    best = min(outcome.measured_seconds for outcome in outcomes)
    for one in sorted(outcomes, key=lambda one: one.predicted_seconds):
        print(
            f"  {one.placement:20} predicted {one.predicted_seconds * 1e3:8.2f} ms  measured "
            f"{one.measured_seconds * 1e3:8.2f} ms  +{100 * (one.measured_seconds / best - 1):5.1f} %  "
            f"quartiles {100 * one.quartile_spread:4.1f} %"
        )
    sys.stdout.flush()


def print_summary(outcomes: Sequence[Outcome]) -> None:
    groups = by_task(outcomes)
    right, close, near = 0, 0, 0
    errors = [one.predicted_seconds / one.measured_seconds - 1 for one in outcomes]
    gains = []
    for group in groups:
        chosen = min(group, key=lambda one: one.predicted_seconds)
        best = min(group, key=lambda one: one.measured_seconds)
        excess = chosen.measured_seconds / best.measured_seconds - 1
        right += chosen is best
        close += excess <= 0.03
        near += excess <= max(0.03, chosen.quartile_spread)
        others = [one.measured_seconds for one in group if one.placement != OURS]
        mine = next(one.measured_seconds for one in group if one.placement == OURS)
        gains.append(min(others) / mine - 1)
    total = len(groups)
    print(f"\npredicted best is the measured best: {right} of {total} ({100 * right / total:.0f} %)")
    print(f"within 3 % of it: {close} of {total} ({100 * close / total:.0f} %)")
    print(f"within 3 % (or the quartile spread) of it: {near} of {total} ({100 * near / total:.0f} %)")
    print(f"error of a step: mean {100 * statistics.mean(map(abs, errors)):.1f} %")
    print(
        f"the fastest published rule takes longer than the choice by {100 * statistics.median(gains):.1f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
