"""A hand-made search: four plans on eight made-up devices, times in whole milliseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from made_up_programs import KERNELS
from perfcast.core.forecast.plan import CAUSES, RankTime, StepTime
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.searches.evaluation.evaluate import Evaluation
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.report.clusters import ClusterComparison, ClusterOutcome
from perfcast.searches.report.compose import SearchReport
from perfcast.searches.report.explain import explain_difference, explain_plan
from perfcast.searches.request import SearchRequest
from perfcast.searches.result import RankedPlan, SearchResult, Separation
from perfcast.units import GIB, MILLI
from plan_forecasts import plan_forecast

PLANS = (
    Plan(data_parallel=4, tensor_parallel=2, num_micro_batches=4, sequence_parallel=True),
    Plan(
        data_parallel=2, tensor_parallel=2, pipeline_parallel=2, num_micro_batches=8, sequence_parallel=True
    ),
    Plan(data_parallel=8, zero_stage=3, num_micro_batches=2, reshard_after_forward=False),
    Plan(
        data_parallel=2, pipeline_parallel=4, virtual_stages_per_rank=2, schedule="interleaved",
        num_micro_batches=8, recompute="full",
    ),
)  # fmt: skip
MILLISECONDS = (10, 11, 13, 20)
GIBIBYTES = (70, 40, 60, 20)
#: The default objective.
STEP_TIME = next(iter(OBJECTIVES))
TRAINING = Training(framework="megatron")


def ranked_plan(place: int, **changes: Any) -> RankedPlan:
    """One of the plans: a tenth of its step is data communication; its interval is 20 % wide to each side."""
    step = MILLISECONDS[place] * MILLI
    plan = RankedPlan(
        plan=PLANS[place], method="simulated", step_seconds=step, step_seconds_low=0.8 * step,
        step_seconds_high=1.2 * step, seconds_by_cause={"compute": 0.9 * step, "data": 0.1 * step},
        num_tokens=16 * 128, num_devices=8, mfu=0.4 * 10 * MILLI / step,
        peak_bytes=GIBIBYTES[place] * GIB - GIB, device_bytes=GIBIBYTES[place] * GIB,
        capacity_bytes=80 * GIB, device_watts=700.0, dollars_per_device_hour=None, value=step,
    )  # fmt: skip
    return replace(plan, **changes)


def search_result(**changes: Any) -> SearchResult:
    """All four plans ranked; the second cannot be told from the first."""
    step = np.array(MILLISECONDS) * MILLI
    causes = {cause: np.zeros(4) for cause in CAUSES} | {"compute": 0.9 * step, "data": 0.1 * step}
    evaluation = Evaluation(
        to_table(PLANS), step, causes, np.array(GIBIBYTES) * GIB - GIB, np.array(GIBIBYTES) * GIB,
        np.ones(4, dtype=np.bool_), 2048 / step, 0.4 * 10 * MILLI / step, 2048, 17,
    )  # fmt: skip
    result = SearchResult(
        model="gpt", cluster="made-up", device="made-up", num_devices=8, training=TRAINING,
        program=KERNELS,
        sequence_length=128, global_batch_size=16, cost_model="roofline", objective=STEP_TIME,
        ranked=tuple(ranked_plan(place) for place in range(4)),
        front=tuple(ranked_plan(place) for place in (0, 1, 3)),
        separations=(
            Separation(
                first=0, second=1, difference_seconds=MILLI, difference_seconds_low=-2 * MILLI,
                difference_seconds_high=4 * MILLI, measurements=("attention: ± 2 ms", "matmul: ± 1 ms"),
            ),
        ),
        excluded={"at most 100 % of 80.0 GiB a device": 5}, num_plans=9, num_valid=4, num_simulated=4,
        num_operations=17, seconds_by_part={"enumerate": 0.5, "simulate": 1.0}, evaluation=evaluation,
        assumptions=("all plans by formula",),
    )  # fmt: skip
    return replace(result, **changes)


def findings(**changes: Any) -> SearchReport:
    """The result on one cluster, and one named plan beside the winner."""
    result = search_result()
    first = explain_plan(plan_forecast(plan=PLANS[0]), "the winner")
    slower = StepTime(0.012, (RankTime(0, 0, 8, {"compute": 0.009, "bubble": 0.003}),))
    second = explain_plan(plan_forecast(plan=PLANS[1], time=slower), "pp=2")
    found = SearchReport(
        SearchRequest(model="gpt", clusters=("made-up:8",), global_batch_size=16),
        ClusterComparison(STEP_TIME, (ClusterOutcome("made-up:8", result),), (0,)),
        (first, second),
        (explain_difference(first, second),),
    )
    return replace(found, **changes)


def compared_findings() -> SearchReport:
    """Two clusters with a price, and one that has no plan."""
    other = replace(search_result(), cluster="dear", ranked=(ranked_plan(0, dollars_per_device_hour=4.0),))
    cheap = replace(search_result(), ranked=(ranked_plan(1, dollars_per_device_hour=2.0),), separations=())
    outcomes = (
        ClusterOutcome("made-up:8", cheap),
        ClusterOutcome("small:8", None, "no plan is left"),
        ClusterOutcome("dear:8", other),
    )
    return findings(comparison=ClusterComparison(STEP_TIME, outcomes, (2, 0)))
