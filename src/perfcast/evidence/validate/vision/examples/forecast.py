"""Cases → seconds: each different program captured once, priced on every device that ran it.

One device: the captured step, as ``perfcast predict`` adds it up; of a step of several micro-batches the
forward and backward so many times and the optimizer once. Several devices: replicas under
DistributedDataParallel on the catalog's server, simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import torch

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.catalogs.devices import load_device
from perfcast.core.captured import StepSizes
from perfcast.core.forecast.device import Forecast
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import CaptureError, InputError, PlanError
from perfcast.evidence.validate.row import weakest_provenance
from perfcast.evidence.validate.vision.examples.cases import UNSUPPORTED, ExampleCase
from perfcast.evidence.validate.vision.examples.programs.registry import PROGRAMS
from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape, to_half
from perfcast.evidence.validate.vision.kept import kept_graph
from perfcast.prediction.names import resolve_cost_model
from perfcast.prediction.one_device.forecast import forecast_from
from perfcast.prediction.program import PYTORCH
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import forecast_step
from perfcast.prediction.step.priced import price_planned
from perfcast.prediction.step.resolve import resolve_step
from perfcast.prediction.step.work import PlannedStep
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.lower import lower
from perfcast.workload.shard import TORCH_DDP, shard_graph
from perfcast.workload.step import OptimizerChoice, Program

UNSUPPORTED_PLAN = "unsupported plan"
_AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}

#: Processors of the systems (NVIDIA's datasheets of DGX-1, DGX-2 and DGX A100).
_HOSTS = {
    "dgx-1": "xeon-e5-2698-v4",
    "dgx-2": "xeon-8168",
    "dgx-2h": "xeon-8168",
    "dgx-a100": "epyc-7742",
    "dgx-h100": "xeon-8480",
}

CaseKey = tuple[object, ...]


@dataclass(frozen=True)
class ExampleForecast:
    """Seconds of a step with a 90 % interval; ``skipped`` tells why there are none.

    Attributes:
        host_seconds: Of the step, that the device waits for the host; one device alone.
    """

    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    host_seconds: float | None = None
    provenance: str | None = None
    skipped: str | None = None


def forecast_examples(
    cases: Sequence[ExampleCase], predictors: Sequence[str], say: Callable[[str], None] = lambda text: None
) -> Iterator[tuple[ExampleCase, str, ExampleForecast]]:
    """One forecast per case and predictor, cases of one program together."""
    for case in (case for case in cases if case.skipped):
        for name in predictors:
            yield case, name, ExampleForecast(skipped=case.skipped)
    wanted = sorted((case for case in cases if not case.skipped), key=lambda case: str(_key(case)))
    for _, group in groupby(wanted, _key):
        same = list(group)
        captured = _capture(same[0], say)
        for case in same:
            for name in predictors:
                yield case, name, _forecast(case, captured, name)


def _key(case: ExampleCase) -> CaseKey:
    """What a captured program depends on."""
    lower_precision = case.precision if case.precision in _AUTOCAST else "fp32"
    is_half = lower_precision != "fp32" and not case.dtype.startswith("amp_")
    return (
        case.program,
        case.mode,
        case.micro_batch,
        lower_precision,
        is_half,
        case.channels_last,
        case.options,
        case.setup.optimizer,
    )


def _capture(case: ExampleCase, say: Callable[[str], None]) -> Graph | None:
    say(f"capturing {case.program}, {case.mode}, {case.dtype}, batch {case.micro_batch}")
    name, _, implementation = case.setup.optimizer.partition(" ")
    is_mixed = case.dtype.startswith("amp_")
    options = CaptureOptions(
        training=case.is_training,
        autocast_dtype=_AUTOCAST[case.precision] if is_mixed else None,
        optimizer=OptimizerChoice(name, implementation),
    )
    try:
        return kept_graph(str(_key(case)), lambda: capture(lambda: build_program(case), options)[0])
    except CaptureError as error:
        say(f"{case.program}: {error}")
        return None


def build_program(case: ExampleCase) -> Program:
    """The program of a case, its weights and inputs in half precision where the scripts cast them."""
    options = dict(case.options)
    shape = ProgramShape(case.micro_batch, case.is_training, case.channels_last, options)
    program = PROGRAMS[case.program](shape)
    if case.precision not in _AUTOCAST or case.dtype.startswith("amp_"):
        return program
    return to_half(program, _AUTOCAST[case.precision])


def _forecast(case: ExampleCase, captured: Graph | None, predictor: str) -> ExampleForecast:
    if captured is None:
        return ExampleForecast(skipped=UNSUPPORTED)
    try:
        if case.num_devices > 1:
            return _on_cluster(case, captured, predictor)
        return _on_device(case, captured, predictor)
    except PlanError:
        return ExampleForecast(skipped=UNSUPPORTED_PLAN)
    except InputError:
        return ExampleForecast(skipped=UNSUPPORTED)


def _on_device(case: ExampleCase, captured: Graph, predictor: str) -> ExampleForecast:
    assert case.catalog_device is not None
    device = load_device(case.catalog_device)
    cost_model = resolve_cost_model(predictor, device, None if case.is_training else PYTORCH)
    request = Request(
        model=_name(case),
        mode="train" if case.is_training else "prefill",
        batch_size=case.micro_batch,
        dtype=case.precision,
        memory_format="channels_last" if case.channels_last else "contiguous",
        autocast=not case.is_training and case.dtype.startswith("amp_"),
        host=_HOSTS.get(case.line.box),
    )
    graph = lower(captured, device, case.precision)
    sizes = StepSizes(batch_size=case.micro_batch)
    forecast = forecast_from(graph, request, device, cost_model, sizes)
    return _over_micro_batches(case, forecast)


def _over_micro_batches(case: ExampleCase, forecast: Forecast) -> ExampleForecast:
    """A step of several micro-batches: the optimizer runs once."""
    count = case.accumulation
    once = forecast.seconds_by_phase.get(Phase.OPTIMIZER.value, 0.0)
    seconds = count * (forecast.step_seconds - once) + once
    factor = seconds / forecast.step_seconds
    return ExampleForecast(
        seconds,
        factor * forecast.step_seconds_low,
        factor * forecast.step_seconds_high,
        factor * forecast.exposed_host_seconds,
        weakest_provenance(forecast.seconds_by_provenance),
    )


def _on_cluster(case: ExampleCase, captured: Graph, predictor: str) -> ExampleForecast:
    if not case.is_training:
        return ExampleForecast(skipped=UNSUPPORTED_PLAN)
    plan = Plan(
        data_parallel=case.num_devices,
        micro_batch_size=case.micro_batch,
        num_micro_batches=case.accumulation,
        overlaps_gradients=True,
    )
    request = PlanRequest(
        model=_name(case),
        cluster=_cluster(case),
        plan=plan,
        training=Training(dtype=_training_dtype(case), optimizer="adamw", framework="pytorch"),
        cost_model=predictor,
        recommendations=False,
        memory=False,
    )
    step = resolve_step(request)
    work = shard_graph(lower(captured, step.device, case.precision), step.plan, reduction=TORCH_DDP)
    planned = PlannedStep(step, work, 1, captured.parameter_count)
    found = forecast_step(price_planned(planned), request)
    return ExampleForecast(
        found.step_seconds,
        found.step_seconds_low,
        found.step_seconds_high,
        provenance=weakest_provenance(found.seconds_by_provenance),
    )


def _cluster(case: ExampleCase) -> Cluster:
    """The catalog's system with the devices that the section names."""
    if case.cluster is None or case.catalog_device is None:
        raise PlanError(f"{case.device}: no system of the catalog")
    return replace(load_cluster_entry(case.cluster).of_size(case.num_devices), device=case.catalog_device)


def _training_dtype(case: ExampleCase) -> Literal["fp32", "tf32", "fp16", "bf16"]:
    match case.precision:
        case "fp32" | "tf32" | "fp16" | "bf16":
            return case.precision
    raise PlanError(f"no training in '{case.precision}'")


def _name(case: ExampleCase) -> str:
    """As forecasts name a program of one's own."""
    return f"examples.py:{case.program}"
