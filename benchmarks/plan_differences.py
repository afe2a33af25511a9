"""How often the interval of the difference of two plans holds the measured one: published plans of a job.

Run by hand: ``python benchmarks/plan_differences.py DIR`` with the folder of ``training.csv``; some minutes.
Of each job (model, sequence, cluster, program, batch, precision) at most twelve different plans, drawn with a
fixed seed, are forecast in closed form; repeats count by their median. A pair is sure when its 90 % interval
does not hold 0. The constants of the step are the shipped ones. The form of the interval was
chosen while looking at these pairs (docs/accuracy.md): its coverage here is in-sample.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.plan import Plan
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.model import CostModel
from perfcast.errors import InputError
from perfcast.evidence.validate.published.cases import PublishedCase, read_published_cases
from perfcast.evidence.validate.published.choice import GRID
from perfcast.evidence.validate.published.summary import SAME_JOB
from perfcast.prediction.step.constants import load_step_constants
from perfcast.prediction.step.prices import price_step
from perfcast.prediction.step.timer import Timer
from perfcast.searches.ranking.separate import difference_interval
from perfcast.searches.ranking.simulator import Simulated
from perfcast.workload.blocks import build_step_work

MOST_PLANS = 12
KERNELS = ("tensor_parallel", "micro_batch_size", "recompute")
Plans = Mapping[Plan, Sequence[PublishedCase]]


@dataclass(frozen=True)
class Pair:
    """Two plans of a job: seconds of the second's step less the first's, forecast, its interval, measured."""

    source: str
    job: int
    plans: tuple[Plan, Plan]
    forecast: float
    low: float
    high: float
    measured: float


def main() -> None:
    """Print coverage and order of the pairs, by which of them are looked at."""
    cost_model, draw = LearnedCost(), np.random.default_rng(0)
    pairs: list[Pair] = []
    for job, plans in enumerate(read_jobs(Path(sys.argv[1]))):
        kept = draw.permutation(len(plans))[:MOST_PLANS]
        pairs += pairs_of(job, {plan: plans[plan] for at, plan in enumerate(plans) if at in kept}, cost_model)
    without = [pair for pair in pairs if pair.source != GRID]
    other = [p for p in without if all(getattr(p.plans[0], k) == getattr(p.plans[1], k) for k in KERNELS)]
    show("all", pairs)
    show(f"without {GRID}", without)
    show(f"without {GRID}, same kernels", other)


def read_jobs(folder: Path) -> list[Plans]:
    """Measured plans of each job with two different ones at least."""
    jobs: defaultdict[Any, defaultdict[Plan, list[PublishedCase]]] = defaultdict(lambda: defaultdict(list))
    for case in read_published_cases([folder]):
        run = case.run
        if run is None or not case.measured_seconds or run.trains_adapters or run.slower_device:
            continue
        key = (case.source, run.cluster, run.run.training, *(case.configuration.get(n) for n in SAME_JOB))
        jobs[key][run.run.plan].append(case)
    return [plans for plans in jobs.values() if len(plans) > 1]


def pairs_of(job: int, plans: Plans, cost_model: CostModel) -> list[Pair]:
    """All pairs of a job's plans that can be forecast."""
    first = next(iter(plans.values()))[0]
    assert first.run is not None
    cluster, training = first.run.cluster, first.run.run.training
    length, model = first.run.run.sequence_length, first.run.run.model
    constants = load_step_constants()
    timer = Timer(
        "closed_form", "train", constants.launch_seconds[training.framework],
        constants.fixed_seconds.get(training.framework, 0.0),
    )  # fmt: skip
    works = {}
    for plan in plans:
        try:
            works[plan] = build_step_work(model, plan, training, length)
        except InputError:
            continue
    operations = dict.fromkeys(o for work in works.values() for o in work.operations())
    try:
        prices = price_step(list(operations), load_device(cluster.device), cluster, cost_model, training)
    except InputError:  # a group that fills the cluster unevenly
        return []
    steps = {
        p: Simulated(0, p, work, timer.time(work, prices.seconds), 1.0, 1.0) for p, work in works.items()
    }
    measured = {plan: float(np.median([c.measured_seconds for c in plans[plan]])) for plan in steps}
    return [
        Pair(
            first.source, job, (one, two), steps[two].time.step_seconds - steps[one].time.step_seconds,
            *difference_interval(steps[one], steps[two], prices, constants.interval_widening),
            measured[two] - measured[one],
        )
        for one, two in combinations(steps, 2)
    ]  # fmt: skip


def show(name: str, pairs: Sequence[Pair]) -> None:
    """Coverage over pairs and over jobs, and how many sure pairs were measured in their order."""
    holds: defaultdict[int, list[bool]] = defaultdict(list)
    for pair in pairs:
        holds[pair.job].append(pair.low <= pair.measured <= pair.high)
    sure = [pair for pair in pairs if pair.low > 0 or pair.high < 0]
    right = np.mean([(pair.forecast > 0) == (pair.measured > 0) for pair in sure])
    covered = np.mean([one for job in holds.values() for one in job])
    by_job = np.mean([np.mean(job) for job in holds.values()])
    print(
        f"{name}: {len(pairs)} pairs of {len(holds)} jobs; in the 90 % interval {100 * covered:.1f} % "
        f"(mean over jobs {100 * by_job:.1f} %); {len(sure)} sure, {100 * right:.1f} % of them in order"
    )


if __name__ == "__main__":
    main()
