"""Kernels measured on one device, and the file that holds them.

The file is what ``perfcast measure kernels`` leaves in the user's data folder, and what it writes with
``--json`` to be taken to another machine.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import SIZES, WORDS, KernelFamily, KernelTable, join_kernel_tables
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.store import model_names_of
from perfcast.cost.profile import DATA_DIR_VARIABLE, data_folder
from perfcast.errors import CalibrationError
from perfcast.files.lock import hold_lock
from perfcast.files.reading import read_json
from perfcast.files.writing import make_folder, write_text_atomically

SCHEMA = 2
#: Of an older version: scalars, from which no measurement can be read back.
_OLDER = 1
_AGAIN = "delete it, or measure again: perfcast measure kernels"


@dataclass(frozen=True)
class MeasuredKernel:
    """One kernel and its time.

    Attributes:
        name: Says it to people, and tells it from the others of the file: 'linear bf16 m=4096 n=4096 k=4096'.
        sizes: The family's ``SIZES``.
        words: The family's ``WORDS``.
        seconds: Median of the repeats.
        is_cold: Whether its operands came from memory each time.
    """

    name: str
    family: KernelFamily
    sizes: Mapping[str, float]
    words: Mapping[str, str]
    seconds: float
    is_cold: bool = True

    def table(self) -> KernelTable:
        """A table of this one."""
        columns: dict[str, np.ndarray[Any, Any]] = {
            name: np.array([self.sizes[name]], dtype=np.float64) for name in SIZES[self.family]
        }
        columns |= {name: np.array([self.words[name]], dtype=object) for name in WORDS[self.family]}
        return KernelTable(self.family, columns, self.is_cold)


@dataclass(frozen=True)
class MeasuredKernels:
    """All of one device.

    Attributes:
        device: Name of the catalog, or of the user's own description.
        processor: As the driver names it; '' where nobody said.
        setup: Versions, clocks and what else the times hold for.
        measured_at: Date of the last of them, ISO 8601.
    """

    device: str
    kernels: tuple[MeasuredKernel, ...]
    processor: str = ""
    setup: str = ""
    measured_at: str = ""

    def with_kernel(self, kernel: MeasuredKernel, measured_at: str) -> MeasuredKernels:
        """One more, in place of one of the same name."""
        others = tuple(k for k in self.kernels if k.name != kernel.name)
        return replace(self, kernels=(*others, kernel), measured_at=measured_at)

    def describe(self) -> str:
        """'40 kernels measured on this device on 2026-11-23'."""
        when = f" on {self.measured_at[:10]}" if self.measured_at else ""
        kernels = "kernel" if len(self.kernels) == 1 else "kernels"
        return f"{len(self.kernels)} {kernels} measured on {self.device}{when}"

    def by_model(self) -> dict[str, tuple[KernelTable, Floats, tuple[int, ...]]]:
        """By the model that prices them, cold and warm apart: kernels, seconds, places in ``kernels``."""
        places: defaultdict[tuple[str, bool], list[int]] = defaultdict(list)
        for place, kernel in enumerate(self.kernels):
            places[str(model_names_of(kernel.table())[0]), kernel.is_cold].append(place)
        return {
            f"{model}{'' if is_cold else ' warm'}": (
                join_kernel_tables([self.kernels[i].table() for i in some]),
                np.array([self.kernels[i].seconds for i in some], dtype=np.float64),
                tuple(some),
            )
            for (model, is_cold), some in sorted(places.items())
        }

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "schema": SCHEMA,
            "device": self.device,
            "processor": self.processor,
            "setup": self.setup,
            "measured_at": self.measured_at,
            "kernels": [
                {
                    "name": kernel.name,
                    "family": kernel.family.value,
                    **kernel.sizes,
                    **kernel.words,
                    "seconds": kernel.seconds,
                    "is_cold": kernel.is_cold,
                }
                for kernel in self.kernels
            ],
        }


def corrections_path(device_name: str, folder: Path | None = None) -> Path:
    """Where the measured kernels of a device lie: in the user's data folder."""
    return (folder or data_folder()) / f"learned-{device_name}.json"


def hold_corrections(path: Path) -> AbstractContextManager[None]:
    """Be the only one that writes a file of measured kernels (``files.lock``)."""
    return hold_lock(path, elsewhere=f"name another data folder ({DATA_DIR_VARIABLE})")


def save_measured(measured: MeasuredKernels, path: Path) -> None:
    """Write them whole or not at all."""
    make_folder(path.parent)
    text = json.dumps(measured.to_json(), indent=1, allow_nan=False) + "\n"
    write_text_atomically(path, text, updates=True)


def load_measured(path: Path) -> MeasuredKernels:
    """Read a file of measured kernels.

    Raises:
        CalibrationError: It cannot be read, is of another version or holds what cannot be; says which.
    """
    content = read_json(path, what="the measured kernels", error=CalibrationError)
    return parse_measured(content, str(path))


def parse_measured(content: object, where: str) -> MeasuredKernels:
    """Measured kernels from plain data.

    Raises:
        CalibrationError: Of another version, or something is missing or impossible; names kernel and figure.
    """
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else None
        older = "of an older version" if found == _OLDER else "of another version"
        raise CalibrationError(f"{where} is {older} (schema {found}, not {SCHEMA}); {_AGAIN}")
    device, kernels = content.get("device"), content.get("kernels")
    if not isinstance(device, str) or not device or not isinstance(kernels, list):
        raise CalibrationError(f"{where}: 'device' must name one, 'kernels' must be a list; {_AGAIN}")
    texts = {name: str(content.get(name, "")) for name in ("processor", "setup", "measured_at")}
    parsed = tuple(_kernel(each, f"{where}: kernels[{i}]") for i, each in enumerate(kernels))
    _check_names([kernel.name for kernel in parsed], where)
    return MeasuredKernels(device, parsed, **texts)


def check_device(measured: MeasuredKernels, device: Device, where: str) -> None:
    """Raises CalibrationError where the kernels are another device's."""
    if measured.device != device.name:
        raise CalibrationError(f"{where} holds kernels of {measured.device}, not of {device.name}")


def _kernel(data: object, where: str) -> MeasuredKernel:
    if not isinstance(data, dict):
        raise CalibrationError(f"{where}: expected an object, found {type(data).__name__}")
    families = {family.value: family for family in KernelFamily}
    family = families.get(str(data.get("family")))
    if family is None:
        raise CalibrationError(f"{where}: family {data.get('family')!r}; known: {', '.join(families)}")
    sizes = {name: _number(data, name, where) for name in SIZES[family]}
    words = {name: _word(data, name, where) for name in WORDS[family]}
    seconds = _number(data, "seconds", where)
    if seconds <= 0:
        raise CalibrationError(f"{where}: seconds is {seconds}, which cannot be")
    extra = data.keys() - {*sizes, *words, "name", "family", "seconds", "is_cold"}
    if extra:
        raise CalibrationError(f"{where}: {family.value} has no {', '.join(sorted(extra))}")
    name, is_cold = str(data.get("name") or " ".join(_said(sizes, words))), data.get("is_cold", True)
    if not isinstance(is_cold, bool):
        raise CalibrationError(f"{where}: is_cold is {is_cold!r}, not true or false")
    return MeasuredKernel(name, family, sizes, words, seconds, is_cold)


def _said(sizes: Mapping[str, float], words: Mapping[str, str]) -> list[str]:
    return [*words.values(), *(f"{name}={value:g}" for name, value in sizes.items())]


def _number(data: Mapping[str, Any], name: str, where: str) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise CalibrationError(f"{where}: {name} is {value!r}, not a number of at least 0")
    return float(value)


def _word(data: Mapping[str, Any], name: str, where: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise CalibrationError(f"{where}: {name} is {value!r}, not a word")
    return value


def _check_names(names: Sequence[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CalibrationError(f"{where}: {twice[0]!r} is there {names.count(twice[0])} times")
