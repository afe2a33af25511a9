"""What all plans that are weighed together have in common."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.training import Training, check_trainable
from perfcast.frameworks.profile import MemoryProfile, TrainingProfile
from perfcast.memory_use.allocator.context import cublas_workspace_bytes


@dataclass(frozen=True, slots=True)
class Setting:
    """A training, and the device on which it runs, if one is named."""

    model: Transformer
    training: Training
    profile: TrainingProfile
    sequence_length: int
    device: Device | None = None

    def __post_init__(self) -> None:
        check_trainable(self.model)

    @property
    def memory(self) -> MemoryProfile:
        """What the framework keeps in the training's precision."""
        return self.profile.memory_of(self.training.dtype)

    @property
    def workspace_bytes(self) -> int:
        """Of one library's products; 0 without a device."""
        return workspace_bytes(self.device)


def workspace_bytes(device: Device | None) -> int:
    """Of one library's products on a device; 0 without one."""
    return 0 if device is None else cublas_workspace_bytes(device)
