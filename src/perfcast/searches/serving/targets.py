"""The clusters of a search with all names resolved, and the precisions that each can serve in."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.precision import Precision, check_device, on_device
from perfcast.core.program import StepProgram
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.program import choose_serving_program
from perfcast.searches.serving.request import DeploymentSearchRequest


@dataclass(frozen=True)
class Precise:
    """A precision as an option names it.

    Attributes:
        dtype, kv_cache_dtype: As asked for; 'auto' is resolved.
    """

    precision: Precision
    dtype: str
    kv_cache_dtype: str | None


@dataclass(frozen=True)
class Target:
    """A cluster that may serve.

    Attributes:
        asked: As the user named it.
        precisions: That its devices can do.
        dollars_per_device_hour: None without a price.
        defaults: What was chosen, in words.
    """

    asked: str
    cluster: Cluster
    device: Device
    model: NamedModel
    program: StepProgram
    cost_model: CostModel
    asked_cost_model: str | CostModel | None
    precisions: tuple[Precise, ...]
    dollars_per_device_hour: float | None
    defaults: tuple[str, ...]


def resolve_targets(request: DeploymentSearchRequest) -> tuple[tuple[Target, ...], dict[str, str]]:
    """Every cluster that can serve, and of the others why not.

    Raises:
        InputError: Unknown names, no price of a cluster; none can serve.
    """
    model = read_model(request.model)
    if not model.has_sizes or not model.sizes.is_causal:
        raise PlanError(f"{model.name}: serving is of models that generate, known by their sizes")
    found, failed = [], {}
    for name in dict.fromkeys(request.clusters):
        cluster = load_cluster(name)
        price = None if request.prices is None else request.prices.of_cluster(cluster, name)
        try:
            found.append(_resolve(request, model, name, cluster, price))
        except PlanError as error:
            failed[name] = str(error)
    if not found:
        raise PlanError("; ".join(failed.values()))
    return tuple(found), failed


def _resolve(
    request: DeploymentSearchRequest, model: NamedModel, name: str, cluster: Cluster, price: float | None
) -> Target:
    device = resolve_device(cluster.device)
    if device.is_cpu:
        raise PlanError(f"{device.name}: serving is forecast on accelerators")
    program = choose_serving_program(model, request.engine.framework)
    asked = request.cost_models.get(cluster.device)
    precisions: dict[Precision, Precise] = {}
    notes: dict[str, None] = {}
    refused = ""
    for dtype in request.dtypes:
        for cached in request.kv_cache_dtypes:
            try:
                chosen = choose_defaults(model, "decode", device, dtype=dtype, sequence_length=1)
                precision = on_device(serving_precision(chosen.dtype, program.framework, cached), device)
                check_device(device, precision.format)
            except (PlanError, InputError) as error:
                refused = str(error)
                continue
            precisions.setdefault(precision, Precise(precision, chosen.dtype, cached))
            notes |= dict.fromkeys(chosen.notes)
    if not precisions:
        raise PlanError(refused)
    return Target(
        name, cluster, device, model, program, resolve_cost_model(asked, device, program.framework), asked,
        tuple(precisions.values()), price, tuple(notes),
    )  # fmt: skip
