"""Where published predictors were trained to, and what they learned from."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from perfcast.catalogs.devices import load_device_entries
from perfcast.errors import InputError
from perfcast.published.nets.store import predictor_folder, read_record

#: Devices whose kernels the NeuSight study published for training; its predictors learn from these.
STUDY_DEVICES = frozenset(
    {"p4", "p100-pcie", "v100-pcie-32gb", "t4", "a100-pcie-40gb", "a100-sxm-40gb", "mi100", "mi210"}
)


def find_trained(name: str, vendor: str, dies: Collection[str] = ()) -> Path | None:
    """A folder with a predictor trained on a vendor's devices and on none of these dies; None without one.

    The training on everything is taken where it will do, else one that left devices out, by name.
    """
    for folder in _folders(name, vendor):
        try:
            record = read_record(folder, name)
        except InputError:
            continue
        if not any(_die_of(device) in dies for device in learned_from(record, vendor)):
            return folder
    return None


def learned_from(record: dict[str, Any], vendor: str) -> list[str]:
    """Catalog names of the devices that a predictor was trained on."""
    entries = load_device_entries()
    every = [name for name in sorted(STUDY_DEVICES) if entries[name].device.vendor == vendor]
    return [name for name in record.get("devices", every) if name not in record.get("left_out", ())]


def _folders(name: str, vendor: str) -> Iterator[Path]:
    whole = predictor_folder(name, 0, vendor)
    yield whole
    yield from sorted(whole.parent.glob(f"{whole.name}-without-*"))


def _die_of(device: str) -> str:
    entry = load_device_entries().get(device)
    return entry.device.die if entry else ""
