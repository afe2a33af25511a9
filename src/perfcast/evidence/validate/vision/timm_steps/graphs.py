"""Captured steps of timm's models, kept on disc."""

from __future__ import annotations

from perfcast.core.graph import Graph
from perfcast.core.machine.hardware import Device
from perfcast.evidence.validate.vision import kept
from perfcast.prediction.one_device.graph import capture_step
from perfcast.prediction.request.one_device import Request


def kept_graph(request: Request, device: Device) -> Graph:
    """The step as captured, not yet lowered to a device; from the disc, if it was captured before.

    Raises:
        InputError: It cannot be captured.
    """
    kind = "cpu" if device.is_cpu else "accelerator"
    return kept.kept_graph(f"{request} {kind}", lambda: capture_step(request, device).graph)
