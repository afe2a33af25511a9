"""Collectives beside compute: both slow down.

A collective runs on multiprocessors and moves its bytes through the same memory as the kernels beside it. The
two slowdown factors are measured means (``constants.toml`` has the source); they act while both run.
"""

from __future__ import annotations

from perfcast.cost.collective.constants import Constants, load_constants


def overlapped_seconds(
    compute_seconds: float, communication_seconds: float, constants: Constants | None = None
) -> float:
    """Until both are done, when they start together.

    With slowdowns a of compute and b of communication, and work c and m, both run until the first is done at
    min(a c, b m); what is left of the other continues at its full speed.
    """
    figures = constants or load_constants()
    slowed_compute = compute_seconds * figures.compute_slowdown
    slowed_communication = communication_seconds * figures.communication_slowdown
    if slowed_compute <= slowed_communication:
        return slowed_compute + communication_seconds - slowed_compute / figures.communication_slowdown
    return slowed_communication + compute_seconds - slowed_communication / figures.compute_slowdown


def exposed_seconds(
    compute_seconds: float, communication_seconds: float, constants: Constants | None = None
) -> float:
    """What a collective adds to the compute beside it: its rest, and what it slows compute down."""
    return overlapped_seconds(compute_seconds, communication_seconds, constants) - compute_seconds
