"""``train processor``: measured steps of image models on processors → the file of constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import find_device_name, load_device
from perfcast.core.arrays import Floats
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.cost.processor.model import unit_seconds
from perfcast.cost.processor.work import work_of
from perfcast.errors import InputError, PerfcastError
from perfcast.evidence.train.processor.fit import FittedProcessor, fit_processor
from perfcast.evidence.train.processor.write import format_constants
from perfcast.evidence.validate.sampling import sample
from perfcast.files.reading_tables import csv_entries
from perfcast.files.writing import write_fitted_text
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.one_device import Request
from perfcast.units import MILLI

FILE = "timm.csv.gz"
_MOST_STEPS = 200


@dataclass(frozen=True)
class MeasuredStep:
    """One line of the table on a processor of the catalog."""

    device: str
    model: str
    image_size: int
    batch_size: int
    seconds: float

    @property
    def family(self) -> str:
        """The beginning of the model's name: 'resnext' of resnext50_32x4d."""
        return re.split(r"[_0-9]", self.model.removeprefix("tf_"))[0]


def train_processor(folder: Path, output: Path, say: Callable[[str], None]) -> FittedProcessor:
    """Fit the constants to compiled steps and write them.

    Raises:
        InputError: No table, or no step on a processor that the catalog has.
    """
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder}: no {FILE}")
    every = list(_steps(path))
    if not every:
        raise InputError(f"{path}: no compiled step on a processor of the catalog")
    steps = sample(every, _MOST_STEPS, lambda s: f"{s.device} {s.model} {s.image_size}", lambda s: s.family)
    found = [(step, columns) for step in steps if (columns := _columns(step, say)) is not None]
    fitted = fit_processor(
        np.array([columns for _, columns in found]),
        np.array([step.seconds for step, _ in found]),
        [step.family for step, _ in found],
    )
    devices = sorted({step.device for step, _ in found})
    text = format_constants(fitted, devices, len({step.family for step, _ in found}))
    write_fitted_text(output, text)
    return fitted


def _steps(path: Path) -> Iterator[MeasuredStep]:
    for _, line in csv_entries(path, what="the measured steps"):
        name = find_device_name(line["device"])
        if name is None or not load_device(name).is_cpu or not _is_taken(line):
            continue
        yield MeasuredStep(
            name,
            line["model"],
            int(float(line["image_size"])),
            int(float(line["batch_size"])),
            float(line["step_ms"]) * MILLI,
        )


def _is_taken(line: Mapping[str, str]) -> bool:
    return line["mode"] == "infer" and line["dtype"] == "fp32" and line["compiled"] == "True"


def _columns(step: MeasuredStep, say: Callable[[str], None]) -> Floats | None:
    """Seconds of each term and class at a constant of 1; None of a model that cannot be captured."""
    device = load_device(step.device)
    request = Request(
        model=f"timm:{step.model}", mode="prefill", batch_size=step.batch_size, image_size=step.image_size,
        dtype="fp32", compile=True,
    )  # fmt: skip
    say(f"capturing {step.model}, {step.image_size}")
    try:
        graph, _ = build_graph(request, device)
    except PerfcastError as error:
        say(f"{step.model}: {error}")
        return None
    return columns_of(graph, device)


def columns_of(graph: Graph, device: Device) -> Floats:
    """Sums over the nodes of a graph, shape [terms, classes]."""
    counts = np.bincount([node.operation for node in graph.nodes], minlength=len(graph.operations))
    work, unit = work_of(graph.operations), unit_seconds(device)
    columns = (work.calls, work.flops, work.weight_bytes, work.activation_bytes)
    return np.array([counts @ column * seconds for column, seconds in zip(columns, unit, strict=True)])


def describe(fitted: FittedProcessor) -> Sequence[str]:
    """How closely it holds, as lines."""
    errors = np.abs(fitted.errors)
    return (
        f"{len(errors)} steps, families of models left out in turn: mean error {100 * errors.mean():.1f} %, "
        f"median {100 * float(np.median(errors)):.1f} %",
        f"nine of ten within a factor {fitted.spread:.2f}",
    )
