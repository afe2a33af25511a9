"""Tables of what the catalog holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from perfcast.catalogs.clusters import ClusterEntry, load_cluster_entries
from perfcast.catalogs.devices import DeviceEntry, load_device_entries, load_processor_entries
from perfcast.catalogs.models import load_models
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.units import format_bytes, format_count


def counts() -> dict[str, int]:
    """How many of each the catalog holds."""
    return {
        "models": len(load_models()),
        "devices": len(load_device_entries()),
        "processors": len(load_processor_entries()),
        "clusters": len(load_cluster_entries()),
    }


def catalog_table(subject: str) -> str:
    """Markdown of the catalog's models, devices, processors or clusters."""
    return f"{counts()[subject]} {subject}.\n\n" + _TABLES[subject]()


def _models() -> str:
    rows = [
        (f"`{entry.name}`", entry.title, entry.family, format_count(entry.parameters.si_value), entry.source)
        for entry in load_models().values()
    ]
    return _table(("Name", "Model", "Family", "Parameters", "Source"), rows)


def _devices() -> str:
    return _of_devices(load_device_entries().values())


def _processors() -> str:
    return _of_devices(load_processor_entries().values())


def _of_devices(entries: Iterable[DeviceEntry]) -> str:
    rows = [
        (
            f"`{device.name}`",
            device.title + (" (announced)" if device.status == "announced" else ""),
            str(device.year),
            format_bytes(device.memory_bytes),
            f"{device.memory_bytes_per_second / 1e9:,.0f}",
            _peak(device),
        )
        for device in (entry.device for entry in entries)
    ]
    return _table(("Name", "Device", "Year", "Memory", "GB/s", "Peak, TFLOP/s"), rows)


def _peak(device: Device) -> str:
    for dtype in (DType.BF16, DType.FP16, DType.FP32):
        for rates in (device.matrix_flops_per_second, device.vector_flops_per_second):
            if dtype in rates:
                return f"{rates[dtype] / 1e12:,.0f} ({dtype.label})"
    return ""


def _clusters() -> str:
    rows = [
        (f"`{entry.name}`", entry.title, f"`{entry.device}`", _levels(entry))
        for entry in load_cluster_entries().values()
    ]
    return _table(("Name", "Cluster", "Device", "Levels from the devices outwards, GB/s of a device"), rows)


def _levels(entry: ClusterEntry) -> str:
    return "; ".join(
        f"{level.size or 'N'} × {level.link.kind} {level.link.bytes_per_second / 1e9:,.0f}"
        for level in entry.levels
    )


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_TABLES: dict[str, Callable[[], str]] = {
    "models": _models,
    "devices": _devices,
    "processors": _processors,
    "clusters": _clusters,
}
