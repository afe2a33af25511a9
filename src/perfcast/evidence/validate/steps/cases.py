"""Whole-model steps of the NeuSight study (Lee, Phanishayee, Mahajan, ASPLOS 2025) as cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfcast.catalogs.devices import find_device_name
from perfcast.catalogs.models import load_model
from perfcast.core.mode import Mode
from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.dataset.table import read_frame
from perfcast.evidence.validate.kernels.cases import configuration_columns
from perfcast.evidence.validate.runs.lines import spelled
from perfcast.evidence.validate.steps.plans import PlanRequest, find_server, read_plan
from perfcast.prediction import Request
from perfcast.units import MILLI

STEM = "steps"
FUSED = "fusion"
UNSUPPORTED_PLAN = "unsupported plan"

#: The study's words for what was run → ours. Its training is a forward and a backward, no optimizer.
_MODES: Mapping[str, Mode] = {"inference": "prefill", "train": "train"}
#: Predictions that the study printed beside its measurements, by column; 'micro' is Li et al.
PRINTED: Mapping[str, str] = {
    "published:neusight": "neusight_predicted_ms",
    "published:habitat": "habitat_predicted_ms",
    "published:li2020": "micro_predicted_ms",
    "published:roofline": "roofline_predicted_ms",
}
_NEEDED = ("device", "model", "mode", "sequence_length", "batch_size", "step_ms")
#: A plan, or a model on one device and whether it is fused.
StepKey = PlanRequest | tuple[Request, bool]


@dataclass(frozen=True)
class StepCase:
    """One measured step.

    Attributes:
        model: Name in the catalog, None where it has none.
        measured: Seconds of 'step', 'forward' and 'backward', where they were measured.
        printed: Seconds that the study's predictors printed, by predictor; None in an empty cell.
        columns: The file's configuration columns.
        skipped: Why it has no forecast.
    """

    table: str
    row: int
    device: str
    catalog_device: str | None
    model: str | None
    columns: Mapping[str, Any]
    measured: Mapping[str, float]
    printed: Mapping[str, float | None] = field(default_factory=dict)
    skipped: str | None = None

    @property
    def is_fused(self) -> bool:
        """Compiled with fused kernels."""
        return self.columns.get("variant") == FUSED

    @property
    def key(self) -> StepKey:
        """What is captured for it; cases that differ in the device alone share it."""
        return self.plan_request or (self.request, self.is_fused)

    @property
    def plan_request(self) -> PlanRequest | None:
        """What is forecast of a step on several devices; None on one."""
        plan = read_plan(str(self.columns.get("variant") or ""), int(self.columns["batch_size"]))
        if plan is None:
            return None
        assert self.model is not None
        return PlanRequest(self.model, int(self.columns["sequence_length"]), plan)

    @property
    def request(self) -> Request:
        """The model on one device, of one replica; cases that differ only in device or fusion share it."""
        assert self.model is not None
        several = self.plan_request
        return Request(
            model=self.model,
            mode=_MODES[self.columns["mode"]],
            batch_size=several.plan.micro_batch_size if several else int(self.columns["batch_size"]),
            sequence_length=int(self.columns["sequence_length"]),
            dtype="fp32",
            attention="eager",
            optimizer="none",
        )


def read_steps(path: Path, keep: Callable[[str], bool] = lambda device: True) -> list[StepCase]:
    """All steps of a table on the devices that ``keep`` takes, by the catalog's name ('' for none)."""
    frame = read_frame(path)
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: no column {', '.join(missing)}")
    configured = configuration_columns(frame.columns)
    cases = [_read(number, line, configured) for number, line in enumerate(frame.to_dicts())]
    return [case for case in cases if keep(case.catalog_device or "")]


def _read(number: int, line: Mapping[str, Any], configured: Sequence[str]) -> StepCase:
    device = spelled(str(line["device"] or ""))
    measured = dict(_seconds(line, {part: f"{part}_ms" for part in ("step", "forward", "backward")}))
    case = StepCase(
        table=STEM,
        row=number,
        device=device,
        catalog_device=find_device_name(device),
        model=find_study_model(str(line["model"])),
        columns={name: line[name] for name in configured},
        measured=measured,
        printed=dict.fromkeys(n for n, column in PRINTED.items() if column in line)
        | dict(_seconds(line, PRINTED)),
    )
    return replace(case, skipped=_fault(case, line))


def _seconds(line: Mapping[str, Any], columns: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for name, column in columns.items():
        value = line.get(column)
        if isinstance(value, int | float) and value > 0:
            yield name, value * MILLI


def find_study_model(name: str) -> str | None:
    """The catalog's name of a model of the study by its file's name; its aliases are 'neusight:<file>'."""
    try:
        return load_model(f"neusight:{name}").name
    except UnknownNameError:
        return None


def _fault(case: StepCase, line: Mapping[str, Any]) -> str | None:
    for name in _NEEDED:
        if line[name] is None or line[name] == "":
            return f"incomplete: {name}"
    if case.catalog_device is None:
        return "unknown device"
    if case.model is None or line["mode"] not in _MODES:
        return "unsupported operation"
    sizes = (line["sequence_length"], line["batch_size"])
    if "step" not in case.measured or not all(isinstance(size, int) and size > 0 for size in sizes):
        return "impossible value"
    return None if (line.get("variant") or FUSED) == FUSED else _plan_fault(case, line)


def _plan_fault(case: StepCase, line: Mapping[str, Any]) -> str | None:
    """Plans are of training steps, on servers whose links the catalog knows."""
    plan = read_plan(str(line["variant"]), int(line["batch_size"]))
    is_known = plan is not None and find_server(case.catalog_device or "", plan.world_size) is not None
    return None if is_known and line["mode"] == "train" else UNSUPPORTED_PLAN
