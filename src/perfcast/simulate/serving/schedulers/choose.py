"""Which scheduler a policy means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perfcast.core.serving.scheduling import SchedulerPolicy, Scheduling, Speculation
from perfcast.simulate.serving.schedulers.base import Scheduler
from perfcast.simulate.serving.schedulers.sglang import SglangScheduler
from perfcast.simulate.serving.schedulers.trtllm import TrtllmScheduler
from perfcast.simulate.serving.schedulers.vllm import VllmScheduler
from perfcast.simulate.serving.schedulers.vllm_v0 import VllmV0Scheduler

_SCHEDULERS: Mapping[SchedulerPolicy, type[Scheduler]] = MappingProxyType(
    {
        "vllm": VllmScheduler,
        "vllm_v0": VllmV0Scheduler,
        "sglang": SglangScheduler,
        "trtllm": TrtllmScheduler,
    }
)


def build_scheduler(
    scheduling: Scheduling, speculation: Speculation | None = None, *, hands_over: bool = False
) -> Scheduler:
    """The scheduler of one engine, nothing in it yet; ``hands_over``: it reads prompts for another pool."""
    return _SCHEDULERS[scheduling.policy](scheduling, speculation, hands_over=hands_over)
