"""The limits of a scheduler: what a framework takes by itself on a device, and what was set instead."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.serving.scheduling import Scheduling
from perfcast.errors import UnknownNameError
from perfcast.frameworks.serving import load_serving_profiles
from perfcast.prediction.request.serving import EngineOptions


def scheduler_of(framework: str, device: Device, plan: Plan, engine: EngineOptions) -> Scheduling:
    """The scheduler of an engine whose cache is not sized yet (one token).

    Raises:
        InputError: A framework that does not serve, or a version or limit that it cannot have.
    """
    profiles = load_serving_profiles()
    if framework not in profiles:
        raise UnknownNameError("serving framework", framework, profiles, f"Known: {', '.join(profiles)}.")
    usual = profiles[framework].scheduler(device, engine.version).scheduling(1, plan.data_parallel)
    asked = {
        "policy": engine.policy,
        "max_sequences": engine.max_sequences,
        "max_step_tokens": engine.max_step_tokens,
        "chunks_prompts": engine.chunks_prompts,
        "block_tokens": engine.block_tokens,
        "rank_wait_steps": engine.rank_wait_steps,
        "polls_every_steps": engine.polls_every_steps,
    }
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})  # type: ignore[arg-type]
