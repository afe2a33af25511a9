"""``perfcast train vision``: constants of convolutions and streams from measured steps, and their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.core.arrays import Flags, Floats
from perfcast.core.kernel import SIZES, KernelFamily
from perfcast.cost.learned.families import convolution_narrow
from perfcast.cost.learned.kinship import Segment, architecture_of
from perfcast.cost.learned.predictor import CellError, FittedFamily, Hull
from perfcast.cost.learned.scalars import NUM_SCALARS, DeviceScalars
from perfcast.cost.learned.store import WEIGHTS, load_family, save_family
from perfcast.cost.learned.trees import Trees
from perfcast.errors import InputError
from perfcast.evidence.train.learned.widths import (
    Span,
    balanced_quantiles,
    one_vendor_spread,
    widened_quantiles,
)
from perfcast.evidence.train.vision.fit import (
    Problem,
    build_problem,
    fit_constants,
    left_out_seconds,
)
from perfcast.evidence.train.vision.steps import (
    StepParts,
    VisionStep,
    by_turns,
    collect_parts,
    is_same_model,
    read_steps,
)
from perfcast.files.writing import make_folder, write_fitted_text

#: Where the constants lie in the package: the part's prefix, and the file.
_CONVOLUTIONS, _STREAMS = "convolution.", "stream."
_LEAST_STEPS = 100
#: Says of which vendors some kernel was measured.
_OF_KERNELS = "product_narrow"
#: Steps in which convolutions take longer than other products.
CONVOLUTIONAL = "convolutional"
_SOURCE = (
    "perfcast train vision: eager half-precision steps of RTX 3090 and RTX 4090 "
    "(huggingface/pytorch-image-models results, commit aa4b5850, Apache-2.0)"
)


@dataclass(frozen=True)
class GroupError:
    """Left-out errors of one kind of step; ``median``, ``mean``: of |forecast / measured − 1|.

    Attributes:
        bias: Median of forecast / measured − 1.
    """

    name: str
    count: int
    median: float
    mean: float
    bias: float


@dataclass(frozen=True)
class Widths:
    """Of convolutional steps: of inference, and of training for what gradients alone run."""

    forward: Span
    gradient: Span

    def by_segment(self) -> dict[Segment, Span]:
        """By level of segments."""
        gradients = [name for name in convolution_narrow.OPERATIONS if name != "convolution"]
        return {(): self.forward, **{(name,): self.gradient for name in gradients}}


@dataclass(frozen=True)
class VisionRecord:
    """What was fitted.

    Attributes:
        constants: Of each part that is kept.
        by_family, by_device: Errors with each step's family, or its device, left out.
        known, unseen: Logarithms of low and high over the forecast, of the same.
        num_skipped: Steps whose model is not what was measured, or cannot be captured.
    """

    constants: Mapping[str, float]
    by_family: tuple[GroupError, ...]
    by_device: tuple[GroupError, ...]
    known: Widths
    unseen: Widths
    num_skipped: int


def train_vision(
    folder: Path,
    output: Path,
    report: Callable[[str], None] = lambda line: None,
    *,
    max_rows: int | None = None,
) -> VisionRecord:
    """Fit, score with families and devices left out, and write the files of the package into ``output``.

    Args:
        max_rows: Of steps, one model of each family after the other; None: all.

    Raises:
        InputError: No table, or too few steps that can be captured.
    """
    every = by_turns(read_steps(folder))[:max_rows]
    found = collect_parts(every, output, report)
    chosen = [step for step in every if step.key in found and is_same_model(step, found[step.key])]
    if len(chosen) < _LEAST_STEPS:
        raise InputError(f"{folder}: {len(chosen)} steps can be captured; {_LEAST_STEPS} are needed")
    parts = [found[step.key] for step in chosen]
    problem = build_problem(chosen, parts)
    values = dict(zip(problem.names, fit_constants(problem).tolist(), strict=True))
    by_family = left_out_seconds(problem, [step.family for step in chosen])
    by_device = left_out_seconds(problem, [step.device for step in chosen])
    convolutional = _is_convolutional(parts)
    known, unseen = error_widths(
        [step for step, is_one in zip(chosen, convolutional.tolist(), strict=True) if is_one],
        *(np.log(problem.measured / forecast)[convolutional] for forecast in (by_family, by_device)),
    )
    record = VisionRecord(
        constants={
            name: value for name, value in values.items() if name.startswith((_CONVOLUTIONS, _STREAMS))
        },
        by_family=tuple(_errors(chosen, by_family, problem, convolutional)),
        by_device=tuple(_errors(chosen, by_device, problem, convolutional)),
        known=known,
        unseen=unseen,
        num_skipped=len(every) - len(chosen),
    )
    _write(record, chosen, output)
    return record


def _is_convolutional(parts: Sequence[StepParts]) -> Flags:
    """Whether convolutions take longer than other products."""
    return np.array([
        sum(v for k, v in of.seconds.items() if k.startswith(_CONVOLUTIONS))
        > sum(v for k, v in of.seconds.items() if k.startswith("other."))
        for of in parts
    ])  # fmt: skip


def error_widths(steps: Sequence[VisionStep], by_family: Floats, by_device: Floats) -> tuple[Widths, Widths]:
    """Of devices that were measured, and of others, from errors with families and devices left out.

    Where one device alone was trained on, no other says what its gradients' constants are worth elsewhere
    (without it they are those of no step at all): they are taken to lose as much by it as inference does.
    """
    families, devices = (
        np.unique([getattr(s, name) for s in steps], return_inverse=True)[1] for name in ("family", "device")
    )
    trains = np.array([step.mode == "train" for step in steps], dtype=bool)
    infers = ~trains
    known = Widths(*(balanced_quantiles(by_family[rows], families[rows]) for rows in (infers, trains)))
    forward = widened_quantiles(by_device[infers], devices[infers])
    if len(set(devices[trains].tolist())) > 1:
        return known, Widths(forward, widened_quantiles(by_device[trains], devices[trains]))
    low, high = (
        math.sqrt(gradient**2 + max(elsewhere**2 - here**2, 0.0))
        for gradient, elsewhere, here in zip(known.gradient, forward, known.forward, strict=True)
    )
    return known, Widths(forward, (-low, high))


def _errors(
    steps: Sequence[VisionStep], forecast: Floats, problem: Problem, convolutional: Flags
) -> Iterator[GroupError]:
    error = forecast / problem.measured - 1
    names = np.array([
        f"{s.device} {s.mode} {s.memory_format} {CONVOLUTIONAL if c else 'others'}"
        for s, c in zip(steps, convolutional.tolist(), strict=True)
    ])  # fmt: skip
    for name in (*sorted(set(names.tolist())), "all"):
        rows = np.ones(len(names), dtype=bool) if name == "all" else names == name
        some = error[rows]
        yield GroupError(
            str(name),
            int(rows.sum()),
            float(np.median(np.abs(some))),
            float(np.abs(some).mean()),
            float(np.median(some)),
        )


def _write(record: VisionRecord, steps: Sequence[VisionStep], output: Path) -> None:
    make_folder(output)
    for prefix, name, about in (
        (_CONVOLUTIONS, "convolution_narrow.toml", "Parts of convolutions in 16 bits and TF32"),
        (_STREAMS, "streams.toml", "Classes of kernels that stream memory"),
    ):
        write_fitted_text(output / name, constants_text(record, prefix, about))
    plain = {
        "num_rows": len(steps),
        "num_models": len({s.model for s in steps}),
        "devices": sorted({s.device for s in steps}),
        "tables": ["timm"],
        "left_out": [],
        "source": _SOURCE,
    }
    save_family(fitted_family(record, steps), "convolution_narrow", output, plain)


def constants_text(record: VisionRecord, prefix: str, about: str) -> str:
    """A file of constants by name."""
    lines = [f"# {about}: seconds over those of the bare law. Source: {_SOURCE}.", "[constants]"]
    lines += [
        f'"{name.removeprefix(prefix)}" = {value:.4g}'
        for name, value in sorted(record.constants.items())
        if name.startswith(prefix)
    ]
    return "\n".join(lines) + "\n"


def fitted_family(record: VisionRecord, steps: Sequence[VisionStep]) -> FittedFamily:
    """The model that prices convolutions: physics alone, as sure as left-out steps show."""
    devices = [load_device(name) for name in sorted({s.device for s in steps})]
    segments: list[Segment] = [
        (name, dtype, "pytorch")
        for name in convolution_narrow.OPERATIONS
        for dtype in ("fp16", "bf16", "tf32")
    ]
    axes = len(SIZES[KernelFamily.CONVOLUTION])
    hull = Hull(
        np.zeros(axes),
        np.full(axes, 30.0),
        tuple(d.name for d in devices),
        np.zeros((0, axes)),
        np.zeros(0, np.int64),
    )
    architectures = sorted({architecture_of(device) for device in devices})
    return FittedFamily(
        family=convolution_narrow,
        scalars=DeviceScalars(
            {(device.name, segment): np.zeros(NUM_SCALARS) for device in devices for segment in segments},
            {device.name: architecture_of(device) for device in devices},
            np.full(NUM_SCALARS, 0.05),
        ),
        common=Trees(),
        shrink={},
        known=None,
        architectures=tuple(architectures),
        trained=frozenset(
            (code, name, dtype) for code in range(len(architectures)) for name, dtype, _ in segments
        ),
        spread=one_vendor_spread(record.known.by_segment(), record.unseen.by_segment()),
        hulls=dict.fromkeys(segments, hull),
        errors=tuple(_cells(record)),
        acquainted=load_family(_OF_KERNELS).acquainted,
    )


def _cells(record: VisionRecord) -> Iterator[CellError]:
    """Errors of convolutional steps in inference, by device and memory format."""
    unseen = {group.name: group.mean for group in record.by_device}
    for group in record.by_family:
        if group.name.endswith(f"{CONVOLUTIONAL}"):
            device, mode, memory_format, _ = group.name.split()
            name = f"step of {mode}, {memory_format}"
            yield CellError(name, "fp16", device, group.count, group.mean, unseen[group.name])


def package_files() -> tuple[Path, ...]:
    """Where the files of ``output`` belong in the package."""
    learned = Path(convolution_narrow.__file__).parents[1]
    return (
        learned / "families" / "convolution_narrow.toml",
        learned / "streams.toml",
        WEIGHTS / "convolution_narrow.json.gz",
    )
