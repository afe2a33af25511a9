"""Measured steps of vision models, and each as a sum of named parts that constants multiply."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.graph import Graph
from perfcast.core.kernel import KernelFamily
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import MATRIX_KINDS, Operation, OperationKind
from perfcast.cost.learned.families import convolution_narrow
from perfcast.cost.learned.figures import collect_figures
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.learned.streams import LAUNCH_SECONDS, stream_of
from perfcast.cost.learned.translate import translate
from perfcast.errors import InputError
from perfcast.evidence.validate.vision.timm_steps.cases import TimmCase, read_cases
from perfcast.evidence.validate.vision.timm_steps.graphs import kept_graph
from perfcast.files.reading import read_json
from perfcast.files.writing import make_folder, write_text_atomically
from perfcast.prediction.one_device.graph import run_on

#: How far the multiplications of a model of today may be from those printed beside a measured step: a name
#: whose model was changed since was not measured.
_SAME_WORK = (0.8, 1.2)


@dataclass(frozen=True)
class VisionStep:
    """One measured eager step.

    Attributes:
        device: Catalog name.
        gmacs: Multiply-adds of one image in 10⁹; None where not printed.
    """

    case: TimmCase
    device: str
    seconds: float
    gmacs: float | None

    @property
    def model(self) -> str:
        """timm's name."""
        return str(self.case.columns["model"])

    @property
    def family(self) -> str:
        """Models of one design."""
        return self.case.family

    @property
    def mode(self) -> str:
        """'infer' or 'train'."""
        return self.case.mode

    @property
    def memory_format(self) -> str:
        """Of weights and images."""
        return self.case.request.memory_format

    @property
    def graph_key(self) -> str:
        """What is captured: the same for every device."""
        return str(self.case.request)

    @property
    def key(self) -> str:
        """What is priced."""
        return f"{self.graph_key} {self.device}"


@dataclass(frozen=True)
class StepParts:
    """Ideal seconds of each part of a step, and the flops of its products."""

    seconds: Mapping[str, float]
    flops: float


def read_steps(folder: Path) -> list[VisionStep]:
    """Eager half-precision steps on GPUs of ``vision/timm.csv.gz``.

    Raises:
        InputError: No such table in the folder.
    """
    path = next((p for p in (folder / "vision/timm.csv.gz", folder / "timm.csv.gz") if p.is_file()), None)
    if path is None:
        raise InputError(f"{folder}: no vision/timm.csv.gz")
    cases = [case for case in read_cases(path) if _is_used(case)]
    printed = {_image(case): float(case.columns["gmacs"]) for case in cases if case.columns.get("gmacs")}
    return [
        VisionStep(case, case.catalog_device, case.measured_seconds, printed.get(_image(case)))
        for case in cases
        if case.catalog_device is not None and case.measured_seconds is not None
    ]


def _is_used(case: TimmCase) -> bool:
    if case.skipped or case.catalog_device is None or case.is_compiled:
        return False
    return case.dtype == "amp_fp16" and not load_device(case.catalog_device).is_cpu


def _image(case: TimmCase) -> tuple[str, int | None]:
    return case.request.title, case.request.image_size


def parts_of(graph: Graph, device: Device) -> StepParts:
    """A captured step as parts: convolutions, streams, launches, and what other models price."""
    counts = np.bincount([node.operation for node in graph.nodes], minlength=len(graph.operations))
    return parts_of_operations(graph.operations, counts.tolist(), device)


def parts_of_operations(operations: Sequence[Operation], counts: Sequence[int], device: Device) -> StepParts:
    """The same from operations and how often each runs."""
    seconds: defaultdict[str, float] = defaultdict(float)
    runs = [i for i, operation in enumerate(operations) if not operation.is_free and counts[i]]
    convolutions = [i for i in runs if operations[i].kind is OperationKind.CONVOLUTION]
    _add_convolutions(
        [operations[i] for i in convolutions], [counts[i] for i in convolutions], device, seconds
    )
    priced = []
    for i in runs:
        operation = operations[i]
        stream = stream_of(operation, device)
        if stream is not None:
            seconds[f"stream.{stream.name}"] += stream.seconds * counts[i]
            seconds["launch"] += LAUNCH_SECONDS * counts[i]
        elif operation.kind is not OperationKind.CONVOLUTION:
            priced.append(i)
    estimates = LearnedCost().estimate([operations[i] for i in priced], device).seconds.tolist()
    for i, value in zip(priced, estimates, strict=True):
        kind = operations[i].kind
        name = kind.value if kind in MATRIX_KINDS else "rest"
        seconds[f"other.{name}"] += value * counts[i]
    flops = sum(operations[i].flops * counts[i] for i in runs if operations[i].kind in MATRIX_KINDS)
    return StepParts(dict(seconds), float(flops))


def _add_convolutions(
    operations: Sequence[Operation], counts: Sequence[int], device: Device, seconds: defaultdict[str, float]
) -> None:
    table = translate(operations).tables.get(KernelFamily.CONVOLUTION)
    if table is None:
        return
    figures = collect_figures([device], np.zeros(len(table), np.int64), table.word("dtype"))
    shapes = convolution_narrow.derive_shapes(table)
    for name, values in convolution_narrow.time_parts(table, figures, shapes).items():
        seconds[f"convolution.{name}"] += float(values @ np.array(counts, dtype=np.float64))
    seconds["launch"] += convolution_narrow.LAUNCH_SECONDS * sum(counts)


def collect_parts(
    steps: Iterable[VisionStep], folder: Path, report: Callable[[str], None] = lambda line: None
) -> dict[str, StepParts]:
    """Parts of every step that can be captured, kept in ``parts.json`` of the folder while they are made.

    One graph serves all devices that measured the same step; models of all families come by turns.
    """
    path = folder / "parts.json"
    found = _load(path)
    wanted: defaultdict[str, dict[str, VisionStep]] = defaultdict(dict)
    for step in by_turns(steps):
        wanted[step.graph_key][step.key] = step
    for number, same in enumerate(wanted.values()):
        if same.keys() <= found.keys():
            continue
        found |= _parts_of_step(same, report)
        if number % 20 == 0:
            _save(found, path)
            report(f"{number + 1} of {len(wanted)} graphs captured")
    _save(found, path)
    return {key: parts for key, parts in found.items() if parts.seconds}


def by_turns(steps: Iterable[VisionStep]) -> list[VisionStep]:
    """One model of each family after the other, so that an unfinished collection has all of them."""
    turn: defaultdict[str, dict[str, int]] = defaultdict(dict)
    place: dict[str, int] = {}
    every = list(steps)
    for step in every:
        place[step.model] = turn[step.family].setdefault(step.model, len(turn[step.family]))
    return sorted(every, key=lambda step: place[step.model])


def _parts_of_step(same: Mapping[str, VisionStep], report: Callable[[str], None]) -> dict[str, StepParts]:
    (first, *_) = same.values()
    request = first.case.request
    try:
        graph = kept_graph(request, load_device(first.device))
    except InputError as error:
        report(f"{first.model}: {error}")
        return dict.fromkeys(same, StepParts({}, 0.0))
    return {
        key: parts_of(run_on(graph, request, device), device)
        for key, device in ((key, load_device(step.device)) for key, step in same.items())
    }


def _load(path: Path) -> dict[str, StepParts]:
    if not path.is_file():
        return {}
    content: Any = read_json(path, what="the captured steps")
    return {key: StepParts(seconds, flops) for key, (seconds, flops) in content.items()}


def _save(found: Mapping[str, StepParts], path: Path) -> None:
    make_folder(path.parent)
    write_text_atomically(
        path, json.dumps({key: [p.seconds, p.flops] for key, p in found.items()}), updates=True
    )


def is_same_model(step: VisionStep, parts: StepParts) -> bool:
    """Whether the captured model does the work that was printed for the measured one."""
    if not step.gmacs:
        return True
    passes = 3 if step.mode == "train" else 1
    ratio = parts.flops / (2e9 * step.gmacs * step.case.request.batch_size * passes)
    return _SAME_WORK[0] <= ratio <= _SAME_WORK[1]
