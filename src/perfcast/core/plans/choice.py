"""From what a text says of a plan to the plan: degrees, devices and batch made to agree, defaults chosen."""

from __future__ import annotations

import math
from typing import Any

from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.plans.idle import refuse_idle
from perfcast.core.plans.text import (
    BALANCED,
    EVEN,
    KEY_OF_FIELD,
    PlanValues,
    usual_reshard,
    usual_sequence_parallel,
)
from perfcast.errors import PlanError

#: Degrees that a replica of the model takes.
_CUTS = ("tensor_parallel", "pipeline_parallel", "context_parallel")
#: Without a batch size, micro-batches of a replica for each stage: enough that the pipeline is mostly full.
_MICRO_BATCHES_PER_STAGE = 4
#: What a plan may say of a single device.
_OF_ONE_DEVICE = ("recompute", "schedule", "micro_batch_size")


def complete_plan(
    values: PlanValues,
    num_devices: int | None = None,
    batch_size: int | None = None,
    micro_batch_size: int | None = None,
    mode: Mode | None = None,
) -> Plan:
    """The plan of a number of devices; data parallelism follows where it is not given.

    Args:
        num_devices: None takes as many as the degrees multiply up to.
        batch_size: Sequences of one step, over all devices; None is four micro-batches for each stage of
            every replica of a pipeline, one without stages.
        micro_batch_size: Of one forward; None is the plan's own, or runs a replica's share of a stated batch
            at once.
        mode: What the plan is for, where that is known: keys that are of another are refused.

    Raises:
        PlanError: Degrees that do not multiply up to the devices, a batch that does not divide; the message
            states the equation. A key that has no effect.
    """
    given = {"--devices": num_devices, "--batch-size": batch_size, "--micro-batch-size": micro_batch_size}
    for option, count in given.items():
        if count is not None and count < 1:
            raise PlanError(f"{option} {count}: must be at least 1")
    stated: dict[str, Any] = dict(values)
    replicas = _data_parallel(values, num_devices)
    micro = stated_micro_batch_size(values, micro_batch_size)
    micro, num_micro_batches = _cut_batch(replicas, _degree(values, "pipeline_parallel"), batch_size, micro)
    tensor, inputs = _degree(values, "tensor_parallel"), _degree(values, "tensor_parallel_inputs")
    stated.setdefault("sequence_parallel", usual_sequence_parallel(tensor, inputs))
    zero_stage = int(stated.get("zero_stage", 0))
    stated.setdefault(
        "reshard_after_forward", usual_reshard(zero_stage, _degree(values, "pipeline_parallel"))
    )
    if _degree(values, "virtual_stages_per_rank") > 1:
        stated.setdefault("schedule", "interleaved")
    if stated.get("recompute_modules") and stated.setdefault("recompute", "selective") != "selective":
        raise PlanError(
            f"recompute_modules with recompute={stated['recompute']}: they are of recompute=selective"
        )
    if stated.get("stage_layers") == EVEN:
        del stated["stage_layers"]
    if stated.get("stage_layers") == BALANCED:
        raise PlanError(
            "stages=balanced is what a search finds; give the layers of each stage, such as 7/8/8/7"
        )
    stated |= {"data_parallel": replicas, "micro_batch_size": micro, "num_micro_batches": num_micro_batches}
    plan = Plan(**stated)
    refuse_idle(plan, values.keys(), mode=mode)
    return plan


def choose_plan(
    values: PlanValues,
    num_devices: int | None,
    *,
    mode: Mode,
    batch_size: int | None,
    micro_batch_size: int | None,
    is_captured: bool = False,
) -> tuple[Plan, list[str]]:
    """The plan of a verb that needs no batch, and what was chosen for the user, in words.

    A pipeline trains in micro-batches of one sequence, and is filled; in inference a batch travels through it
    as a micro-batch for each stage, as sweeps and searches of inference have it. The sequence is cut beside
    the weights (sp) where a transformer is trained from its sizes.

    Args:
        is_captured: Whether the model is captured, not built from its sizes.

    Raises:
        PlanError: As of ``complete_plan``.
    """
    is_training, notes = mode == "train", []
    micro = micro_batch_size
    has_micro = micro is not None or "micro_batch_size" in values
    if not has_micro and is_training and _degree(values, "pipeline_parallel") > 1:
        micro = 1
        notes.append("no --micro-batch-size was given: 1 sequence")
    batch = batch_size
    if batch is None and not is_training:
        batch = _data_parallel(values, num_devices) * (stated_micro_batch_size(values, micro) or 1)
    if not has_micro and not is_training and batch is not None:
        share = batch // _data_parallel(values, num_devices)
        micro = serving_micro_batch_size(share, _degree(values, "pipeline_parallel"))
        if micro is not None and micro != share:
            notes.append(f"a micro-batch of {micro} sequences for each stage of the pipeline")
    if is_captured or not is_training:
        values = {"sequence_parallel": False, **values}
    plan = complete_plan(values, num_devices, batch, micro, mode)
    if batch_size is None:
        count = plan.global_batch_size
        notes.append(
            f"no --batch-size was given: {count} sequence{'s' * (count != 1)}, "
            f"{plan.num_micro_batches} of {plan.micro_batch_size} on each replica"
        )
    return plan, notes


def serving_micro_batch_size(share: int, stages: int) -> int | None:
    """Sequences of a micro-batch where a replica's share travels as one for each stage, if it divides so.

    Returns:
        None: A share that does not divide, left whole.
    """
    count = min(stages, share)
    return share // count if count > 0 and share % count == 0 else None


def implied_devices(values: PlanValues) -> int:
    """As many as the stated degrees multiply up to."""
    return replica_devices(values) * _degree(values, "data_parallel")


def replica_devices(values: PlanValues) -> int:
    """Devices of one replica: tp · pp · cp."""
    return math.prod(_degree(values, field) for field in _CUTS)


def is_one_device(values: PlanValues, num_devices: int | None = None) -> bool:
    """Whether a plan says no more than how one device works."""
    return num_devices in (None, 1) and all(
        field in _OF_ONE_DEVICE or value == (field not in ("zero_stage", "sequence_parallel"))
        for field, value in values.items()
    )


def _degree(values: PlanValues, field: str) -> int:
    value = values.get(field, 1)
    assert isinstance(value, int)
    return value


def _data_parallel(values: PlanValues, num_devices: int | None) -> int:
    """Replicas that the devices hold.

    Raises:
        PlanError: The degrees do not multiply up to the devices.
    """
    cut = replica_devices(values)
    if num_devices is None:
        return _degree(values, "data_parallel")
    if "data_parallel" not in values and num_devices % cut:
        raise PlanError(f"{num_devices} devices are no multiple of tp · pp · cp = {cut}")
    replicas = _degree(values, "data_parallel") if "data_parallel" in values else num_devices // cut
    if replicas * cut != num_devices:
        raise PlanError(
            f"dp={replicas} · tp · pp · cp = {replicas * cut}, but there are {num_devices} devices"
        )
    return replicas


def stated_micro_batch_size(values: PlanValues, option: int | None) -> int | None:
    """What the plan or ``--micro-batch-size`` says; None where neither does.

    Raises:
        PlanError: They contradict.
    """
    if "micro_batch_size" not in values:
        return option
    stated = _degree(values, "micro_batch_size")
    if option not in (None, stated):
        key = KEY_OF_FIELD["micro_batch_size"]
        raise PlanError(f"{key}={stated} and --micro-batch-size {option} contradict")
    return stated


def _cut_batch(replicas: int, stages: int, batch_size: int | None, micro: int | None) -> tuple[int, int]:
    """Size and number of micro-batches of a replica.

    Raises:
        PlanError: The batch does not divide.
    """
    if batch_size is None:
        return micro or 1, _MICRO_BATCHES_PER_STAGE * stages if stages > 1 else 1
    if batch_size % replicas:
        raise PlanError(f"batch size {batch_size} is no multiple of dp={replicas}")
    share = batch_size // replicas
    micro = share if micro is None else micro
    if share % micro:
        raise PlanError(f"{share} sequences of each replica are no multiple of the micro-batch size {micro}")
    return micro, share // micro
