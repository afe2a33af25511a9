"""What a process holds of a device besides tensors: library workspaces, the driver's context, communicators.

Workspaces of cuBLAS are blocks of the caching allocator; contexts and communicators lie outside it. Few have
measured contexts, on few devices, and libraries load their kernels into them as they are first used, so a
context is given with the range of all that was measured.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.machine.hardware import Device
from perfcast.errors import InputError
from perfcast.figures import parse_figure

_FILE = "process.toml"


@dataclass(frozen=True, slots=True)
class ProcessFigure:
    """A measured or documented size.

    Attributes:
        vendor: As in ``Device.vendor``.
        capability: Beginning of the compute capability that it holds for; '' if the source names no device.
        source: The document, in full.
    """

    vendor: str
    capability: str
    num_bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """The figures of the data file."""

    workspaces: tuple[ProcessFigure, ...]
    contexts: tuple[ProcessFigure, ...]
    communicators: tuple[ProcessFigure, ...]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Memory outside the allocator.

    Attributes:
        low_bytes, high_bytes: Least and most that was measured on any device of the vendor.
        sources: Of the figures that ``num_bytes`` is the median of.
    """

    num_bytes: int
    low_bytes: int
    high_bytes: int
    sources: tuple[str, ...]


def cublas_workspace_bytes(device: Device) -> int:
    """Bytes that each handle of cuBLAS or rocBLAS takes of the allocator on each stream; 0 elsewhere."""
    fitting = [f for f in load_process_figures().workspaces if _holds_for(f, device)]
    return max(fitting, key=lambda figure: len(figure.capability)).num_bytes if fitting else 0


def driver_context(device: Device) -> Overhead:
    """The context of the driver and the kernels loaded into it, of one process.

    Raises:
        InputError: No measurement on devices of this vendor.
    """
    return _overhead(load_process_figures().contexts, device, "context")


def communicator(device: Device) -> Overhead:
    """Buffers of one communicator of NCCL in one process.

    Raises:
        InputError: No measurement on devices of this vendor.
    """
    return _overhead(load_process_figures().communicators, device, "communicator")


def bytes_beside_allocator(device: Device | None, num_communicators: Integers) -> Floats:
    """Bytes of the driver and of communicators in n processes; 0 where no context was measured.

    Args:
        num_communicators: Of a process, shape [n].
    """
    if device is None or device.vendor != "nvidia":
        return np.zeros(len(num_communicators))
    each = communicator(device).num_bytes
    return np.asarray(driver_context(device).num_bytes + each * num_communicators, dtype=np.float64)


@lru_cache
def load_process_figures() -> ProcessFigures:
    """The shipped figures, checked.

    Raises:
        CatalogError: A figure without unit or source, or an impossible one.
    """
    text = resources.files("perfcast.memory_use").joinpath("data", _FILE).read_text(encoding="utf-8")
    return parse_process_figures(text)


def parse_process_figures(text: str) -> ProcessFigures:
    """Like ``load_process_figures``, from the text of such a file."""
    content = tomllib.loads(text)
    sources = content.get("sources", {})
    groups = [
        tuple(_parse_row(row, sources, f"{_FILE}: {name}[{i}]") for i, row in enumerate(content[name]))
        for name in ("workspaces", "contexts", "communicators")
    ]
    return ProcessFigures(*groups)


def _parse_row(row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> ProcessFigure:
    figure = parse_figure(row.get("bytes"), sources, where)
    return ProcessFigure(row["vendor"], row["capability"], round(figure.si_value), figure.source)


def _holds_for(figure: ProcessFigure, device: Device) -> bool:
    return figure.vendor == device.vendor and device.compute_capability.startswith(figure.capability)


def _overhead(figures: tuple[ProcessFigure, ...], device: Device, what: str) -> Overhead:
    """Median of what was measured on the device's own architecture, else on any of the vendor's."""
    known = [figure for figure in figures if figure.vendor == device.vendor]
    if not known:
        raise InputError(
            f"no {what} was measured on devices of {device.vendor}; state its size for {device.name}"
        )
    own = [f for f in known if f.capability and _holds_for(f, device)]
    chosen = own or known
    sizes = [figure.num_bytes for figure in known]
    middle = round(statistics.median(figure.num_bytes for figure in chosen))
    return Overhead(middle, min(sizes), max(sizes), tuple(figure.source for figure in chosen))
