"""Steps of a model: what the allocator reserves and how long a step takes, each beside its forecast."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from perfcast.core.forecast.device import Forecast
from perfcast.core.machine.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.evidence.gpu_check.place import Found, LeftOutError, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.measure.steps import StepTime, measure_step, step_of
from perfcast.memory_use.reserved import NUM_STEPS
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.one_device.graph import program_and_options
from perfcast.prediction.request.one_device import OneDeviceRequest, Request
from perfcast.published.mesh_cost_model.models import reference_of
from perfcast.units import GIB, KIB
from perfcast.workload.step import Program, default_loss


@dataclass(frozen=True)
class CheckedModel:
    """A training step that is run, and how large it is in a dry run."""

    name: str
    model: str
    batch_size: int
    sequence_length: int | None
    dtype: str = "bf16"
    dry_batch_size: int = 1
    dry_sequence_length: int | None = None
    least_memory_bytes: int = 0

    def request(self, *, is_dry: bool) -> Request:
        """The step as a forecast asks for it; a processor runs fp32."""
        return Request(
            model=self.model,
            mode="train",
            batch_size=self.dry_batch_size if is_dry else self.batch_size,
            sequence_length=self.dry_sequence_length if is_dry else self.sequence_length,
            dtype="fp32" if is_dry else self.dtype,
        )


#: Ten, of different kinds and sizes; the first five tell most of step times.
MODELS = (
    CheckedModel("gpt2", "gpt2", 8, 1024, dry_sequence_length=32),
    CheckedModel("bert-large", "bert-large", 16, 512, dry_sequence_length=16),
    CheckedModel("vit-b-16", "vit-b-16", 64, None),
    CheckedModel("resnet-50", "resnet-50", 64, None),
    CheckedModel(
        "qwen2.5-0.5b", "qwen2.5-0.5b", 2, 1024, dry_sequence_length=16, least_memory_bytes=24 * GIB
    ),
    CheckedModel("gpt2-medium fp32", "gpt2-medium", 2, 512, "fp32", dry_sequence_length=16),
    CheckedModel("t5-base", "t5-base", 8, 512, dry_sequence_length=16),
    CheckedModel("opt-350m", "opt-350m", 4, 1024, dry_sequence_length=16),
    CheckedModel("decoder fp32", reference_of("decoder"), 64, None, "fp32"),
    CheckedModel("perceptron fp32", reference_of("perceptron"), 256, None, "fp32"),
)
#: What a dry run runs of them: the rest would take a processor minutes.
DRY_MODELS = ("decoder fp32", "perceptron fp32")


class Statistics(Protocol):
    """What a device says of its memory."""

    @property
    def name(self) -> str:
        """Of the figure."""
        ...

    def reset(self) -> None:
        """From now on."""
        ...

    def peak_bytes(self) -> int:
        """Most that was held since."""
        ...


class CudaStatistics:
    """PyTorch's caching allocator."""

    name = "max_memory_reserved"

    def reset(self) -> None:
        """See ``Statistics``."""
        torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        """See ``Statistics``."""
        return int(torch.cuda.max_memory_reserved())


class ProcessStatistics:
    """How much this process has grown: of a dry run, on a processor, which has no caching allocator."""

    name = "growth of the process"

    def __init__(self) -> None:
        self._before = self._peak()

    def reset(self) -> None:
        """See ``Statistics``."""
        self._before = self._peak()

    def peak_bytes(self) -> int:
        """See ``Statistics``."""
        return self._peak() - self._before

    def _peak(self) -> int:
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else size * KIB


def find_model(name: str) -> CheckedModel:
    """One of ``MODELS`` by its name."""
    return next(model for model in MODELS if model.name == name)


def check_model(place: Place, model: CheckedModel, statistics: Statistics | None = None) -> Found:
    """Run some steps of a model in this process, which has run nothing else, and forecast both figures."""
    device, cost_model = place.forecaster()
    request, _ = complete_request(model.request(is_dry=place.is_dry), device)
    if place.device == "cuda" and torch.cuda.get_device_properties(0).total_memory < model.least_memory_bytes:
        raise LeftOutError(f"{model.name} is meant for devices of {model.least_memory_bytes // GIB} GiB")
    chosen = statistics or (ProcessStatistics() if place.is_dry else CudaStatistics())
    chosen.reset()
    sizes = {"batch_size": request.batch_size, "sequence_length": request.sequence_length}
    details: dict[str, Any] = {
        **sizes, "dtype": request.dtype, "model": request.title.rpartition("/")[2], "priced_for": device.name,
    }  # fmt: skip
    try:
        with torch.device(place.device):
            peak, found = _run(place, request, chosen)
    except torch.OutOfMemoryError as error:
        raise LeftOutError(_what_did_not_fit(model, _forecast(request, device, cost_model), error)) from None
    place.keep(Found(_rows(model, chosen.name, peak, found, None), details))
    try:
        forecast = _forecast(request, device, cost_model)
    except Exception as error:  # what was measured counts all the same
        forecast, details = None, {**details, "no_forecast": f"{type(error).__name__}: {error}"}
    return Found(_rows(model, chosen.name, peak, found, forecast), details)


def _forecast(request: Request, device: Device, cost_model: CostModel | None) -> Forecast | None:
    """None where nothing prices the device."""
    from perfcast.prediction.one_device.predict import predict_one_device

    if cost_model is None:
        return None
    return predict_one_device(OneDeviceRequest(workload=request, device=device, cost_model=cost_model))


def _peak_bytes(forecast: Forecast) -> int:
    reserved = forecast.memory.reserved
    return forecast.memory.peak_bytes if reserved is None else reserved.peak_bytes


def _what_did_not_fit(model: CheckedModel, forecast: Forecast | None, error: Exception) -> str:
    """Beside the forecast: whether this was to be expected."""
    free, whole = torch.cuda.mem_get_info()
    said = str(error).split(". ")[0]
    asked = "" if forecast is None else f" (forecast: {_peak_bytes(forecast) / GIB:.1f} GiB)"
    return (
        f"{model.name}{asked} does not fit here: {said}; {free / GIB:.1f} of {whole / GIB:.1f} GiB are free"
    )


def _rows(
    model: CheckedModel, name: str, peak: int, found: StepTime, forecast: Forecast | None
) -> tuple[CheckRow, CheckRow]:
    memory = CheckRow(what=f"{model.name}: {name}", unit="B", measured=peak)
    step = CheckRow(
        what=f"{model.name}: step", unit="s", measured=found.seconds, note=f"{found.repeats} repeats"
    )
    if forecast is None:
        return memory, step
    memory = replace(
        memory,
        forecast=_peak_bytes(forecast),
        note="tensors alone" if forecast.memory.reserved is None else f"after {NUM_STEPS} steps",
    )
    step = replace(
        step, forecast=forecast.step_seconds, low=forecast.step_seconds_low, high=forecast.step_seconds_high,
        note=f"{step.note}, {forecast.cost_model}",
    )  # fmt: skip
    return memory, step


def _run(place: Place, request: Request, statistics: Statistics) -> tuple[int, StepTime]:
    """Most bytes of the first steps, and the time of later ones."""
    torch.manual_seed(0)
    device, _ = place.forecaster()
    build, options = program_and_options(request, device)
    program = build()
    if options.autocast_dtype is not None:
        program = _with_autocast(program, place.device, options.autocast_dtype)
    step = step_of(program, training=True, optimizer=options.optimizer)
    for _ in range(NUM_STEPS):
        step()
    place.synchronize()
    peak = statistics.peak_bytes()
    found = measure_step(
        step, least_seconds=0.2 if place.is_dry else 3.0, least_repeats=3 if place.is_dry else 7,
        synchronize=place.synchronize,
    )  # fmt: skip
    return peak, found


def _with_autocast(program: Program, device: str, dtype: torch.dtype) -> Program:
    """The forward and the loss in lower precision, as a forecast captures them; the backward follows them."""
    loss_of: Callable[..., torch.Tensor] = program.loss_function or default_loss

    def run() -> None:
        with torch.autocast(device, dtype):
            loss = loss_of(program.module(*program.args, **program.kwargs))
        loss.backward()  # type: ignore[no-untyped-call]

    return replace(program, run=run)
