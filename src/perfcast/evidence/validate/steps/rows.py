"""Forecasts of whole-model steps: each model captured once, priced on every device by every predictor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Flags, Floats
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.hardware import Device
from perfcast.core.work import StepWork
from perfcast.cost.host.issue import NO_WAIT, HostMode, HostWait, host_of
from perfcast.cost.interval import join_intervals, step_error_of_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.learned.store import MODEL_NAMES, model_names_of
from perfcast.cost.learned.translate import translate
from perfcast.cost.model import CostModel, KnowsHost
from perfcast.cost.roofline import Roofline
from perfcast.errors import CalibrationError, InputError, PlanError
from perfcast.evidence.validate.kernels.pricers import NO_PREDICTOR, UNSUPPORTED, is_trained
from perfcast.evidence.validate.kernels.trained import find_trained
from perfcast.evidence.validate.row import Row, weakest_provenance
from perfcast.evidence.validate.steps.cases import PRINTED, UNSUPPORTED_PLAN, StepCase, StepKey
from perfcast.evidence.validate.steps.plans import (
    PlanRequest,
    build_plan_work,
    count_kernels,
    find_server,
    simulate_plan,
)
from perfcast.evidence.validate.steps.study_models import HOST_READS, capture_study_step
from perfcast.memory_use.allocator import driver_requests
from perfcast.published.neusight.distributed import forecast_distributed
from perfcast.published.registry import find_entry, load_cost_model

#: What was captured: a graph of one device, or the work of a plan.
Programs = Mapping[StepKey, Graph | StepWork]
#: Forecasts plans in its own way, from the model on one device.
_STUDY = "neusight"


@dataclass(frozen=True)
class StepForecast:
    """Seconds of one step; ``skipped`` tells why there are none."""

    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    forward: float | None = None
    backward: float | None = None
    provenance: str | None = None
    skipped: str | None = None


def capture_steps(
    cases: Sequence[StepCase], say: Callable[[str], None], predictors: Sequence[str] = ()
) -> dict[StepKey, Graph | StepWork]:
    """The graph of every different step, eager and, where it is asked for, fused; the work of every plan.

    In fp32 and with eager attention nothing of a graph depends on the device, so one serves for all. A step
    that cannot be captured is left out.
    """
    programs: dict[StepKey, Graph | StepWork] = {}
    failed: set[StepKey] = set()
    for case in cases:
        for key in () if case.skipped else _keys(case, predictors):
            if key in programs or key in failed:
                continue
            try:
                programs[key] = _capture(case, key, programs, say)
            except InputError as error:
                say(f"{case.model}: {error}")
                failed.add(key)
    return programs


def _keys(case: StepCase, predictors: Sequence[str]) -> list[StepKey]:
    """What forecasts of a case are made from; a fused graph after the eager one."""
    if case.plan_request is None:
        return [(case.request, False), case.key] if case.is_fused else [case.key]
    return [case.key, *([(case.request, False)] if _STUDY in predictors else [])]


def _capture(
    case: StepCase, key: StepKey, programs: Programs, say: Callable[[str], None]
) -> Graph | StepWork:
    if isinstance(key, PlanRequest):
        say(f"capturing {key.model}, {case.columns['variant']}, {case.columns['batch_size']} sequences")
        return build_plan_work(key)
    request, is_fused = key
    if is_fused:
        from perfcast.workload.fuse import fuse

        eager = programs.get((request, False))
        if not isinstance(eager, Graph):
            raise InputError("was not captured")
        return fuse(eager)
    say(f"capturing {request.model}, {request.mode}, {request.batch_size} × {request.sequence_length}")
    return capture_study_step(request)


def demand_of_steps(cases: Sequence[StepCase], programs: Programs) -> dict[str, set[str]]:
    """Which models of the learned forecaster the steps on each device ask for."""
    models = {key: _models_of(program) for key, program in programs.items()}
    demand: dict[str, set[str]] = {}
    for case in cases:
        if case.catalog_device and not case.skipped:
            demand.setdefault(case.catalog_device, set()).update(models.get(case.key, set()))
    return demand


def _models_of(program: Graph | StepWork) -> set[str]:
    operations = program.operations if isinstance(program, Graph) else tuple(count_kernels(program))
    tables = translate(operations).tables.values()
    return {str(name) for table in tables for name in set(model_names_of(table).tolist())}


def forecast_steps(
    cases: Sequence[StepCase],
    programs: Programs,
    predictors: Sequence[str],
    folder: Path | None = None,
    dies: frozenset[str] = frozenset(),
) -> list[Row]:
    """One row per step and predictor, and one for each prediction that the study printed beside it.

    Args:
        folder: Weights of the learned forecaster; the shipped ones by default.
        dies: Published predictors must not have learned from these.
    """
    rows = []
    for case in cases:
        rows += [
            _row(case, name, _forecast(case, programs, name, folder, dies))
            for name in predictors
            if is_for_steps(name)
        ]
        rows += [_row(case, name, _printed(case, name)) for name in case.printed]
    return rows


def is_for_steps(name: str) -> bool:
    """Whether a predictor prices graphs at all."""
    return name in ("learned", "roofline") or (":" not in name and bool(find_entry(name).cost_model))


def _forecast(
    case: StepCase, programs: Programs, name: str, folder: Path | None, dies: frozenset[str]
) -> StepForecast:
    if case.skipped:
        return StepForecast(skipped=case.skipped)
    program, device = programs.get(case.key), _device_of(case)
    if program is None:
        return StepForecast(skipped=UNSUPPORTED if case.plan_request is None else UNSUPPORTED_PLAN)
    cost_model = _cost_model(name, device, folder, dies)
    if cost_model is None:
        return StepForecast(skipped=NO_PREDICTOR)
    try:
        if isinstance(program, Graph):
            return price_step(program, cost_model, device, "compiled" if case.is_fused else "eager")
        if name == _STUDY:
            return _as_the_study_does(case, programs, cost_model, device)
        return _price_plan(case, program, cost_model, device)
    except PlanError:
        return StepForecast(skipped=UNSUPPORTED)
    except CalibrationError:
        if all(is_trained(model, folder) for model in MODEL_NAMES):
            raise  # a file is damaged, none is missing
        return StepForecast(skipped=NO_PREDICTOR)


def _price_plan(case: StepCase, work: StepWork, cost_model: CostModel, device: Device) -> StepForecast:
    """The step simulated on devices of one server."""
    server = find_server(device.name, work.plan.world_size)
    if server is None:
        return StepForecast(skipped=UNSUPPORTED)
    found = simulate_plan(work, device, cost_model, server)
    return StepForecast(
        found.seconds, found.low, found.high, provenance=weakest_provenance(found.provenances)
    )


def _as_the_study_does(
    case: StepCase, programs: Programs, cost_model: CostModel, device: Device
) -> StepForecast:
    """From its graph of one device, by its own rules."""
    graph, several = programs.get((case.request, False)), case.plan_request
    server = find_server(device.name, several.plan.world_size) if several else None
    if not isinstance(graph, Graph) or several is None or server is None:
        return StepForecast(skipped=UNSUPPORTED)
    return StepForecast(forecast_distributed(graph, several.plan, cost_model, device, server))


def price_step(graph: Graph, cost_model: CostModel, device: Device, mode: HostMode = "eager") -> StepForecast:
    """Sums over nodes of the prices of their operations, what the device waits for its host, and the weakest
    provenance among the prices.

    The study empties the allocator's cache before every step and waits for the device between forward and
    backward (measure_e2e in its tracing), so a forward asks the driver for all memory that it keeps, and each
    of the two begins with an idle device.
    """
    estimates = cost_model.estimate(graph.operations, device)
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    is_backward = np.array([node.phase is Phase.BACKWARD for node in graph.nodes], dtype=bool)
    seconds = estimates.seconds[index]
    waits = _host_waits(graph, seconds, is_backward, cost_model, device, mode)
    counts = np.bincount(index, minlength=len(graph.operations))
    error = step_error_of_device(is_training=bool(is_backward.any()), is_compiled=mode != "eager")
    low, high = join_intervals(estimates, counts, [o.kind.value for o in graph.operations], error)
    used = {estimates.provenance[i] for i in set(index.tolist()) if not graph.operations[i].is_free}
    kernels, wait = float(seconds.sum()), sum(part.seconds for part in waits)
    return StepForecast(
        seconds=kernels + wait,
        low=kernels + wait - math.hypot(kernels - low, wait - sum(part.seconds_low for part in waits)),
        high=kernels + wait + math.hypot(high - kernels, sum(part.seconds_high for part in waits) - wait),
        forward=float(seconds[~is_backward].sum()) + waits[0].seconds,
        backward=float(seconds[is_backward].sum()) + waits[1].seconds if is_backward.any() else None,
        provenance=weakest_provenance(used),
    )


def _host_waits(
    graph: Graph, seconds: Floats, is_backward: Flags, cost_model: CostModel, device: Device, mode: HostMode
) -> tuple[HostWait, HostWait]:
    """Of the forward and of the backward, where the cost model leaves the host out of its prices."""
    if not isinstance(cost_model, KnowsHost):
        return NO_WAIT, NO_WAIT
    host, requests = host_of(device, mode), driver_requests(graph, device)
    reads = np.array(
        [graph.operations[node.operation].name in HOST_READS for node in graph.nodes], dtype=bool
    )
    forward, backward = (
        host.wait(graph, seconds, requests, part, waited_for=reads) for part in (~is_backward, is_backward)
    )
    return forward, backward


def _cost_model(name: str, device: Device, folder: Path | None, dies: frozenset[str]) -> CostModel | None:
    """A predictor as a cost model; None where it is not trained."""
    if name == "learned":
        return LearnedCost(folder=folder)
    if name == "roofline":
        return Roofline()
    place = find_trained(name, device.vendor, dies)
    return load_cost_model(name, place) if place else None


def _printed(case: StepCase, name: str) -> StepForecast:
    """What the study printed; it needs no model or plan of ours."""
    seconds = case.printed[name]
    faulty = case.skipped is not None and not case.skipped.startswith(("unsupported", "unknown"))
    if faulty or seconds is None:
        return StepForecast(skipped=case.skipped if faulty else f"incomplete: {PRINTED[name]}")
    return StepForecast(seconds)


def _row(case: StepCase, predictor: str, forecast: StepForecast) -> Row:
    parts: dict[str, Any] = {
        "predicted_forward_seconds": forecast.forward,
        "predicted_backward_seconds": forecast.backward,
        "measured_forward_seconds": case.measured.get("forward"),
        "measured_backward_seconds": case.measured.get("backward"),
    }
    return Row(
        suite="neusight",
        table=case.table,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        operation="step",
        dtype="fp32",
        framework="pytorch",
        mode=case.columns.get("mode"),
        predictor=predictor,
        columns={**case.columns, "catalog_model": case.model, **parts},
        predicted_seconds=forecast.seconds,
        predicted_seconds_low=forecast.low,
        predicted_seconds_high=forecast.high,
        measured_seconds=case.measured.get("step"),
        provenance=forecast.provenance,
        skipped=forecast.skipped,
    )


def _device_of(case: StepCase) -> Device:
    assert case.catalog_device is not None
    return load_device(case.catalog_device)
