"""Where a part runs, and what forecasts there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.core.machine.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.errors import CalibrationError
from perfcast.evidence.gpu_check.result import CheckRow

#: Less of a catalog's units or memory is a slice of the device; drivers and ECC keep some of the memory.
_LEAST_SHARE_OF_UNITS, _LEAST_SHARE_OF_MEMORY = 0.9, 0.75


def _has_pairs(properties: Any) -> bool:
    return re.match(r"gfx1\d", str(getattr(properties, "gcnArchName", ""))) is not None


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
        keep: Told of what is measured before it is forecast, so that it counts should the part be stopped.
    """

    device: str
    folder: Path
    keep: Callable[[Found], None] = lambda found: None

    @property
    def is_dry(self) -> bool:
        """Whether sizes are small."""
        return self.device == "cpu"

    def forecaster(self) -> tuple[Device, CostModel | None]:
        """The device as forecasts know it, and what prices its operations.

        A GPU of the catalog is priced by 'learned', as shipped: nothing that this check measured moves it.
        Any other by the lines that the part 'calibration' fitted. Where there are none, nothing prices it;
        the device is then a stand-in of its vendor, to know what is run, and figures are measured alone.
        """
        from perfcast.cost.linear import LinearCost
        from perfcast.cost.profile import load_local_profile, local_device
        from perfcast.prediction import resolve_cost_model, resolve_device

        name = self.catalog_name()
        if name is not None:
            device = resolve_device(name)
            return device, resolve_cost_model(None, device)
        try:
            profile = load_local_profile(self.device, self.folder)
        except CalibrationError:
            if self.is_dry:
                raise
            return resolve_device(self._stand_in()), None
        return local_device(profile), LinearCost(profile)

    def catalog_name(self) -> str | None:
        """Of the whole device: a slice of one (MIG, a virtual GPU, a partition) is another device."""
        import torch

        from perfcast.catalogs.devices import find_device_name, load_device

        if self.is_dry:
            return None
        here = torch.cuda.get_device_properties(0)
        name = find_device_name(here.name)
        if name is None:
            return None
        known = load_device(name)
        # ROCm counts the pairs in which AMD's gaming devices have their units (gfx10 and later).
        units = here.multi_processor_count * (2 if _has_pairs(here) else 1)
        is_whole = units > _LEAST_SHARE_OF_UNITS * known.num_sms
        is_whole = is_whole and here.total_memory > _LEAST_SHARE_OF_MEMORY * known.memory_bytes
        return name if is_whole else None

    def _stand_in(self) -> str:
        import torch

        return "mi300x" if torch.version.hip else "h100-sxm"

    def synchronize(self) -> None:
        """Wait for the device."""
        import torch

        if not self.is_dry:
            torch.cuda.synchronize()
