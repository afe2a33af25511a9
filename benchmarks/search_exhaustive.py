"""The plan that the search finds against every plan of its space, simulated event by event.

Run by hand: ``python benchmarks/search_exhaustive.py [--only TEXT]``. A case is a model, a cluster and a
space of at most 300 plans. Every plan of the space is weighed by itself (``estimate_footprint``) and, where
it fits, forecast by itself through ``predict_plan``: none of the arrays of the search take part. Beside the
fastest of them stands the winner of ``search_plans`` over the same space with its defaults. Columns:

    plans, fit           of the space, and those that fit and lie evenly in the cluster
    valid, events        that the search leaves to be ranked, and that it simulates itself
    fastest s            the step of the fastest plan of all
    winner               by how much the search's winner is slower, simulated by this check
    closed               place of the fastest plan in the order of the closed form, from 1
    error                largest error of the closed form among the twenty plans that it ranks first

Below, for each schedule: plans, and by how much of the formula events were faster at most, over all plans
(``searches/ranking/shortlist.SHORTFALL`` must cover it).

Exit code 1 where the winner is slower by more than 1e-9 in more than 5 % of the cases, slower by more than
2 % in any, or the search ranks a plan that does not fit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.operation import Operation
from perfcast.core.plan import ORDERS, RECOMPUTE, SCHEDULES, Plan
from perfcast.core.plans.text import STAGE_WORDS
from perfcast.core.training import Training
from perfcast.cost.model import CostModel, Estimates
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.evaluation.evaluate import Evaluation
from perfcast.searches.ranking.shortlist import SHORTFALL
from perfcast.searches.request import SearchRequest
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans

MOST_PLANS = 300
LEAST_SAME, MOST_SLOWER, SAME = 0.95, 0.02, 1e-9
NUM_FIRST = 20


def small(**varied: Any) -> Space:
    """A space of degrees, micro-batches and what is ``varied``; one choice of everything else."""
    choices: dict[str, Any] = {
        "zero_stages": (1,), "recomputes": ("none",), "schedules": ("1f1b", "interleaved"),
        "stage_splits": ("even",),
        "offloads": ("none",), "orders": ORDERS[:1], "overlaps_gradients": (1,),
        "largest_context_parallel": 1, "largest_virtual_stages": 2, "largest_micro_batch": 4,
    }  # fmt: skip
    return Space(**(choices | varied))


@dataclass(frozen=True)
class Case:
    """One search.

    Attributes:
        num_layers: In place of the model's.
        every: Of all plans, where that is more than the search's defaults try of ``space``.
    """

    model: str
    cluster: str
    global_batch_size: int
    sequence_length: int
    space: Space
    framework: str = "megatron"
    num_layers: int | None = None
    every: Space | None = None

    def __str__(self) -> str:
        return f"{self.model} {self.cluster} {self.framework}"

    @property
    def sizes(self) -> Transformer:
        """Of the model."""
        sizes = read_model(self.model).sizes
        return sizes if self.num_layers is None else replace(sizes, num_layers=self.num_layers)


_TWICE = ("none", "full")
_ZERO = (0, 1, 2, 3)
_SOME = small(recomputes=_TWICE, largest_virtual_stages=1, fixed={"tp": 8, "sp": 1})
_FEW = small(recomputes=_TWICE, fixed={"tp": 2, "sp": 1, "vp": 1})
_PIPES: dict[str, Any] = {"schedules": SCHEDULES, "largest_virtual_stages": 8}
CASES = (
    Case("gpt3-2.7b", "dgx-h100:8", 64, 2048, small(zero_stages=(0, 1), recomputes=RECOMPUTE[:2])),
    Case("gpt3-13b", "dgx-a100:16", 64, 2048, small(recomputes=_TWICE)),
    Case("gpt3-175b", "dgx-a100:64", 64, 2048, small(recomputes=("selective",), largest_micro_batch=2)),
    Case("gpt2-xl", "dgx-a100:8", 64, 1024, small(zero_stages=_ZERO, largest_micro_batch=8)),
    Case("llama3-8b", "dgx-h100:8", 32, 8192, small(zero_stages=_ZERO, fixed={"reshard": 1})),
    Case("llama3-8b", "dgx-h100:16", 128, 8192, small(zero_stages=_ZERO[1:]), "fsdp"),
    Case("llama3-70b", "dgx-h100:64", 128, 8192, small(recomputes=("selective",))),
    Case("llama3-70b", "dgx-h100:64", 128, 8192, small(fixed={"tp": 8}, largest_virtual_stages=8)),
    Case("llama3-70b", "gb200-nvl72:72", 144, 8192, small()),
    Case("llama3-8b", "gb200-nvl72:8", 64, 8192, small(recomputes=RECOMPUTE)),
    Case("llama3-8b", "mi300x:16", 64, 8192, small(recomputes=RECOMPUTE[:2])),
    Case("llama3-70b", "mi300x:64", 128, 4096, small(orders=ORDERS[:3], largest_virtual_stages=1)),
    Case(
        "llama3-8b", "dgx-h100:32", 8, 65536,
        small(largest_context_parallel=16, context_communications=("ring", "ulysses"), largest_micro_batch=1),
    ),
    Case("llama3.2-1b", "dgx-h100:8", 64, 4096, small(zero_stages=_ZERO[:3], overlaps_gradients=(1, 0))),
    Case("llama2-13b", "dgx-a100:32", 256, 4096, small(schedules=("1f1b", "interleaved", "zero_bubble"))),
    Case("gpt3-175b", "dgx-h100:64", 128, 2048, small(schedules=SCHEDULES, fixed={"sp": 1})),
    Case("gpt3-13b", "dgx-h100:32", 64, 2048, small(), "nanotron"),
    Case("gpt3-6.7b", "dgx-a100:16", 64, 2048, small(zero_stages=(0, 1)), "deepspeed"),
    Case("llama3.1-405b", "mi300x:128", 128, 8192, small(recomputes=_TWICE, fixed={"tp": 8})),
    Case("mixtral-8x7b", "dgx-h100:32", 64, 4096, small(fixed={"sp": 1, "mbs": 1})),
    Case("mixtral-8x7b", "mi300x:32", 64, 4096, small(fixed={"mbs": 2}, schedules=("1f1b",))),
    Case("mixtral-8x22b", "dgx-h100:64", 128, 4096, small(fixed={"sp": 1, "mbs": 1, "etp": 1})),
    Case("deepseek-v2", "dgx-h100:32", 128, 4096, small(fixed={"mbs": 1, "etp": 1}), num_layers=8),
    Case("deepseek-v3", "gb200-nvl72:72", 144, 4096, small(fixed={"mbs": 1, "etp": 1}), num_layers=6),
    # Layers computed again one by one, where the search tries all and the fewest that fit.
    Case("llama3-70b", "dgx-h100:64", 128, 8192, _SOME, every=replace(_SOME, recompute_layers=range(20))),
    Case("llama3-8b", "dgx-h100:8", 32, 8192, _FEW, every=replace(_FEW, recompute_layers=range(32))),
    # Layers dealt out unevenly.
    Case("llama3-8b", "dgx-h100:16", 64, 8192, small(stage_splits=STAGE_WORDS, fixed={"sp": 1})),
    Case("deepseek-v2", "mi300x:32", 128, 4096, small(stage_splits=STAGE_WORDS, fixed={"mbs": 1, "etp": 1})),
    # Few micro-batches a stage, chunks and schedules that formulas approximate, hosts that hold devices up.
    Case("gpt2-xl", "dgx-h100:16", 32, 1024, small(**_PIPES, fixed={"sp": 0})),
    Case("llama3-70b", "mi300x:64", 32, 4096, small(**_PIPES, fixed={"pp": 8})),
    Case("mixtral-8x7b", "mi300x:32", 32, 4096, small(**_PIPES, fixed={"pp": 4, "mbs": 1, "etp": 1})),
    Case("gpt3-13b", "dgx-h100:64", 32, 2048, small(**_PIPES, fixed={"pp": 8}), "nanotron"),
    Case("llama2-7b", "hgx-h100-ethernet:16", 32, 4096, small(orders=ORDERS[:3])),
    Case("gpt3-6.7b", "dgx-a100:32", 32, 2048, small(**_PIPES, fixed={"pp": 4}), "deepspeed"),
)  # fmt: skip


@dataclass(frozen=True)
class Remembering:
    """A cost model that prices an operation once; its prices do not depend on what else is asked.

    Attributes:
        known: Rows of estimates, by operation.
    """

    inner: CostModel
    known: dict[Operation, tuple[float, float, float, str, str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That of the model inside."""
        return self.inner.name

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """As the model inside does."""
        new = [one for one in operations if one not in self.known]
        if new:
            found = self.inner.estimate(new, device)
            columns = (
                found.seconds.tolist(), found.seconds_low.tolist(), found.seconds_high.tolist(),
                found.bound_by, found.provenance,
            )  # fmt: skip
            self.known.update(zip(new, zip(*columns, strict=True), strict=True))
        rows = [self.known[one] for one in operations]
        seconds, low, high, bound_by, provenance = zip(*rows, strict=True)
        return Estimates(np.array(seconds), np.array(low), np.array(high), bound_by, provenance)


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    Attributes:
        num_fitting: Plans that this check finds to fit and to lie in the cluster.
        num_wrong: Plans that the search ranks although they do not.
        slower: The winner's step over the fastest, less one.
        place: Of the fastest plan by the closed form, from 1; None where the search left it out.
        error: Largest of the closed form among the plans that it ranks first, relative to events.
        shortfalls: Of each plan's schedule: by how much of the formula events are faster.
    """

    num_plans: int
    num_fitting: int
    num_valid: int
    num_wrong: int
    num_simulated: int
    fastest_seconds: float
    fastest: Plan
    winner: Plan
    slower: float
    place: int | None
    error: float
    shortfalls: Sequence[tuple[str, float]]


def check(case: Case) -> Outcome:
    """Every plan by itself, and the search."""
    model, cluster, training = case.sizes, load_cluster(case.cluster), Training(framework=case.framework)
    cost_model = Remembering(resolve_cost_model(None, resolve_device(cluster.device)))
    request = SearchRequest(
        model=model,
        clusters=(case.cluster,),
        global_batch_size=case.global_batch_size,
        sequence_length=case.sequence_length,
        training=training,
        space=case.space,
        any_framework=True,
        cost_models={cluster.device: cost_model},
    )
    found = search_plans(request, cluster)
    table = enumerate_plans(
        model, cluster.num_devices, case.global_batch_size, case.sequence_length, case.every or case.space
    )
    ranked = closed_form_order(found.evaluation)
    plans = dict.fromkeys([*(table.plan(at) for at in range(len(table))), *ranked])
    seconds = simulate_fitting(case, model, cluster, training, cost_model, list(plans))
    fastest = min(seconds, key=lambda plan: seconds[plan])
    best, winner = seconds[fastest], found.winner.plan
    shortfalls = [(plan.schedule, 1 - seconds[plan] / ranked[plan]) for plan in ranked if plan in seconds]
    errors = [abs(ranked[plan] / seconds[plan] - 1) for plan in list(ranked)[:NUM_FIRST] if plan in seconds]
    same = (at for at, plan in enumerate(ranked, 1) if seconds.get(plan, np.inf) <= best * (1 + SAME))
    return Outcome(
        len(plans), len(seconds), found.num_valid, len(ranked.keys() - seconds.keys()), found.num_simulated,
        best, fastest, winner, seconds.get(winner, np.inf) / best - 1, next(same, None), max(errors),
        shortfalls,
    )  # fmt: skip


def simulate_fitting(
    case: Case,
    model: Transformer,
    cluster: Cluster,
    training: Training,
    cost_model: CostModel,
    plans: Sequence[Plan],
) -> dict[Plan, float]:
    """Step seconds of the plans that fit and whose groups lie evenly in the cluster."""
    device, length = resolve_device(cluster.device), case.sequence_length
    seconds: dict[Plan, float] = {}
    for plan in plans:
        held = estimate_footprint(model, plan, training, length, device=device)
        if held.device_bytes > device.memory_bytes:
            continue
        try:
            forecast = predict_plan(
                model, cluster, plan, training=training, sequence_length=length, cost_model=cost_model,
                recommendations=False, memory=False,
            )  # fmt: skip
        except PlanError:
            continue  # a group that fills a level of the cluster unevenly
        seconds[plan] = forecast.step_seconds
    return seconds


def closed_form_order(evaluation: Evaluation) -> dict[Plan, float]:
    """Plans and their steps by formula, the fastest first."""
    order = np.argsort(evaluation.step_seconds, kind="stable").tolist()
    return {evaluation.plans.plan(at): float(evaluation.step_seconds[at]) for at in order}


def main() -> int:
    """All cases."""
    options = parse_options()
    cases = [case for case in CASES if options.only in str(case)]
    print(
        f"{'model, cluster, framework':40} {'plans':>5} {'fit':>5} {'valid':>5} {'events':>6} "
        f"{'fastest s':>10} {'winner':>9} {'closed':>6} {'error':>7} {'CPU s':>6}"
    )
    outcomes = []
    for case in cases:
        began = time.process_time()
        one = check(case)
        outcomes.append(one)
        print(
            f"{case!s:40} {one.num_plans:5} {one.num_fitting:5} {one.num_valid:5} {one.num_simulated:6} "
            f"{one.fastest_seconds:10.4f} {100 * one.slower:+8.3f}% {one.place or 'none':>6} "
            f"{100 * one.error:6.2f}% {time.process_time() - began:6.1f}",
            flush=True,
        )
        if one.slower > SAME:
            print(f"    fastest {spell(one.fastest)}\n    winner  {spell(one.winner)}")
    return summarise(cases, outcomes)


def spell(plan: Plan) -> str:
    """What of a plan is not the default."""
    default = Plan()
    names = [part.name for part in fields(plan) if getattr(plan, part.name) != getattr(default, part.name)]
    return " ".join(f"{name}={getattr(plan, name)}" for name in names)


def summarise(cases: Sequence[Case], outcomes: Sequence[Outcome]) -> int:
    """The targets, and whether they are met."""
    same = sum(one.slower <= SAME for one in outcomes)
    worst = max(one.slower for one in outcomes)
    among = sum(one.place is not None and one.place <= NUM_FIRST for one in outcomes)
    count, largest = len(outcomes), max(one.num_plans for one in outcomes)
    print(
        f"{sum(one.num_fitting for one in outcomes)} plans simulated in {count} cases: the same optimum in "
        f"{same} (at least {100 * LEAST_SAME:g} %), the worst winner {100 * worst:.3f} % slower (at most "
        f"{100 * MOST_SLOWER:g} %); the fastest is among the closed form's first {NUM_FIRST} in {among}"
    )
    shortfalls: dict[str, list[float]] = {name: [] for name in SCHEDULES}
    for name, value in (pair for one in outcomes for pair in one.shortfalls):
        shortfalls[name].append(value)
    for name, values in shortfalls.items():
        most = 100 * max(values, default=0.0)
        print(f"{name:12} {len(values):5} plans, events faster by at most {most:.2f} %")
    failures = [
        f"{case}: the search ranks {one.num_wrong} plans that do not fit or lie evenly"
        for case, one in zip(cases, outcomes, strict=True)
        if one.num_wrong
    ]
    failures += [
        f"{name}: events faster than the formula by more than the shortlist allows"
        for name, values in shortfalls.items()
        if max(values, default=0.0) > SHORTFALL[name]
    ]
    if largest > MOST_PLANS:
        failures.append(f"a space of {largest} plans, more than {MOST_PLANS}")
    if same < LEAST_SAME * count or worst > MOST_SLOWER:
        failures.append("the search missed its targets")
    for failure in failures:
        print(f"FAILED {failure}")
    return int(bool(failures))


def parse_options() -> argparse.Namespace:
    """Which cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose line has this text")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
