"""Plans per second of the search, and the whole space of a model of 1T parameters.

Run by hand: ``python benchmarks/search.py``. A plan is counted when it has its step time, the time by cause
and its peak memory; plans that memory excludes are not.

* Rates are per second of processor time of one process (enumeration and memory included), the fastest of two.
* The whole space of the largest case on two processes: wall seconds, and memory of both.
* The fastest plans by formula, each of another step time, are played event by event: wall seconds on two
  processes, the place by formula of the plan that is fastest by events, and how far both are apart.
* ``perfcast search`` of the largest case as a command: wall and processor seconds, memory of its processes.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.training import Training
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.timer import make_timer
from perfcast.searches.evaluation.evaluate import Evaluation, evaluate_plans
from perfcast.searches.ranking.simulator import Simulator
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fitting import enumerate_fitting
from perfcast.units import GIGA, KIB

#: A hundred times what Calculon evaluated on one core of the machine that these benchmarks run on
#: (``calculon.KNOWN_RATE``).
LEAST_PLANS_PER_SECOND = 71_400
MOST_SECONDS, MOST_BYTES, LEAST_PLANS = 10.0, 2 * GIGA, 100_000
#: Of the plans that are played: how many, for how long at most, and among how many the fastest is to be.
NUM_PLAYED, MOST_PLAYED_SECONDS, TOP = 200, 20.0, 20
NUM_PROCESSES = 2
#: Where these limits are stated.
STATED = "docs/accuracy.md"


@dataclass(frozen=True)
class Case:
    """One model on one cluster."""

    model: str
    cluster: str
    global_batch_size: int
    sequence_length: int = 2048


#: Rates are measured of the first two.
CASES = (Case("gpt3-175b", "dgx-h100:4096", 3072), Case("megatron-1t", "dgx-h100:16384", 3072))
SMALL_CASES = (Case("gpt3-175b", "dgx-a100:512", 768), Case("llama2-13b", "dgx-h100:32", 128, 4096))


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{'model':12} {'cluster':16} {'plans':>9} {'fit':>8} {'seconds':>8} {'plans/s':>9} {'at least':>9}"
    )
    rows = []
    for case in CASES:
        seconds, num_plans, found = min((timed(case) for _ in range(2)), key=lambda run: run[0])
        rate = len(found) / seconds
        what = f"plans of {case.model} on {case.cluster}"
        rows.append(Row(what, rate, "1/CPU s", LEAST_PLANS_PER_SECOND, "at least", "100 x Calculon"))
        line = f"{case.model:12} {case.cluster:16} {num_plans:9,} {len(found):8,} {seconds:8.2f}"
        print(f"{line} {rate:9,.0f} {LEAST_PLANS_PER_SECOND:9,}")
    began = time.perf_counter()
    _, found = search(CASES[-1], num_processes=NUM_PROCESSES)
    wall, held = time.perf_counter() - began, held_bytes()
    rows += [
        Row("whole space of the largest case", wall, "s", MOST_SECONDS, source=STATED),
        Row("its plans that fit", len(found), "plans", LEAST_PLANS, "at least", STATED),
        Row("memory of its processes", held / GIGA, "GB", MOST_BYTES / GIGA, source=STATED),
    ]
    print(
        f"{CASES[-1].model} on {NUM_PROCESSES} processes: {len(found):,} plans in {wall:.1f} s (at most "
        f"{MOST_SECONDS:g}), {held / GIGA:.2f} GB (at most {MOST_BYTES / GIGA:g})"
    )
    rows += compare_events(CASES[-1], found)
    for case in SMALL_CASES:
        rows += compare_events(case)
    return report([*rows, *run_command(CASES[-1])])


def compare_events(case: Case, found: Evaluation | None = None) -> list[Row]:
    """Prints how formula and events agree on the fastest plans."""
    found = search(case, num_processes=1)[1] if found is None else found
    formula, places = np.unique(found.step_seconds, return_index=True)
    formula, places = formula[:NUM_PLAYED], places[:NUM_PLAYED]
    began = time.perf_counter()
    played, _ = simulator(case).simulate(
        places.tolist(), found.plans.plan, lambda place, before: False, NUM_PROCESSES
    )
    wall = time.perf_counter() - began
    events = np.array([one.time.step_seconds for one in played])
    place, apart = int(events.argmin()) + 1, formula / events - 1
    print(
        f"{case.model} on {case.cluster}: {len(events)} plans event by event in {wall:.1f} s (at most "
        f"{MOST_PLAYED_SECONDS:g}); the fastest is number {place} by formula (at most {TOP}); formula over "
        f"events: mean {100 * apart.mean():+.1f} %, {100 * apart.min():+.1f} to {100 * apart.max():+.1f} %"
    )
    name = f"{case.model} on {case.cluster}"
    return [
        Row(f"{name}, {len(events)} plans by events", wall, "s", MOST_PLAYED_SECONDS, source=STATED),
        Row(f"{name}, place of the fastest by formula", place, "", TOP, source=STATED),
    ]


def run_command(case: Case) -> list[Row]:
    """Prints what the command takes."""
    command = [
        sys.executable, "-m", "perfcast", "search", case.model, "--cluster", case.cluster,
        "--global-batch-size", str(case.global_batch_size), "--json", os.devnull,
    ]  # fmt: skip
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall, spent = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    held = KIB * usage.ru_maxrss * NUM_PROCESSES
    print(
        f"perfcast search {case.model} --cluster {case.cluster}: {wall:.1f} s, {spent:.1f} s of processors, "
        f"at most {held / GIGA:.2f} GB in {NUM_PROCESSES} processes"
    )
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return [
        Row("the command, whole", wall, "s", MOST_SECONDS, source=STATED),
        Row("the command, processors", spent, "CPU s"),
        Row("the command, memory", held / GIGA, "GB", MOST_BYTES / GIGA, source=STATED),
    ]


def timed(case: Case) -> tuple[float, int, Evaluation]:
    """Processor seconds of one search, the plans of its space, and those that fit."""
    began = time.process_time()
    num_plans, found = search(case, num_processes=1)
    return time.process_time() - began, num_plans, found


def simulator(case: Case) -> Simulator:
    """Of a case's plans."""
    model = read_model(case.model).sizes
    cluster, training = load_cluster(case.cluster), Training(framework="megatron")
    device, constants = resolve_device(cluster.device), load_step_constants()
    cost_model = resolve_cost_model(None, device)
    timer = make_timer("simulated", "train", training, cost_model, constants)
    return Simulator(model, training, case.sequence_length, cluster, device, cost_model, timer)


def search(case: Case, num_processes: int) -> tuple[int, Evaluation]:
    """All plans of the default space."""
    of = simulator(case)
    fitting = enumerate_fitting(
        of.model, of.cluster, of.device, of.training, case.global_batch_size, of.sequence_length, Space()
    )
    found = evaluate_plans(
        of.model, of.cluster, fitting.plans, of.training, of.sequence_length, device=of.device,
        cost_model=of.cost_model, memory=fitting.memory, num_processes=num_processes,
    )  # fmt: skip
    return fitting.num_plans, found


def held_bytes() -> float:
    """Most that this process and one of its children held, together."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return KIB * sum(resource.getrusage(kind).ru_maxrss for kind in kinds)


if __name__ == "__main__":
    raise SystemExit(main())
