"""The best plans of each cell of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plans.table import FLAGS, WORDS
from perfcast.core.plans.text import PlanValue
from perfcast.core.training import Optimizer, Training, TrainingDType, TrainingFramework
from perfcast.core.tuning.text import read_tuning
from perfcast.cost.model import CostModel
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.searches.prices_file import PriceList
from perfcast.searches.request import SearchRequest
from perfcast.searches.result import RankedPlan, SearchResult
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fixed import KEYS
from perfcast.searches.sweep.cells import Cell, Row, SearchCell, SweepJob

#: What is known of a plan: its own dimensions by the keys of ``--plan``, then its figures and the search's.
PLAN_COLUMNS: Mapping[str, type] = {
    **{
        key: str if name in WORDS or key == "stages" else bool if name in FLAGS else int
        for key, name in KEYS.items()
    },
    "method": str,
    "value": float,
    "step_seconds": float,
    "step_seconds_low": float,
    "step_seconds_high": float,
    "tokens_per_second": float,
    "mfu": float,
    "dollars_per_token": float,
    "joules_per_token": float,
    "peak_memory_bytes": int,
    "device_memory_bytes": int,
    "num_plans": int,
    "num_valid": int,
    "num_simulated": int,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearch:
    """What all cells of a sweep share.

    Attributes:
        dtype, optimizer, framework, compiles: See ``Training``.
        cost_model: A name of ``resolve_cost_model``; None for each device's default.
        tuning: What trains, as options write it; '': everything.
        fixed: Dimensions that the user has decided, by ``KEYS``.
        any_framework: Whether plans are offered that the framework cannot run.
        num_best: Plans that are kept of each cell.
        num_simulated: Plans of each cell that are ranked anew event by event; 0: by the closed form alone.
        objective, tokens, deadline_seconds, max_memory_fraction, min_mfu: See ``search_plans``.
        prices: Dollars of a device and hour, by the name of cluster or device (see ``prices_file``).
    """

    dtype: TrainingDType = "bf16"
    optimizer: Optimizer = "adamw"
    framework: TrainingFramework = "megatron"
    compiles: bool = False
    tuning: str = ""
    cost_model: str | None = None
    fixed: Mapping[str, PlanValue] = field(default_factory=dict)
    any_framework: bool = False
    num_best: int = 1
    num_simulated: int = 0
    objective: str = "time"
    tokens: float | None = None
    deadline_seconds: float | None = None
    prices: Mapping[str, float] | None = None
    max_memory_fraction: float = 1.0
    min_mfu: float | None = None


def plan_sweep(search: PlanSearch) -> SweepJob:
    """The job of a sweep whose cells' best plans are asked for."""
    return SweepJob(open_plan_search, PLAN_COLUMNS, asdict(search))


def open_plan_search(settings: Mapping[str, Any]) -> SearchCell:
    """The search of one cell; models, clusters and cost models are loaded once for all cells.

    Args:
        settings: The fields of ``PlanSearch``.
    """
    search = PlanSearch(**settings)
    training = Training(
        dtype=search.dtype,
        optimizer=search.optimizer,
        framework=search.framework,
        compiles=search.compiles,
        tuning=read_tuning(search.tuning),
    )
    prices = None if search.prices is None else PriceList("the sweep's list", search.prices)
    cluster_of, model_of = cache(load_cluster), cache(read_model)

    @cache
    def cost_of(device: str) -> CostModel:
        return resolve_cost_model(search.cost_model, resolve_device(device))

    def search_cell(cell: Cell) -> list[Row]:
        cluster = cluster_of(cell.cluster)
        request = SearchRequest(
            model=model_of(cell.model),
            clusters=(cell.cluster,),
            global_batch_size=cell.global_batch_size,
            sequence_length=cell.sequence_length,
            training=training,
            cost_models={cluster.device: cost_of(cluster.device)},
            space=Space(fixed=search.fixed),
            any_framework=search.any_framework,
            objective=search.objective,
            tokens=search.tokens,
            deadline_seconds=search.deadline_seconds,
            prices=prices,
            max_memory_fraction=search.max_memory_fraction,
            min_mfu=search.min_mfu,
            top=search.num_best,
            num_simulated=search.num_simulated,
        )
        found = search_plans(request, cluster, asked=cell.cluster)
        return [_row(ranked, found) for ranked in found.ranked]

    return search_cell


def _row(ranked: RankedPlan, found: SearchResult) -> Row:
    return {
        **{key: getattr(ranked.plan, name) for key, name in KEYS.items()},
        "stages": "/".join(map(str, ranked.plan.stage_layers)),
        "method": ranked.method,
        "value": ranked.value,
        "step_seconds": ranked.step_seconds,
        "step_seconds_low": ranked.step_seconds_low,
        "step_seconds_high": ranked.step_seconds_high,
        "tokens_per_second": ranked.tokens_per_second,
        "mfu": ranked.mfu,
        "dollars_per_token": ranked.dollars_per_token,
        "joules_per_token": ranked.joules_per_token,
        "peak_memory_bytes": ranked.peak_bytes,
        "device_memory_bytes": ranked.device_bytes,
        "num_plans": found.num_plans,
        "num_valid": found.num_valid,
        "num_simulated": found.num_simulated,
    }
