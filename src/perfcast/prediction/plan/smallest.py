"""The plan that cuts a model least: the smallest tensor · pipeline parallelism whose memory fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint

#: How the plan is chosen, for the reader.
RULE = (
    "plan: the smallest tp · pp whose memory fits, of equals the largest tp within a server, then the least "
    "ep; micro-batches of one sequence, ZeRO 1, sequence parallelism with tp"
)


def choose_smallest_plan(
    model: Transformer,
    training: Training,
    sequence_length: int,
    num_devices: int,
    batch_size: int,
    device: Device,
    server_devices: int,
) -> Plan:
    """The first plan, in the order of ``RULE``, that a device's memory holds.

    Args:
        batch_size: Sequences of a step over all devices.
        server_devices: Of the cluster's innermost level, within which tensor parallelism stays.

    Raises:
        PlanError: None fits, or none divides the batch.
    """
    least: int | None = None
    for plan in _candidates(model, num_devices, batch_size, server_devices):
        try:
            footprint = estimate_footprint(model, plan, training, sequence_length, device=device)
        except PlanError:
            continue  # of another model's degrees
        if footprint.device_bytes <= device.memory_bytes:
            return plan
        least = min(least or footprint.device_bytes, footprint.device_bytes)
    if least is None:
        raise PlanError(f"no plan divides a batch of {batch_size} sequences among {num_devices} devices")
    raise PlanError(
        f"no plan fits {num_devices} devices: the least takes {least / device.memory_bytes:.2f} times the "
        "memory of one"
    )


def _candidates(model: Transformer, num_devices: int, batch_size: int, server_devices: int) -> Iterator[Plan]:
    """Plans whose degrees divide devices and batch, those that cut least first."""
    for cut in least_cuts(model, num_devices, server_devices):
        if batch_size % cut.data_parallel == 0:
            yield replace(
                cut,
                num_micro_batches=batch_size // cut.data_parallel,
                zero_stage=1 if cut.data_parallel > 1 else 0,
                sequence_parallel=cut.tensor_parallel > 1,
            )


def least_cuts(model: Transformer, num_devices: int, server_devices: int) -> Iterator[Plan]:
    """Plans whose degrees divide the devices, those that cut least first."""
    heads, layers = model.num_attention_heads, model.num_layers
    degrees = [
        (tensor, pipeline)
        for tensor in powers_up_to(min(server_devices, heads))
        for pipeline in powers_up_to(layers)
        if num_devices % (tensor * pipeline) == 0 and heads % tensor == 0
    ]
    experts = model.experts.num_experts if model.experts else 1
    for tensor, pipeline in sorted(degrees, key=lambda pair: (pair[0] * pair[1], -pair[0])):
        replicas = num_devices // (tensor * pipeline)
        for spread in powers_up_to(experts):
            if experts % spread == 0 and (replicas * tensor) % spread == 0:
                yield Plan(
                    data_parallel=replicas,
                    tensor_parallel=tensor,
                    pipeline_parallel=pipeline,
                    expert_parallel=spread,
                )


def powers_up_to(most: int) -> Iterator[int]:
    """1, 2, 4 … up to ``most``."""
    power = 1
    while power <= most:
        yield power
        power *= 2
