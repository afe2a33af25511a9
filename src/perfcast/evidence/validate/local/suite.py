"""``validate local``: small models, predicted and really run on this machine's processor."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.cost.linear import LinearCost
from perfcast.cost.model import CostModel
from perfcast.cost.profile import DeviceProfile, load_local_profile, local_device
from perfcast.cost.roofline import Roofline
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.local.models import LOCAL_MODELS, LocalModel
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.result import SuiteResult
from perfcast.evidence.validate.row import Row, weakest_provenance
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.files.writing import write_fitted_text
from perfcast.measure.steps import CPU_OPTIMIZER, StepTime, measure_step, step_of
from perfcast.memory_use.first_touch import with_first_touch
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import Program

MODES: tuple[Mode, ...] = ("train", "prefill")
PREDICTORS = ("linear", "roofline")

Measure = Callable[[Program, Mode], StepTime]


def validate_local(
    predictors: Sequence[str] = PREDICTORS,
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    models: Sequence[LocalModel] = LOCAL_MODELS,
    profile: DeviceProfile | None = None,
    measure: Measure | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> SuiteResult:
    """Predict, run and compare every model in every mode by every predictor.

    Args:
        max_rows: Of model and mode; sampled by a fixed hash when there are more.
        profile: Calibration of this machine; read from the user's data folder by default.
        measure: Stand-in for running the step.
        on_row: Told of every row as it is done.

    Raises:
        CalibrationError: This machine is not calibrated.
        UnknownNameError: No such predictor.
    """
    profile = profile or load_local_profile()
    device = local_device(profile)
    pricing = {name: _cost_model(name, profile) for name in predictors}
    cases = [(model, mode) for model in models for mode in MODES]
    chosen = sample(cases, max_rows, lambda c: f"{c[0].name} {c[1]}", lambda c: c[0].name)
    rows: list[Row] = []
    for model, mode in chosen:
        graph = _capture(model, mode)
        measured = _measured(model, mode, measure or _run)
        for name, cost_model in pricing.items():
            rows.append(_row(model, mode, name, forecast_step(graph, cost_model, device), measured, device))
            on_row(rows[-1])
    return SuiteResult("local", _protocol(profile, len(cases), len(chosen)), tuple(rows))


def forecast_step(graph: Graph, cost_model: CostModel, device: Device) -> dict[str, Any]:
    """Sum over nodes of the prices of their operations, with the interval and the weakest provenance."""
    estimates = cost_model.estimate(graph.operations, device)
    index = np.array([node.operation for node in graph.nodes], dtype=np.int64)
    used = {estimates.provenance[i] for i in set(index.tolist()) if not graph.operations[i].is_free}
    return {
        "predicted_seconds": float(estimates.seconds[index].sum()),
        "predicted_seconds_low": float(estimates.seconds_low[index].sum()),
        "predicted_seconds_high": float(estimates.seconds_high[index].sum()),
        "provenance": weakest_provenance(used),
    }


def write_spread(path: Path, result: SuiteResult, machine: str) -> None:
    """Rewrite the file of largest measured / predicted per predictor, for ``cost.spread``."""
    factors: dict[str, float] = {}
    for row in result.rows:
        if row.predicted_seconds and row.measured_seconds:
            ratio = row.measured_seconds / row.predicted_seconds
            factors[row.predictor] = max(factors.get(row.predictor, 1.0), ratio)
    data = {
        "source": "perfcast validate local",
        "machine": machine,
        "measured_over_predicted": {
            name: math.ceil(factor * 100) / 100 for name, factor in sorted(factors.items())
        },
    }
    write_fitted_text(path, json.dumps(data, indent=2) + "\n")


def describe_machine(profile: DeviceProfile) -> str:
    """'AMD EPYC, 2 threads, PyTorch 2.13.0, calibrated 2026-…'."""
    return (
        f"{profile.processor}, {profile.num_threads} threads, PyTorch {profile.torch_version}, "
        f"calibrated {profile.measured_at}"
    )


def _cost_model(name: str, profile: DeviceProfile) -> CostModel:
    if name == "linear":
        return LinearCost(profile)
    if name == "roofline":
        return Roofline()
    raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")


def _capture(model: LocalModel, mode: Mode) -> Graph:
    options = CaptureOptions(training=mode == "train", for_accelerator=False, optimizer=CPU_OPTIMIZER)
    return with_first_touch(capture(lambda: model.build(mode), options)[0])


def _measured(model: LocalModel, mode: Mode, measure: Measure) -> StepTime:
    torch.manual_seed(0)
    return measure(model.build(mode), mode)


def _run(program: Program, mode: Mode) -> StepTime:
    return measure_step(step_of(program, training=mode == "train"))


def _row(
    model: LocalModel,
    mode: Mode,
    predictor: str,
    forecast: Mapping[str, Any],
    measured: StepTime,
    device: Device,
) -> Row:
    columns = {
        "model": model.name,
        "kind": model.kind,
        "batch_size": model.batch_size,
        "sequence_length": model.sequence_length,
        "optimizer": "adamw" if mode == "train" else None,
        "measured_seconds_lower_quartile": measured.lower_quartile_seconds,
        "measured_seconds_upper_quartile": measured.upper_quartile_seconds,
        "repeats": measured.repeats,
        "disturbed_repeats": measured.num_disturbed,
    }
    return Row(
        suite="local",
        table="local_models",
        row=f"{model.name} {mode}",
        device=device.architecture.replace(" ", "_"),
        catalog_device="cpu",
        operation="step",
        dtype="fp32",
        framework="pytorch",
        mode=mode,
        columns=columns,
        predictor=predictor,
        measured_seconds=measured.seconds,
        **forecast,
    )


def _protocol(profile: DeviceProfile, num_cases: int, num_chosen: int) -> dict[str, Any]:
    return {
        "machine": describe_machine(profile),
        "fitted_on": "linear: kernels of a designed grid and two tiny programs (see `perfcast calibrate`); "
        "roofline: the fastest rates among them",
        "left_out": "all models of this suite: nothing was fitted on their steps",
        "forecast": "captured on symbolic tensors as the processor runs it, each different operation "
        "priced once, summed over nodes; pages touched anew added by memory.first_touch",
        "measured": "one process, PyTorch's default threads and allocator, after three warm-ups; "
        "median of the repeats that took less than half as long again as the fastest",
        "sampling": describe_sampling(num_cases, num_chosen, how="evenly over models, by a fixed hash"),
    }
