"""Another searcher beside ours: which degrees it would choose, and what the best plan with them is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.searches.result import SearchResult

#: Data-, tensor- and pipeline-parallel degrees with the seconds that the other searcher gives them.
Scored = tuple[tuple[int, int, int], float]


@dataclass(frozen=True)
class Baseline:
    """Another searcher.

    Attributes:
        order: Of model, cluster, training, global batch and sequence length: its plans, best first.
    """

    name: str
    order: Callable[[Transformer, Cluster, Training, int, int], Sequence[Scored]]


@dataclass(frozen=True)
class BaselinePlan:
    """Degrees in the other searcher's order.

    Attributes:
        baseline_seconds: Of a step, by the other searcher.
        plan: Of all our valid plans with these degrees the fastest by formula; None where there is none.
        step_seconds: Of that plan, by formula.
    """

    data_parallel: int
    tensor_parallel: int
    pipeline_parallel: int
    baseline_seconds: float
    plan: Plan | None
    step_seconds: float | None

    @property
    def degrees(self) -> str:
        """'dp=4,tp=8,pp=2', as ``--fix`` takes them."""
        return f"dp={self.data_parallel},tp={self.tensor_parallel},pp={self.pipeline_parallel}"


@dataclass(frozen=True)
class BaselineRanking:
    """The first plans of another searcher.

    Attributes:
        num_plans: That it weighed.
        reason: Why no plan of ours has the degrees of its first; '' where one has.
    """

    name: str
    plans: tuple[BaselinePlan, ...]
    num_plans: int
    reason: str = ""


def rank_baseline(
    baseline: Baseline,
    result: SearchResult,
    model: Transformer,
    cluster: Cluster,
    explain_none: Callable[[tuple[int, int, int]], str],
    top: int,
) -> BaselineRanking:
    """The other searcher's order on one cluster, beside a finished search of it.

    Args:
        explain_none: Says why no plan of ours has some degrees.
        top: Plans that are kept.
    """
    scored = baseline.order(model, cluster, result.training, result.global_batch_size, result.sequence_length)
    plans = tuple(_find(result, degrees, seconds) for degrees, seconds in scored[:top])
    reason = "" if plans[0].plan is not None else explain_none(scored[0][0])
    return BaselineRanking(baseline.name, plans, len(scored), reason)


def _find(result: SearchResult, degrees: tuple[int, int, int], seconds: float) -> BaselinePlan:
    """The fastest valid plan with some degrees and no context parallelism."""
    plans, step = result.evaluation.plans, result.evaluation.step_seconds
    same = (
        (plans.data_parallel == degrees[0])
        & (plans.tensor_parallel == degrees[1])
        & (plans.pipeline_parallel == degrees[2])
    )
    places = np.flatnonzero(same)
    if not len(places):
        return BaselinePlan(*degrees, seconds, None, None)
    best = int(places[step[places].argmin()])
    return BaselinePlan(*degrees, seconds, plans.plan(best), float(step[best]))
