"""One device is asked about by device or by a plan of one: both lead to the program that runs there."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import AUTO
from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import RECOMPUTE, Plan
from perfcast.core.training import DTYPES, FRAMEWORKS, OPTIMIZERS, AttentionKernels, Training
from perfcast.core.words import known_word
from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.one_device.predict import predict_one_device
from perfcast.prediction.program import PYTORCH, choose_program
from perfcast.prediction.request.one_device import OneDeviceRequest, Request
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.step.predict import predict_step

#: transformers' implementation of attention → what a plan calls its kernels.
KERNELS_OF_ATTENTION: dict[str, AttentionKernels] = {"sdpa": "flash", "eager": "math"}


def predict_either(request: OneDeviceRequest) -> Forecast | PlanForecast:
    """The step by the program that is asked for, or that is usual.

    Returns:
        A ``Forecast`` of the model's own modules, a ``PlanForecast`` of one device of a framework's kernels.

    Raises:
        InputError: Unknown names, impossible sizes, a program that cannot run the model.
    """
    found = route(request)
    return predict_step(found) if isinstance(found, PlanRequest) else predict_one_device(found)


def route(request: OneDeviceRequest) -> OneDeviceRequest | PlanRequest:
    """The request as the program that runs it takes it.

    Raises:
        InputError: As ``predict_either``.
    """
    workload = request.workload
    if workload.world_size is not None:
        return request
    device = resolve_device(request.device) if isinstance(request.device, str) else request.device
    program = choose_program(
        read_model(workload.model),
        workload.mode,
        framework=request.framework,
        compiles=workload.compile,
        is_local=device.is_cpu,
    )
    if program.is_captured:
        return replace(request, framework=PYTORCH)
    return _under_plan(request, device, program.framework)


def lone_cluster(device: str | Device) -> Cluster:
    """A device by itself, which no links join to others."""
    name = device if isinstance(device, str) else device.name
    title = resolve_device(device).title if isinstance(device, str) else device.title
    return Cluster(name, title, name, (Level("device", 1, Link("none", 0.0, 1.0)),))


def _under_plan(request: OneDeviceRequest, device: Device, framework: str) -> PlanRequest:
    workload = request.workload
    if workload.optimizer_implementation is not None:
        raise PlanError(
            f"optimizer implementation {workload.optimizer_implementation}: of the model's own modules, "
            f"framework pytorch; {framework} has its own"
        )
    if workload.image_size is not None or workload.memory_format != "contiguous" or workload.autocast:
        raise PlanError(
            "image size, memory format and autocast are of the model's own modules, framework pytorch; "
            f"{framework}'s kernels are of transformers by their sizes"
        )
    if workload.mode != "train" and workload.attention != "sdpa":
        raise PlanError(f"attention {workload.attention}: {framework} has fused attention only")
    model = read_model(workload.model)
    chosen = choose_defaults(
        model, workload.mode, device, dtype=workload.dtype, sequence_length=workload.sequence_length
    )
    kernels = None if workload.mode == "train" else framework
    return PlanRequest(
        model=model,
        cluster=lone_cluster(request.device if isinstance(request.device, str) else device),
        plan=Plan(
            micro_batch_size=workload.micro_batch_size or workload.batch_size,
            num_micro_batches=workload.num_micro_batches,
            recompute=known_word("recompute", workload.recompute, RECOMPUTE),
        ),
        mode=workload.mode,
        training=_training(workload, framework, chosen.dtype) if workload.mode == "train" else None,
        dtype=AUTO if workload.mode == "train" else chosen.dtype,
        framework=framework,
        sequence_length=chosen.sequence_length,
        cost_model=resolve_cost_model(request.cost_model, device, kernels, request.weights),
        defaults=chosen.notes,
    )


def _training(workload: Request, framework: str, dtype: str) -> Training:
    return Training(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer=known_word("optimizer", workload.optimizer, OPTIMIZERS),
        framework=known_word("framework", framework, FRAMEWORKS),
        attention=attention_kernels(workload.attention),
    )


def attention_kernels(name: str) -> AttentionKernels:
    """What a plan calls the kernels of transformers' implementation of attention.

    Raises:
        UnknownNameError: Not one of them.
    """
    if name not in KERNELS_OF_ATTENTION:
        known = ", ".join(KERNELS_OF_ATTENTION)
        raise UnknownNameError("attention", name, KERNELS_OF_ATTENTION, f"Known: {known}.")
    return KERNELS_OF_ATTENTION[name]
