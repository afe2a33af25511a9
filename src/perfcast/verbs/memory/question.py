"""What ``perfcast memory`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.ranges import DEVICES, RANK
from perfcast.verbs.question import FILE, usually, within
from perfcast.verbs.shared.step import StepQuestion


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion(StepQuestion):
    """The memory of one step of a model: the peak, what it consists of, and whether it fits.

    Attributes:
        largest_batch: Search the largest batch of one forward that fits.
        largest_sequence: Search the largest sequence length that fits.
        allocator: PyTorch's allocator settings, such as expandable_segments:True.
        world_size: Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's.
        rank: With --world-size: which of them.
        fit: Say what would make it fit, and what that costs.
        cluster: With --fit: the links that changes are timed on.
        framework: Whose program trains: pytorch, fsdp, torchtitan, megatron, nemo, megatron_local, hai_llm,
            nanotron, deepspeed; or answers: vllm, sglang, trtllm, pytorch.
        closed_form: Compare with the closed form of a plan, difference by difference.
    """

    verb: ClassVar[str] = "memory"

    device: str | Device = field(metadata=FILE, kw_only=False)
    largest_batch: bool = False
    largest_sequence: bool = False
    allocator: str | None = field(default=None, metadata=usually(""))
    world_size: int | None = field(default=None, metadata=within(DEVICES))
    rank: int | None = field(default=None, metadata=usually(0, within=RANK))
    fit: bool = False
    cluster: str | Cluster | None = field(default=None, metadata=FILE)
    framework: str | None = None
    closed_form: bool = False
