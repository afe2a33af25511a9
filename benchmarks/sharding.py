"""Placements of this package and of TorchRec's planner side by side, under one evaluator.

Run by hand: ``python benchmarks/sharding.py [--limit 60] [--json FILE]``. TorchRec's part needs
``pip install torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0`` (no GPU); without it only this package's part is run.

Cases are tables drawn by a seed on 8-GPU nodes of H100. Both planners have the same tables, the same memory
of a device, and the same batch. TorchRec's ``EmbeddingShardingPlanner`` runs with its defaults, pooling
factors given, and the ways of sharding that both know: table-, column- and row-wise, row-wise within a node,
data-parallel. Each planner runs in a process of its own that is stopped at the limit. Both plans are judged
by ``searches/sharding/choose.judge_placements``: the slowest rank's lookups forward and backward, the uneven
all-to-alls, the all-reduce of replicated tables. That is what this package lowers; TorchRec has an estimator
of its own, by which its plan may look better.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.searches.sharding.choose import choose_sharding, judge_placements
from perfcast.searches.sharding.communication import cluster_communication
from perfcast.searches.sharding.problem import ShardingProblem
from perfcast.searches.sharding.request import MEMORY_SHARE

CLUSTER = "dgx-h100"
RANKS_PER_NODE = 8
KINDS = {
    "table_wise": ShardingKind.TABLE_WISE,
    "column_wise": ShardingKind.COLUMN_WISE,
    "row_wise": ShardingKind.ROW_WISE,
    "table_row_wise": ShardingKind.ROW_WISE,
    "data_parallel": ShardingKind.DATA_PARALLEL,
}
HOW = "pip install torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0"


@dataclass(frozen=True)
class Case:
    num_tables: int
    num_ranks: int
    batch_size: int
    most_rows: float
    seed: int

    @property
    def name(self) -> str:
        where = f"{self.num_tables} tables × {self.num_ranks} devices"
        return f"{where}, batch {self.batch_size:,}, seed {self.seed}"


@dataclass(frozen=True)
class Planned:
    """What a planner took and found; no placements where it did not finish."""

    seconds: float
    placements: tuple[TablePlacement, ...] | None
    reason: str = ""


CASES = (
    *(Case(26, ranks, 512 * ranks, 1e7, seed) for ranks in (8, 16, 32, 64) for seed in (0, 1)),
    *(Case(60, ranks, 1024 * ranks, 1e7, 2) for ranks in (8, 16)),
    Case(100, 16, 16_384, 3e7, 3),
    Case(200, 64, 65_536, 1e7, 4),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one planner on one case")
    parser.add_argument("--json", help="where the rows are written")
    options = parser.parse_args()
    has_torchrec = is_installed()
    if not has_torchrec:
        print(f"TorchRec is not installed ({HOW}); only this package's plans are shown")
    print(f"{'case':52} {'ours':>9} {'took':>8} {'TorchRec':>10} {'took':>8}  TorchRec takes longer by")
    rows = []
    for case in CASES:
        rows.append(row := compare(case, has_torchrec, options.limit))
        print(describe(row), flush=True)
    finished = [row for row in rows if row["torchrec_step_seconds"] is not None]
    if finished:
        ahead = sum(row["torchrec_step_seconds"] >= row["step_seconds"] for row in finished)
        print(f"\nours is at least as fast in {ahead} of the {len(finished)} cases that TorchRec finished")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def compare(case: Case, has_torchrec: bool, limit: float) -> dict[str, Any]:
    problem = make_problem(case)
    ours = within(limit, plan_here, case)
    theirs = within(limit, plan_torchrec, case) if has_torchrec else Planned(0.0, None, "not installed")
    plans = [planned.placements for planned in (ours, theirs) if planned.placements is not None]
    steps = iter(judge_placements(problem, plans))
    judged = [
        next(steps).step_seconds if planned.placements is not None else None for planned in (ours, theirs)
    ]
    return {
        "case": case.name, "step_seconds": judged[0], "planner_seconds": ours.seconds,
        "torchrec_step_seconds": judged[1], "torchrec_planner_seconds": theirs.seconds,
        "torchrec_reason": theirs.reason,
    }  # fmt: skip


def describe(row: dict[str, Any]) -> str:
    mine, theirs = row["step_seconds"], row["torchrec_step_seconds"]
    head = f"{row['case']:52} {mine * 1e3:6.3f} ms {row['planner_seconds']:6.2f} s "
    if theirs is None:
        return head + f"{row['torchrec_reason']:>19}"
    return head + (
        f"{theirs * 1e3:7.3f} ms {row['torchrec_planner_seconds']:6.2f} s  {100 * (theirs / mine - 1):6.1f} %"
    )


def make_tables(case: Case) -> tuple[EmbeddingTable, ...]:
    rng = np.random.default_rng(case.seed)
    rows = np.exp(rng.uniform(np.log(100), np.log(case.most_rows), case.num_tables)).astype(int)
    widths = rng.choice((32, 64, 128, 256), case.num_tables)
    poolings = np.clip(np.round(np.exp(rng.normal(np.log(10), 1.2, case.num_tables))), 1, 200)
    return tuple(
        EmbeddingTable(f"t{i}", int(rows[i]), int(widths[i]), float(poolings[i]))
        for i in range(case.num_tables)
    )


def make_problem(case: Case) -> ShardingProblem:
    cluster = load_cluster(f"{CLUSTER}:{case.num_ranks}")
    device = load_device(cluster.device)
    return ShardingProblem(
        make_tables(case), case.num_ranks, case.batch_size, MEMORY_SHARE * device.memory_bytes,
        embedding_pricer(device, optimizer="rowwise_adagrad"), cluster_communication(cluster),
    )  # fmt: skip


def plan_here(case: Case) -> tuple[TablePlacement, ...]:
    return choose_sharding(make_problem(case)).placements


def plan_torchrec(case: Case) -> tuple[TablePlacement, ...]:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import torch
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
    from torchrec.modules.embedding_configs import EmbeddingBagConfig
    from torchrec.modules.embedding_modules import EmbeddingBagCollection

    tables = make_tables(case)
    device = load_device(load_cluster(f"{CLUSTER}:{case.num_ranks}").device)
    constraints = {
        table.name: ParameterConstraints(sharding_types=list(KINDS), pooling_factors=[table.pooling])
        for table in tables
    }
    configs = [
        EmbeddingBagConfig(
            num_embeddings=table.num_rows,
            embedding_dim=table.dim,
            name=table.name,
            feature_names=[f"feature_{table.name}"],
        )
        for table in tables
    ]
    topology = Topology(
        world_size=case.num_ranks, compute_device="cuda", local_world_size=RANKS_PER_NODE,
        hbm_cap=int(device.memory_bytes),
    )  # fmt: skip
    planner = EmbeddingShardingPlanner(
        topology=topology, batch_size=case.batch_size // case.num_ranks, constraints=constraints
    )
    model = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
    plan = planner.plan(model, [EmbeddingBagCollectionSharder()]).plan[""]
    return tuple(placement(plan[table.name], table, case.num_ranks) for table in tables)


def placement(sharding: Any, table: EmbeddingTable, num_ranks: int) -> TablePlacement:
    kind = KINDS[sharding.sharding_type]
    ranks = range(num_ranks) if kind is ShardingKind.DATA_PARALLEL else sharding.ranks
    return TablePlacement(kind, tuple(int(rank) for rank in ranks))


def is_installed() -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchrec.distributed.planner  # noqa: F401
    except ImportError:
        return False
    return True


def within(limit: float, function: Callable[[Case], tuple[TablePlacement, ...]], case: Case) -> Planned:
    """Run in a process of its own; the time is that of the call, without imports."""
    context = multiprocessing.get_context("fork")
    ours, other = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(other, function, case), daemon=True)
    start = time.perf_counter()
    process.start()
    if ours.poll(limit):
        result: Planned = ours.recv()
        process.join()
        return result
    process.kill()
    process.join()
    return Planned(time.perf_counter() - start, None, f"not in {limit:.0f} s")


def answer(pipe: Any, function: Callable[[Case], tuple[TablePlacement, ...]], case: Case) -> None:
    start = time.perf_counter()
    try:
        placements = function(case)
        pipe.send(Planned(time.perf_counter() - start, placements))
    except Exception as error:
        pipe.send(Planned(time.perf_counter() - start, None, f"{type(error).__name__}: {error}"[:200]))


if __name__ == "__main__":
    sys.exit(main())
