"""Plans per second of the search, and the whole space of a model of 1T parameters.

Run by hand: ``python benchmarks/search.py``. A plan is counted when it has its step time, the time by cause
and its peak memory; plans that memory excludes are not. Rates are per second of processor time of one process
(enumeration and memory included), the fastest of two; the last line is the wall time of two processes.
"""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass

from perfcast.catalog.clusters import load_cluster
from perfcast.core.training import Training
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan_memory import read_model, to_transformer
from perfcast.search.evaluate import Evaluation, evaluate_plans
from perfcast.search.fitting import enumerate_fitting
from perfcast.search.space import Space
from perfcast.units import GIGA, KIB

#: A hundred times what a published calculator of such plans evaluates on one core of this machine.
LEAST_PLANS_PER_SECOND = 21_800
MOST_SECONDS, MOST_BYTES, LEAST_PLANS = 10.0, 2 * GIGA, 100_000


@dataclass(frozen=True)
class Case:
    """One model on one cluster."""

    model: str
    cluster: str
    global_batch_size: int
    sequence_length: int = 2048


CASES = (Case("gpt3-175b", "dgx-h100:4096", 3072), Case("megatron-1t", "dgx-h100:16384", 3072))


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{'model':12} {'cluster':16} {'plans':>9} {'fit':>8} {'seconds':>8} {'plans/s':>9} {'at least':>9}"
    )
    failed = False
    for case in CASES:
        seconds, num_plans, found = min((timed(case) for _ in range(2)), key=lambda run: run[0])
        rate = len(found) / seconds
        failed |= rate < LEAST_PLANS_PER_SECOND
        line = f"{case.model:12} {case.cluster:16} {num_plans:9,} {len(found):8,} {seconds:8.2f}"
        print(f"{line} {rate:9,.0f} {LEAST_PLANS_PER_SECOND:9,}")
    began = time.perf_counter()
    _, found = search(CASES[-1], num_processes=2)
    wall, held = time.perf_counter() - began, held_bytes()
    failed |= wall > MOST_SECONDS or held > MOST_BYTES or len(found) < LEAST_PLANS
    print(
        f"{CASES[-1].model} on two processes: {len(found):,} plans in {wall:.1f} s "
        f"(at most {MOST_SECONDS:g}), "
        f"{held / GIGA:.2f} GB (at most {MOST_BYTES / GIGA:g})"
    )
    return int(failed)


def timed(case: Case) -> tuple[float, int, Evaluation]:
    """Processor seconds of one search, the plans of its space, and those that fit."""
    began = time.process_time()
    num_plans, found = search(case, num_processes=1)
    return time.process_time() - began, num_plans, found


def search(case: Case, num_processes: int) -> tuple[int, Evaluation]:
    """All plans of the default space."""
    config, architecture, _ = read_model(case.model)
    model = to_transformer(config, architecture, case.model)
    cluster, training = load_cluster(case.cluster), Training(framework="megatron")
    device = resolve_device(cluster.device)
    cost_model = resolve_cost_model(None, device)
    fitting = enumerate_fitting(
        model, cluster, device, training, case.global_batch_size, case.sequence_length, Space()
    )
    found = evaluate_plans(
        model, cluster, fitting.plans, training, case.sequence_length, device=device, cost_model=cost_model,
        memory=fitting.memory, num_processes=num_processes,
    )  # fmt: skip
    return fitting.num_plans, found


def held_bytes() -> float:
    """Most that this process and one of its children held, together."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return KIB * sum(resource.getrusage(kind).ru_maxrss for kind in kinds)


if __name__ == "__main__":
    raise SystemExit(main())
