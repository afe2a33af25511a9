"""From the question of ``perfcast memory`` to the one request that it asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.machine.hardware import Device
from perfcast.core.plans.choice import choose_plan
from perfcast.errors import QuestionError
from perfcast.verbs.memory.question import MemoryQuestion
from perfcast.verbs.shared.step import device_request, training_of

if TYPE_CHECKING:
    from perfcast.prediction.request.memory import MemoryRequest, PlanMemoryRequest


def request_of(asked: MemoryQuestion) -> MemoryRequest | PlanMemoryRequest:
    """What is asked: the memory of the model's own modules on one device, or of a plan by the closed form.

    Raises:
        InputError: Contradictions, unknown names, values that no step can have.
        QuestionError: Options that contradict, or that what is asked has no use for.
    """
    if asked.largest_batch and asked.largest_sequence:
        raise QuestionError("choose one of --largest-batch and --largest-sequence")
    if asked.cluster is not None and not asked.fit:
        raise QuestionError("--cluster is what --fit times changes on; links take no memory")
    asked.check()
    if asked.fit or not _is_captured(asked, asked.device):
        return _plan_request(asked, asked.device)
    return _request(asked, asked.device)


def _is_captured(asked: MemoryQuestion, device: str | Device) -> bool:
    """Whether one device runs the model's own modules.

    Raises:
        InputError: A framework that cannot run the model.
    """
    from perfcast.prediction.model import read_model
    from perfcast.prediction.program import choose_program

    if not asked.is_of_one_device or asked.world_size is not None:
        return asked.is_of_one_device
    program = choose_program(
        read_model(asked.model),
        asked.step_mode,
        framework=asked.framework,
        compiles=asked.compile,
        is_local=device.is_cpu if isinstance(device, Device) else device == "cpu",
    )
    return program.is_captured


def _request(asked: MemoryQuestion, device: str | Device) -> MemoryRequest:
    from perfcast.prediction.request.memory import MemoryRequest

    return MemoryRequest(
        workload=device_request(asked, world_size=asked.world_size, rank=asked.count("rank")),
        device=device,
        allocator=asked.text("allocator"),
    )


def _plan_request(asked: MemoryQuestion, place: str | Device) -> PlanMemoryRequest:
    from perfcast.prediction.defaults import choose_defaults
    from perfcast.prediction.model import read_model
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.program import choose_program
    from perfcast.prediction.request.memory import PlanMemoryRequest

    _refuse_what_plans_ignore(asked)
    mode = asked.step_mode
    plan, _ = choose_plan(
        asked.plan_values,
        asked.num_devices if asked.num_devices != 1 else None,
        mode=mode,
        batch_size=asked.batch_size,
        micro_batch_size=asked.micro_batch_size,
    )
    model = read_model(asked.model)
    device = place if isinstance(place, Device) else resolve_device(place)
    program = choose_program(model, mode, plan, framework=asked.framework, compiles=asked.compile)
    chosen = choose_defaults(
        model, mode, device, dtype=asked.format or AUTO, sequence_length=asked.sequence_length
    )
    return PlanMemoryRequest(
        model=asked.model,
        device=place,
        plan=plan,
        recompute_is_open="recompute" not in asked.plan_values,
        mode=mode,
        training=training_of(asked, program.framework, chosen.dtype) if mode == "train" else None,
        dtype=chosen.dtype,
        kv_cache_dtype=asked.kv_cache_dtype,
        framework=program.framework,
        compiles=asked.compile,
        sequence_length=chosen.sequence_length,
        fit=asked.fit,
        cluster=asked.cluster,
        defaults=chosen.notes,
    )


#: Of the model's own modules.
_OF_MODULES = (
    "optimizer_implementation",
    "closed_form",
    "world_size",
    "image_size",
    "memory_format",
    "autocast",
)


def _refuse_what_plans_ignore(asked: MemoryQuestion) -> None:
    if asked.largest_batch or asked.largest_sequence or asked.allocator:
        raise QuestionError(
            "--largest-batch, --largest-sequence and --allocator are of one device that runs the "
            "model's own modules (--framework pytorch)"
        )
    refused = asked.said(_OF_MODULES)
    if refused:
        raise QuestionError(f"{', '.join(refused)}: of a captured model; a plan has a closed form of its own")
    mode = asked.step_mode
    if mode != "train" and asked.text("attention") == "eager":
        raise QuestionError(f"--attention eager: --mode {mode} under a plan has fused attention only")
