"""Where a part runs, and what forecasts there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.core.machine.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.evidence.gpu_check.result import CheckRow


class LeftOutError(Exception):
    """This machine has not what a part takes; the message says what that is."""


@dataclass(frozen=True)
class Found:
    """Rows of a part, and what else it found, plain data."""

    rows: tuple[CheckRow, ...]
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class Place:
    """A device, and a folder for what is kept between parts.

    Attributes:
        device: 'cuda', or 'cpu' for a dry run with small sizes.
    """

    device: str
    folder: Path

    @property
    def is_dry(self) -> bool:
        """Whether sizes are small."""
        return self.device == "cpu"

    def forecaster(self) -> tuple[Device, CostModel]:
        """The device as forecasts know it, and what prices its operations.

        A GPU of the catalog is priced by 'learned', as shipped: nothing that this check measured moves it.
        Any other by the lines that the part 'calibration' fitted.

        Raises:
            CalibrationError: Those are needed and not there.
        """
        from perfcast.cost.linear import LinearCost
        from perfcast.cost.profile import load_local_profile, local_device

        name = self._catalog_name()
        if name is not None:
            from perfcast.prediction import resolve_cost_model, resolve_device

            device = resolve_device(name)
            return device, resolve_cost_model(None, device)
        profile = load_local_profile(self.device, self.folder)
        return local_device(profile), LinearCost(profile)

    def _catalog_name(self) -> str | None:
        import torch

        from perfcast.catalogs.devices import find_device_name

        return None if self.is_dry else find_device_name(torch.cuda.get_device_name())

    def synchronize(self) -> None:
        """Wait for the device."""
        import torch

        if not self.is_dry:
            torch.cuda.synchronize()
