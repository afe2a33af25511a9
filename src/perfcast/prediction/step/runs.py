"""How often a rank of a stage runs each operation of a step, and what that says of the step's interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from perfcast.core.forecast.plan import RankTime
from perfcast.core.operation import Operation
from perfcast.core.work import Calls, LayerRun, StepWork, Stream
from perfcast.cost.interval import STEP_ERROR, StepError, join_intervals
from perfcast.cost.model import Estimates
from perfcast.cost.prices import Prices

#: Cause under which the exposed time of a stream is counted.
CAUSE_OF_STREAM = {
    Stream.TENSOR: "tensor",
    Stream.CONTEXT: "context",
    Stream.EXPERT: "expert",
    Stream.DATA: "data",
    Stream.PIPELINE: "pipeline",
    Stream.COPY: "offload",
}

Runs = Mapping[tuple[Operation, Stream], float]


def count_runs(work: StepWork, stage: int) -> Runs:
    """Runs of each operation on each stream in a step of a rank of ``stage``; no sends of stages."""
    runs: dict[tuple[Operation, Stream], float] = defaultdict(float)

    def add(calls: Calls, times: float) -> None:
        for call in calls:
            runs[call.operation, call.stream] += times * call.num_runs

    for row, micro_batches in _rows(work, stage):
        gathers = micro_batches if work.gathers_each_micro_batch else 1
        reductions = micro_batches if work.reduces_gradients_each_micro_batch else 1
        for run in row:
            layer = work.layers[run.layer]
            add(layer.forward, run.count * micro_batches)
            add(layer.backward, run.count * micro_batches)
            add(layer.gather, run.count * gathers)
            add(layer.gather_again, run.count * gathers)
            add(layer.gradient_reduction, run.count * reductions)
    add(work.stages[stage].optimizer, 1)
    return runs


def _rows(work: StepWork, stage: int) -> list[tuple[tuple[LayerRun, ...], float]]:
    """Chunks of layers that a rank of the stage runs, each with its micro-batches."""
    count = work.plan.num_micro_batches
    own = work.stages[stage].chunks
    if work.plan.schedule != "dualpipe" or len(work.stages) == 1:
        return [(row, count) for row in own]
    mirrored = work.stages[len(work.stages) - 1 - stage].chunks
    return [(row, count / 2) for row in (*own, *mirrored)]


def seconds_by_provenance(runs: Runs, prices: Prices) -> dict[str, float]:
    """Seconds of compute by what its prices rest on, most first."""
    totals: dict[str, float] = defaultdict(float)
    for (operation, stream), count in runs.items():
        if stream is Stream.COMPUTE and prices.seconds[operation]:
            totals[prices.provenance[operation]] += count * prices.seconds[operation]
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def relative_interval(
    runs: Runs,
    prices: Prices,
    busiest: RankTime,
    widening: float,
    step_error: StepError | float = STEP_ERROR,
) -> tuple[float, float]:
    """Low and high of a step over its estimate, from the intervals of what the busiest rank runs.

    A collective counts by the part of it that is exposed: what lies behind compute may err without being
    seen.
    """
    weights = exposed_shares(runs, prices, busiest)
    rows = [(key, count * weights.get(key[1], 1.0)) for key, count in runs.items()]
    operations = [operation for (operation, _), _ in rows]
    estimates = Estimates(
        np.array([prices.seconds[o] for o in operations]),
        np.array([prices.seconds_low[o] for o in operations]),
        np.array([prices.seconds_high[o] for o in operations]),
        ("",) * len(rows),
        tuple(prices.provenance[o] for o in operations),
        prices.errs_as_one,
    )
    counts = np.array([count for _, count in rows])
    seconds = float(estimates.seconds @ counts)
    if not seconds:
        return 1.0, 1.0
    kinds = [f"{o.kind.value} {stream.value}" for (o, stream), _ in rows]
    low, high = join_intervals(estimates, counts, kinds, step_error)
    return 1 / (1 + widening * (seconds / low - 1)), 1 + widening * (high / seconds - 1)


def exposed_shares(runs: Runs, prices: Prices, busiest: RankTime) -> dict[Stream, float]:
    """Exposed over all seconds of each stream of collectives."""
    totals: dict[Stream, float] = defaultdict(float)
    for (operation, stream), count in runs.items():
        if stream in CAUSE_OF_STREAM:
            totals[stream] += count * prices.seconds[operation]
    return {
        stream: min(busiest.seconds_by_cause.get(CAUSE_OF_STREAM[stream], 0.0) / total, 1.0) if total else 0.0
        for stream, total in totals.items()
    }
