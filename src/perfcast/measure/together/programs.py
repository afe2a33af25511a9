"""The program of a ranked step: built alike for its forecast on virtual ranks and for its ranks here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.mode import Mode
from perfcast.cost.profile import DeviceProfile, local_device
from perfcast.errors import InputError
from perfcast.prediction.one_device.graph import program_and_options
from perfcast.prediction.request.one_device import Request

if TYPE_CHECKING:
    from perfcast.workload.capture.capture import CaptureOptions
    from perfcast.workload.step import Program


@dataclass(frozen=True, kw_only=True)
class RankedStep:
    """A step that ranks of this machine run together.

    Attributes:
        model: As ``Request.model`` names it.
        batch_size: Of each rank.
        is_replicated: Whether the program is wrapped in ``DistributedDataParallel``.
        profile_folder: Where the calibration of a rank lies.
        device: 'cpu' or 'cuda', which gives each rank a GPU.
        least_seconds: Time that undisturbed repeats take together.
        stall_seconds: A rank that waits longer for another gives up.
    """

    model: str
    mode: Mode
    batch_size: int
    sequence_length: int | None
    num_ranks: int
    is_replicated: bool
    profile_folder: str
    device: str = "cpu"
    least_seconds: float = 2.0
    stall_seconds: float = 60.0


def request_of(step: RankedStep) -> Request:
    """The step as a forecast asks for it: fp32, in which kernels are calibrated."""
    return Request(
        model=step.model,
        mode=step.mode,
        batch_size=step.batch_size,
        sequence_length=step.sequence_length,
        dtype="fp32",
        fold_layers=False,
    )


def program_of(step: RankedStep, profile: DeviceProfile) -> tuple[Callable[[], Program], CaptureOptions]:
    """What builds the program, as it is written, and how it is captured.

    Raises:
        InputError: No such model, or one that cannot be built so.
    """
    return program_and_options(request_of(step), local_device(profile))


def check_devices(num_ranks: int) -> None:
    """Before anything is measured.

    Raises:
        InputError: There is not a GPU for each rank.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < num_ranks:
        raise InputError(
            f"--device cuda gives each of {num_ranks} ranks a GPU of its own, PyTorch sees {count} here: "
            f"take {f'--ranks {count}, or ' if count else ''}--device cpu"
        )
