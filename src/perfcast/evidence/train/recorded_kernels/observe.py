"""Kernels of recordings beside their prices: what constants of eager kernels are fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import find_device_name, load_device
from perfcast.core.arrays import Floats
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import InputError
from perfcast.traces.events import Trace
from perfcast.traces.forecast.eager_kernels import KERNEL_FAMILIES, KernelFamily, family_of
from perfcast.traces.forecast.elsewhere import recorded_works
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import Side, price_pairs
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs
from perfcast.traces.link.kernels import nest
from perfcast.traces.timeline.ranks import build_ranks


@dataclass(frozen=True, eq=False)
class ObservedKernels:
    """Operators of one recording that launched kernels of one family; arrays of shape [operators].

    Attributes:
        seconds: Of all kernels of the operator, as recorded.
        prices: Of the operator on the device.
        counts: Kernels.
    """

    recording: str
    vendor: str
    device: str
    family: KernelFamily
    seconds: Floats
    prices: Floats
    counts: Floats


def find_recordings(folder: Path) -> list[Path]:
    """Timelines below a folder, by name."""
    return sorted(path for path in folder.rglob("*.json.gz") if path.is_file())


def observe(paths: Sequence[Path], say: Callable[[str], None]) -> Iterator[ObservedKernels]:
    """Kernels of all recordings that have shapes, on devices of the catalog; others are left out."""
    cost = LearnedCost()
    for path in paths:
        try:
            trace = read_ranks_with_inputs([path])[0]
            name = find_device_name(trace.devices[0].name) if trace.devices else None
            found = list(_of_recording(path, trace, name, cost)) if name else []
        except InputError:
            continue
        if found:
            say(f"{path.name}: {sum(len(one.seconds) for one in found)} operators on {name}")
        yield from found


def _of_recording(path: Path, trace: Trace, name: str, cost: LearnedCost) -> Iterator[ObservedKernels]:
    device = load_device(name)
    (program,) = build_ranks([trace])
    operations = RecordedOperations(trace, nest(trace.events).parents)
    found = [operations.of(work.operator) for work in program.works]
    works = recorded_works(trace, program.works, found, found)
    side = Side(device, cost, "fp32")
    prices = price_pairs(found, found, side, side)
    once = _first_of_each([work.operator for work in program.works])
    taken = prices.is_known & ~works.stays & ~works.is_link & once
    families = np.array([family_of(operation) for operation in found])
    for family in KERNEL_FAMILIES:
        mine = taken & (families == family)
        if mine.any():
            yield ObservedKernels(
                path.name,
                device.vendor,
                name,
                family,
                works.operator_seconds[mine],
                prices.before[mine],
                works.num_kernels[mine],
            )


def _first_of_each(rows: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    met, found = set[int](), np.zeros(len(rows), dtype=np.bool_)
    for index, row in enumerate(rows):
        found[index] = row >= 0 and row not in met
        met.add(row)
    return found
