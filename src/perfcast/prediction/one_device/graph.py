"""A request and a device → the graph of one step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.core.tensor import Category, MemoryFormat
from perfcast.errors import ModelError, PlanError
from perfcast.prediction.defaults import complete_request
from perfcast.prediction.model import read_model
from perfcast.prediction.request.one_device import Request
from perfcast.workload.kept.store import captures_folder, captures_in
from perfcast.workload.kept.surroundings import surroundings

if TYPE_CHECKING:
    from perfcast.workload.capture.capture import CaptureOptions
    from perfcast.workload.shape import StepShape
    from perfcast.workload.step import Program

#: What a step is lowered by; it is captured alike.
_OF_LOWERING: Mapping[str, Any] = {"compile": False, "cuda_graphs": False, "host": None}


def build_graph(request: Request, device: Device) -> tuple[Graph, StepSizes]:
    """What is asked for, captured once (``captured_step``) and lowered to the device."""
    request, _ = complete_request(request, device)
    if _can_be_kept(request):
        return _built_once(request, device, _key(request, device), captures_folder())
    return _built(request, device)


@lru_cache(maxsize=16)
def _built_once(request: Request, device: Device, key: str, folder: Path | None) -> tuple[Graph, StepSizes]:
    """The key says what a file of the request holds now."""
    return _built(request, device)


def _built(request: Request, device: Device) -> tuple[Graph, StepSizes]:
    step = captured_step(request, device)
    layout = format_as_run(step.graph, request, device)
    if layout != request.memory_format:
        step = captured_step(replace(request, memory_format=layout), device)
    return run_on(step.graph, request, device), step.sizes


def captured_step(request: Request, device: Device) -> CapturedStep:
    """The step of a request with nothing left open, as one kind of device runs it, not lowered yet.

    A model of the catalog, of a configuration or of timm is captured once: its step is kept in memory and, by
    all that decides it, as a file (``workload.kept``). A program of one's own may change between two calls,
    and is captured at each.
    """
    if not _can_be_kept(request):
        return capture_step(request, device)
    around = surroundings()
    key = f"{_key(request, device)}\n{around}"
    captures = captures_in(captures_folder())
    return captures.step(key, lambda: capture_step(request, device), on_disk=around is not None)


def _can_be_kept(request: Request) -> bool:
    return request.world_size is None and not read_model(request.model).is_program


def _key(request: Request, device: Device) -> str:
    """All that a capture is asked for; not what is decided when a captured step is lowered."""
    model = read_model(request.model)
    asked = asdict(replace(request, model=model.name if model.is_timm else "", **_OF_LOWERING))
    about: dict[str, Any] = {"request": asked, "config": model.config, "architecture": model.architecture}
    about |= {"length": model.usual_sequence_length, "on_processor": device.is_cpu}
    return json.dumps(about, sort_keys=True, default=dict)


def format_as_run(graph: Graph, request: Request, device: Device) -> MemoryFormat:
    """The memory format in which a captured step runs: torch.compile may choose another on NVIDIA's GPUs."""
    from perfcast.workload.fuse.layout import prefers_channels_last

    if not request.compile or device.vendor != "nvidia" or not _has_images(graph):
        return request.memory_format
    return "channels_last" if prefers_channels_last(graph) else request.memory_format


def _has_images(graph: Graph) -> bool:
    given = {index for index, storage in enumerate(graph.storages) if storage.category == Category.INPUT}
    return any(tensor.storage in given and len(tensor.type.shape) in (4, 5) for tensor in graph.tensors)


def capture_step(request: Request, device: Device) -> CapturedStep:
    """What is asked for, with nothing left open, as one kind of device runs it: a processor, or any other."""
    from perfcast.workload.capture.capture import capture

    build, options = program_and_options(request, device)
    if request.world_size is None:
        graph, program = capture(build, options)
    else:
        from perfcast.workload.parallel_program.virtual_ranks import capture_on_virtual_rank

        graph, program = capture_on_virtual_rank(
            build, options, rank=request.rank, world_size=request.world_size
        )
    return CapturedStep(graph, program.sizes)


def run_on(graph: Graph, request: Request, device: Device) -> Graph:
    """A captured graph lowered to a device, and compiled if that is asked for."""
    from perfcast.workload.lower import lower

    graph = lower(graph, device, request.dtype)
    if request.compile:
        from perfcast.workload.fuse import fuse

        if device.is_local:
            raise PlanError(
                "--compile models the fusion of GPU kernels; it has no model of the local processor"
            )
        graph = fuse(graph)
    return graph


def program_and_options(request: Request, device: Device) -> tuple[Callable[[], Program], CaptureOptions]:
    """What builds the program that is asked for, and how it is captured for a device."""
    from perfcast.workload.capture.capture import CaptureOptions
    from perfcast.workload.shape import StepShape
    from perfcast.workload.step import OptimizerChoice

    shape = StepShape(
        mode=request.mode,
        batch_size=request.micro_batch_size or request.batch_size,
        sequence_length=request.sequence_length,
        dtype=request.dtype,
        attention=request.attention,
        recompute=request.recompute,
        tuning=request.tuning,
        image_size=request.image_size,
        memory_format=request.memory_format,
        autocast=request.autocast,
    )
    # PyTorch's own default: one kernel per step over lists on accelerators, a loop on the processor.
    implementation = request.optimizer_implementation or ("loop" if device.is_cpu else "foreach")
    options = CaptureOptions(
        training=request.mode == "train",
        for_accelerator=not device.is_cpu,
        autocast_dtype=shape.autocast_dtype,
        optimizer=OptimizerChoice(request.optimizer, implementation),
        num_micro_batches=request.num_micro_batches if request.mode == "train" else 1,
        fold_layers=request.fold_layers,
    )
    return _in_memory_format(_program_builder(request, shape), request), options


def _in_memory_format(build: Callable[[], Program], request: Request) -> Callable[[], Program]:
    from perfcast.workload.models.memory_format import to_memory_format

    return lambda: to_memory_format(build(), request.memory_format, request.title)


def _program_builder(request: Request, shape: StepShape) -> Callable[[], Program]:
    from perfcast.workload.models.huggingface import build_program
    from perfcast.workload.models.own_module import function_of
    from perfcast.workload.models.timm import build_timm_program
    from perfcast.workload.models.user_file import build_user_program, load_function
    from perfcast.workload.recommender.model import build_dlrm_program

    model = read_model(request.model)
    if model.is_program:
        if request.recompute != "none":
            raise PlanError("recompute is the program's own business in a program of one's own")
        function = load_function(model.name) if model.own_module is None else function_of(model.own_module)
        return lambda: build_user_program(function, shape)
    if model.is_timm:
        return lambda: build_timm_program(model.name, shape)
    if model.is_recommender:
        if not request.tuning.is_full:
            raise PlanError(f"{model.name} trains everything: leave out --lora, --qlora and --freeze")
        if request.mode == "decode":
            raise PlanError(f"{model.name} does not generate tokens; it has no decode step")
        if shape.image_size is not None:
            raise ModelError(f"{model.name} takes no images: leave out the image size")
        return lambda: build_dlrm_program(model.config, shape.batch_size, request.mode == "train")
    if shape.sequence_length is None:
        shape = replace(shape, sequence_length=model.usual_sequence_length)
    return lambda: build_program(model.config, model.architecture, shape)
