"""Devices and cost models by name."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from perfcast.catalogs.devices import load_device
from perfcast.core.machine.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError, UnknownNameError

COST_MODELS = ("learned", "roofline", "linear")


def default_cost_model(device: Device) -> str:
    """'linear' for the local processor, which calibration measured; 'learned' for everything else."""
    return "linear" if device.is_local else "learned"


def resolve_device(name: str) -> Device:
    """A device by name; 'cpu' is the local machine as calibration found it."""
    if name == "cpu":
        from perfcast.cost.profile import load_local_profile, local_device

        return local_device(load_local_profile())
    return load_device(name)


def is_processor(name: str) -> bool:
    """Whether a device's name is a processor's; the local machine's need not be calibrated."""
    return name == "cpu" or load_device(name).is_cpu


def resolve_cost_model(
    asked: str | CostModel | None, device: Device, framework: str | None = None, weights: str | None = None
) -> CostModel:
    """A cost model as it is asked for; 'linear' needs a calibration of the device.

    Args:
        asked: A name, an object that prices operations, or None for the device's default.
        framework: Whose measured kernels 'learned' takes; None is PyTorch, or what the object has.
        weights: Folder of trained models, for 'learned'; None: the shipped ones.

    Raises:
        UnknownNameError: No such cost model or framework.
        PlanError: Weights for a cost model that knows none.
    """
    if asked is not None and not isinstance(asked, str):
        _refuse_weights(asked.name, weights)
        return _of_framework(asked, framework)
    name = asked or default_cost_model(device)
    if name != "learned":
        _refuse_weights(name, weights)
    if name == "learned" and device.is_local:
        raise PlanError(
            "learned knows accelerators and processors of the catalog; the local one has --cost-model linear"
        )
    if name == "learned":
        from perfcast.cost.learned.corrections.load import load_corrected
        from perfcast.cost.learned.translate import DEFAULT_FRAMEWORK

        folder = Path(weights) if weights else None
        return load_corrected(device, framework or DEFAULT_FRAMEWORK, weights=folder)
    if name == "roofline":
        return Roofline()
    if name == "linear":
        from perfcast.cost.linear import LinearCost
        from perfcast.cost.profile import load_profile_of

        return LinearCost(load_profile_of(device.name))
    raise UnknownNameError("cost model", name, COST_MODELS, f"Known: {', '.join(COST_MODELS)}.")


def _refuse_weights(name: str, weights: str | None) -> None:
    if weights is not None:
        raise PlanError(f"--weights is for the learned cost model, not for {name}")


def _of_framework(cost_model: CostModel, framework: str | None) -> CostModel:
    """'learned' with the kernels of a framework; no other cost model tells frameworks apart."""
    from perfcast.cost.learned.model import LearnedCost

    if framework is None or not isinstance(cost_model, LearnedCost):
        return cost_model
    return replace(cost_model, framework=framework)


def local_memory_bytes() -> int:
    """Memory of the machine that this runs on."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_device(name: str) -> Device:
    """Like ``resolve_device``, but the local machine's memory needs no calibration."""
    if name != "cpu":
        return load_device(name)
    capacity = local_memory_bytes()
    nothing = math.nan
    return Device(
        name="cpu", title="this machine", vendor="cpu", architecture="", die="", year=0,
        memory_bytes=capacity, memory_bytes_per_second=nothing, num_sms=os.cpu_count() or 1,
        clock_hertz=nothing, l2_bytes=0, link_kind="", link_bytes_per_second=nothing, power_watts=None,
        launch_seconds=nothing, vector_flops_per_second={}, matrix_flops_per_second={},
    )  # fmt: skip
