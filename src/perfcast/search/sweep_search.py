"""The best plans of each cell of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.catalog.clusters import load_cluster
from perfcast.core.plan_table import FLAGS, WORDS
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.plan_memory import read_model, to_transformer
from perfcast.search.space import KEYS, Space, enumerate_plans
from perfcast.search.sweep import Cell, Row, SearchCell, SweepJob
from perfcast.units import format_bytes

if TYPE_CHECKING:
    from perfcast.search.evaluate import Evaluation

#: What is known of a plan: its own dimensions by the keys of ``--plan``, then its forecast.
PLAN_COLUMNS: Mapping[str, type] = {
    **{key: str if name in WORDS else bool if name in FLAGS else int for key, name in KEYS.items()},
    "step_seconds": float,
    "tokens_per_second": float,
    "mfu": float,
    "peak_memory_bytes": float,
    "device_memory_bytes": float,
    "num_plans": int,
    "num_fitting": int,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearch:
    """What all cells of a sweep share.

    Attributes:
        dtype, optimizer, framework: See ``Training``.
        cost_model: 'learned' or 'roofline'.
        fixed: Dimensions that the user has decided, by ``KEYS``.
        num_best: Plans that are kept of each cell.
        max_memory_fraction: Of the device's memory that a plan may take.
    """

    dtype: str = "bf16"
    optimizer: str = "adamw"
    framework: str = "megatron"
    cost_model: str = "learned"
    fixed: Mapping[str, object] = field(default_factory=dict)
    num_best: int = 1
    max_memory_fraction: float = 1.0


def plan_sweep(search: PlanSearch) -> SweepJob:
    """The job of a sweep whose cells' fastest plans are asked for."""
    return SweepJob(open_plan_search, PLAN_COLUMNS, asdict(search))


def open_plan_search(settings: Mapping[str, Any]) -> SearchCell:
    """The search of one cell; models and cost models are loaded once for all cells.

    Args:
        settings: The fields of ``PlanSearch``.
    """
    from perfcast.search.evaluate import evaluate_plans

    search = PlanSearch(**settings)
    training = Training(dtype=search.dtype, optimizer=search.optimizer, framework=search.framework)
    space = Space(fixed=search.fixed)

    @cache
    def sizes_of(model: str) -> Transformer:
        config, architecture, _ = read_model(model)
        return to_transformer(config, architecture, model)

    @cache
    def cost_of(device: str) -> CostModel:
        return resolve_cost_model(search.cost_model, resolve_device(device))

    cluster_of = cache(load_cluster)

    def search_cell(cell: Cell) -> list[Row]:
        model, cluster = sizes_of(cell.model), cluster_of(cell.cluster)
        device = resolve_device(cluster.device)
        plans = enumerate_plans(
            model, cluster.num_devices, cell.global_batch_size, cell.sequence_length, space
        )
        evaluation = evaluate_plans(
            model, cluster, plans, training, cell.sequence_length, device=device,
            cost_model=cost_of(cluster.device), max_memory_fraction=search.max_memory_fraction,
        )  # fmt: skip
        return best_rows(evaluation, search.num_best)

    return search_cell


def best_rows(evaluation: Evaluation, num_best: int) -> list[Row]:
    """The fastest plans that fit; equal times stay in the order of the space.

    Raises:
        PlanError: None fits; says what the smallest would take.
    """
    fitting = np.flatnonzero(evaluation.fits)
    if not len(fitting):
        least = format_bytes(float(evaluation.device_bytes.min()))
        raise PlanError(f"none of {len(evaluation)} plans fits; the smallest takes {least} per device")
    best = fitting[np.argsort(evaluation.step_seconds[fitting], kind="stable")][:num_best]
    return [
        {
            **{key: getattr(evaluation.plans.plan(at), name) for key, name in KEYS.items()},
            "step_seconds": float(evaluation.step_seconds[at]),
            "tokens_per_second": float(evaluation.tokens_per_second[at]),
            "mfu": float(evaluation.mfu[at]),
            "peak_memory_bytes": float(evaluation.peak_bytes[at]),
            "device_memory_bytes": float(evaluation.device_bytes[at]),
            "num_plans": len(evaluation),
            "num_fitting": len(fitting),
        }
        for at in best.tolist()
    ]
