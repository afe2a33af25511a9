"""A request as the command line that asks it: what a search or a sweep found, for the reader to ask again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfcast.core.plans.text import format_plan
from perfcast.core.tuning.text import format_tuning

if TYPE_CHECKING:
    from perfcast.cost.model import CostModel
    from perfcast.prediction.request.plan import PlanRequest

_USUAL_OPTIMIZER = "adamw"


def predict_command(request: PlanRequest, model: str, cluster: str) -> str:
    """The ``perfcast predict`` that answers a request with the same figures.

    Everything that defaults could decide otherwise is stated.

    Args:
        request: With the length of its sequences.
        model, cluster: As the command line names them.
    """
    words = ["perfcast", "predict", model, "--cluster", cluster, "--plan", format_plan(request.plan)]
    for option, value in _options(request):
        words += [option] if value is None else [option, value]
    return shlex.join(words)


def _options(request: PlanRequest) -> Iterator[tuple[str, str | None]]:
    if request.mode != "train":
        yield "--mode", request.mode
    yield "--batch-size", str(request.plan.global_batch_size)
    if request.sequence_length is not None:
        yield "--sequence-length", str(request.sequence_length)
    yield "--dtype", request.dtype if request.training is None else request.training.dtype
    if request.kv_cache_dtype is not None:
        yield "--kv-cache-dtype", request.kv_cache_dtype
    framework = request.framework if request.training is None else request.training.framework
    if framework is not None:
        yield "--framework", framework
    if request.compiles or (request.training is not None and request.training.compiles):
        yield "--compile", None
    if request.training is not None and request.training.optimizer != _USUAL_OPTIMIZER:
        yield "--optimizer", request.training.optimizer
    if request.training is not None and not request.training.tuning.is_full:
        option, _, items = format_tuning(request.training.tuning).partition(" ")
        yield option, items
    if request.cost_model is not None:
        yield "--cost-model", name_of_cost_model(request.cost_model)
    if request.method == "closed_form":
        yield "--closed-form", None


def name_of_cost_model(cost_model: str | CostModel) -> str:
    """As ``--cost-model`` takes it."""
    return cost_model if isinstance(cost_model, str) else cost_model.name
