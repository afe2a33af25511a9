"""Discovery of made-up clusters: how often the mesh is right, and how far the confidence can be trusted.

Run by hand: ``python benchmarks/discovery.py [--clusters 500] [--faulty 100] [--most-ranks 4096]``.
Prints, for clusters without faults, with each fault, and with two levels closer than 1.5 times: the share
whose levels and groups are all right, the share whose fault is named, and the time; then how often
discoveries of each confidence were right.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from perfcast.measure.mesh_discovery.discover import discover_mesh
from perfcast.measure.mesh_discovery.levels import LEAST_RATIO
from perfcast.measure.mesh_discovery.synthetic import FAULTS, is_named, is_right, make_cluster

RANKS = (8, 12, 16, 24, 32, 36, 48, 64, 72, 96, 128, 144, 192, 256, 384, 512, 1024, 2048, 4096)
BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.01)
CLOSE = "close_levels"
Key = TypeVar("Key")


@dataclass(frozen=True)
class Outcome:
    kind: str
    num_ranks: int
    seed: int
    is_right: bool
    is_named: bool
    confidence: float
    pairs: int
    seconds: float
    shape: tuple[int, ...]
    found: tuple[int, ...]


def main() -> int:
    options = parsed_options()
    ranks = [n for n in RANKS if n <= options.most_ranks]
    counts = {fault: options.clusters if fault == "none" else options.faulty for fault in FAULTS}
    counts[CLOSE] = options.faulty
    tasks = [
        (kind, ranks[k % len(ranks)], options.seed + k)
        for kind, count in counts.items()
        if not options.kind or kind in options.kind
        for k in range(count)
    ]
    outcomes = []
    with ProcessPoolExecutor(options.workers) as pool:
        for outcome in pool.map(discover_one, tasks):
            outcomes.append(outcome)
            if options.failures and not (outcome.is_right and outcome.is_named):
                print(outcome, flush=True)
    print_kinds(outcomes)
    print_sizes(outcomes)
    print_reliability(outcomes)
    return 0


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clusters", type=int, default=500, help="without faults")
    parser.add_argument("--faulty", type=int, default=100, help="of each fault, and of close levels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-ranks", type=int, default=max(RANKS))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=[*FAULTS, CLOSE], help="these only")
    parser.add_argument("--failures", action="store_true", help="print each wrong one when it occurs")
    return parser.parse_args()


def discover_one(task: tuple[str, int, int]) -> Outcome:
    kind, num_ranks, seed = task
    draw = np.random.default_rng((seed, num_ranks, [*FAULTS, CLOSE].index(kind)))
    if kind == CLOSE:
        cluster = make_cluster(num_ranks, draw, least_ratio=LEAST_RATIO, most_ratio=1.5)
    elif kind in ("none", "unequal_groups"):
        cluster = make_cluster(num_ranks, draw, fault=kind)
    else:
        cluster = make_cluster(max(num_ranks, 12), draw, fault=kind)
    began = time.process_time()
    mesh = discover_mesh(lambda pairs: cluster.measure(draw, pairs), cluster.num_ranks, seed=seed)
    return Outcome(
        kind, math.prod(cluster.shape), seed, is_right(cluster, mesh), is_named(cluster, mesh),
        mesh.confidence, mesh.num_measured_pairs, time.process_time() - began, cluster.shape,
        tuple(len(groups) for groups in mesh.groups),
    )  # fmt: skip


def print_kinds(outcomes: list[Outcome]) -> None:
    print(f"{'kind':16} {'clusters':>8} {'right':>8} {'named':>8} {'both':>8} {'confident and wrong':>20}")
    for kind, members in grouped(outcomes, lambda outcome: outcome.kind).items():
        wrong = sum(outcome.confidence >= 0.9 and not outcome.is_right for outcome in members)
        both = share(outcome.is_right and outcome.is_named for outcome in members)
        print(
            f"{kind:16} {len(members):8} {share(o.is_right for o in members):8.1%} "
            f"{share(o.is_named for o in members):8.1%} {both:8.1%} {wrong:20}"
        )


def print_sizes(outcomes: list[Outcome]) -> None:
    print(
        f"\n{'ranks':>6} {'pairs (mean)':>13} {'of all pairs':>13} {'cpu s (mean)':>13} {'cpu s (most)':>13}"
    )
    for ranks, members in sorted(grouped(outcomes, lambda outcome: outcome.num_ranks).items()):
        pairs = float(np.mean([outcome.pairs for outcome in members]))
        seconds = [outcome.seconds for outcome in members]
        print(
            f"{ranks:6} {pairs:13.0f} {pairs / (ranks * (ranks - 1) / 2):13.1%} "
            f"{np.mean(seconds):13.2f} {max(seconds):13.2f}"
        )


def print_reliability(outcomes: list[Outcome]) -> None:
    print(f"\n{'confidence':>14} {'clusters':>8} {'mean':>7} {'right':>8}")
    for low, high in pairwise(BINS):
        members = [outcome for outcome in outcomes if low <= outcome.confidence < high]
        if members:
            mean = float(np.mean([outcome.confidence for outcome in members]))
            right = share(o.is_right for o in members)
            print(f"{low:6.2f} … {min(high, 1):4.2f}  {len(members):8} {mean:7.3f} {right:8.1%}")


def grouped(outcomes: list[Outcome], key: Callable[[Outcome], Key]) -> dict[Key, list[Outcome]]:
    found: defaultdict[Key, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[key(outcome)].append(outcome)
    return found


def share(flags: Iterable[bool]) -> float:
    return float(np.mean(list(flags)))


if __name__ == "__main__":
    raise SystemExit(main())
