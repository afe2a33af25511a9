"""Accelerators by name, and processors as devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from perfcast.catalogs.figures import collect_aliases, data_files, load_entries, parse_entries, resolve_name
from perfcast.core.dtype import DTYPES_BY_LABEL, DType
from perfcast.core.machine.hardware import STATUSES, Device, Status
from perfcast.errors import CatalogError, UnknownNameError
from perfcast.figures import (
    Figure,
    Problems,
    parse_figure,
    parse_table,
    parse_text,
    parse_texts,
    parse_toml,
)
from perfcast.ranges import excerpt

_REQUIRED = ("memory", "memory_bandwidth", "multiprocessors", "boost_clock", "l2", "link", "year")
_OPTIONAL = ("power", "last_level", "base_clock", "max_clock")
#: A tenth of what the most efficient shipped unit (fp4) takes.
_LEAST_JOULES_PER_OPERATION = 1e-14
_TEXTS = ("title", "vendor", "architecture", "die")
_NOTES = ("compute_capability", "process", "note")
_KEYS = (
    *_TEXTS,
    *_REQUIRED,
    *_OPTIONAL,
    "vector",
    "matrix",
    "process",
    "compute_capability",
    "aliases",
    "note",
    "status",
    "neusight",
)
_ANNOUNCED = "announced, not measured: its figures are what the vendor has said before it ships. "


@dataclass(frozen=True)
class DeviceEntry:
    """A device with every figure as its source states it.

    Attributes:
        figures: By key of the data file; peaks as ``vector.fp32`` or ``matrix.bf16``.
        study_figures: The figures that the NeuSight study used for it, if it is one of its devices.
    """

    device: Device
    aliases: tuple[str, ...]
    figures: Mapping[str, Figure]
    study_figures: Mapping[str, Figure] = field(default_factory=dict)


def load_device(name: str) -> Device:
    """A device of the catalog, by name or alias, or one described in a ``.toml`` file of the same form.

    Raises:
        UnknownNameError: Not in the catalog; lists close names.
        CatalogError: The file does not describe exactly one device.
    """
    if name.endswith(".toml"):
        entries = parse_device_file(Path(name))
        if len(entries) != 1:
            raise CatalogError(f"{name}: expected one device, found {len(entries)}")
        return next(iter(entries.values())).device
    return load_device_entry(name).device


def load_device_entry(name: str) -> DeviceEntry:
    """Like ``load_device``, with the sources of every figure; catalog names only."""
    entries, aliases = _entries()
    hint = "See 'perfcast catalog devices'; 'cpu' is the local machine after 'perfcast calibrate'."
    return entries[resolve_name("device", name, entries, aliases, hint)]


@cache
def _entries() -> tuple[Mapping[str, DeviceEntry], Mapping[str, str]]:
    """All devices and processors, and their aliases."""
    entries = {**load_device_entries(), **load_processor_entries()}
    return entries, collect_aliases({key: entry.aliases for key, entry in entries.items()})


def find_device_name(spelling: str) -> str | None:
    """The catalog's name for a device as a table spells it, or None."""
    try:
        return load_device_entry(spelling).device.name
    except UnknownNameError:
        return None


@cache
def load_device_entries() -> Mapping[str, DeviceEntry]:
    """All accelerators of the catalog, checked, in the order of the files."""
    return load_entries("devices", "device", parse_device_file)


@cache
def load_processor_entries() -> Mapping[str, DeviceEntry]:
    """All processors of the catalog, in the same form."""
    return load_entries("processors", "processor", parse_device_file)


def parse_device_file(path: Path) -> dict[str, DeviceEntry]:
    """All devices of one data file.

    Raises:
        CatalogError: Names file, device and figure at fault.
    """
    return parse_entries(path, "devices", _parse_device)


def _parse_device(name: str, table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> DeviceEntry:
    problems = Problems()
    for key in (*_TEXTS, *_REQUIRED, "vector"):
        if key not in table:
            problems.note(f"{where}: {key} missing")
    for key in table:
        if key not in _KEYS:
            problems.note(f"{where}: unknown key {excerpt(key)}; known: {', '.join(_KEYS)}")
    status = table.get("status", "shipping")
    if not isinstance(status, str) or status not in STATUSES:
        problems.note(f"{where}.status: {excerpt(status)}; known: {', '.join(STATUSES)}")
    stated = {key: table[key] for key in (*_REQUIRED, *_OPTIONAL) if key in table}
    for group in ("vector", "matrix"):
        with problems.gathered():
            for dtype, entry in parse_table(table, group, where).items():
                if dtype not in DTYPES_BY_LABEL:
                    problems.note(f"{where}.{group}: unknown element type {dtype!r}")
                stated[f"{group}.{dtype}"] = entry
    study = dict[str, Figure]()
    with problems.gathered():
        study = _parse_figures(parse_table(table, "neusight", where), sources, f"{where}.neusight", problems)
    figures = _parse_figures(stated, sources, where, problems)
    texts = dict[str, str]()
    with problems.gathered():
        texts = {key: parse_text(table, key, where) for key in _TEXTS if key in table}
        texts |= {key: parse_text(table, key, where, "") for key in _NOTES}
        texts["link"] = parse_text(parse_table(table, "link", where), "kind", f"{where}.link", "")
    problems.check()
    device = _device_from(name, {**texts, "status": status}, figures)
    _check_plausible(device, where)
    return DeviceEntry(
        device, parse_texts(table, "aliases", where), MappingProxyType(figures), MappingProxyType(study)
    )


def _parse_figures(
    stated: Mapping[str, Any], sources: Mapping[str, str], where: str, problems: Problems
) -> dict[str, Figure]:
    """Every figure that can be read; what is wrong with the others is noted."""
    found = {}
    for key, entry in stated.items():
        with problems.gathered():
            found[key] = parse_figure(entry, sources, f"{where}.{key}")
    return found


def _device_from(name: str, texts: Mapping[str, str], figures: Mapping[str, Figure]) -> Device:
    return Device(
        name=name,
        title=texts["title"],
        vendor=texts["vendor"],
        architecture=texts["architecture"],
        die=texts["die"],
        year=int(figures["year"].si_value),
        memory_bytes=int(figures["memory"].si_value),
        memory_bytes_per_second=figures["memory_bandwidth"].si_value,
        num_sms=int(figures["multiprocessors"].si_value),
        clock_hertz=figures["boost_clock"].si_value,
        l2_bytes=int(figures["l2"].si_value),
        link_kind=texts["link"],
        link_bytes_per_second=figures["link"].si_value,
        power_watts=figures["power"].si_value if "power" in figures else None,
        launch_seconds=launch_floor(texts["vendor"]).si_value,
        vector_flops_per_second=_peaks(figures, "vector"),
        matrix_flops_per_second=_peaks(figures, "matrix"),
        compute_capability=texts["compute_capability"],
        base_clock_hertz=figures["base_clock"].si_value if "base_clock" in figures else None,
        max_clock_hertz=figures["max_clock"].si_value if "max_clock" in figures else None,
        operation_energy=operation_energy(texts["process"]).si_value if texts["process"] else None,
        note=(_ANNOUNCED if texts["status"] == "announced" else "") + texts["note"],
        status=cast("Status", texts["status"]),
    )


def _peaks(figures: Mapping[str, Figure], group: str) -> Mapping[DType, float]:
    prefix = f"{group}."
    return MappingProxyType(
        {
            DTYPES_BY_LABEL[k.removeprefix(prefix)]: f.si_value
            for k, f in figures.items()
            if k.startswith(prefix)
        }
    )


@cache
def launch_floor(vendor: str) -> Figure:
    """Least time from one small kernel to the next that depends on it, by vendor.

    Raises:
        CatalogError: No figure for this vendor.
    """
    return _shared_figure("launch", "launch_floor", vendor, "launch floor for vendor")


@cache
def operation_energy(process: str) -> Figure:
    """Energy of an operation in a manufacturing process, relative to 16 nm.

    Raises:
        CatalogError: No figure for this process; lists the known ones.
    """
    return _shared_figure("process", "operation_energy", process, "process")


def _shared_figure(folder: str, group: str, key: str, what: str) -> Figure:
    """A figure that many devices share, from the one file of a folder.

    Raises:
        CatalogError: The file has none for this key; lists those it has.
    """
    (path,) = data_files(folder)
    content = parse_toml(path)
    try:
        entry = content[group][key]
    except KeyError:
        known = ", ".join(content[group])
        raise CatalogError(f"{path.name}: no {what} {excerpt(key)}; known: {known}") from None
    return parse_figure(entry, content["sources"], f"{path.name}: {group}.{key}")


def _check_plausible(device: Device, where: str) -> None:
    """Refuse what no device can be: figures that contradict each other by more than their rounding."""
    if DType.FP32 not in device.vector_flops_per_second:
        raise CatalogError(f"{where}: vector.fp32 missing; ordinary arithmetic has no peak without it")
    if device.num_sms < 1 or device.year < 1:
        raise CatalogError(f"{where}: multiprocessors and year are whole numbers from 1")
    peaks = (*device.vector_flops_per_second.items(), *device.matrix_flops_per_second.items())
    for dtype, peak in peaks:
        per_cycle = peak / (device.num_sms * device.clock_hertz)
        if per_cycle > 2**22:
            raise CatalogError(
                f"{where}: {peak:.3g} {dtype.label} operations per second are {per_cycle:.3g} per "
                "multiprocessor and cycle; check multiprocessors, clock and peak"
            )
    if device.base_clock_hertz is not None and device.base_clock_hertz > device.clock_hertz:
        raise CatalogError(f"{where}: base_clock is above boost_clock")
    if device.max_clock_hertz is not None and device.max_clock_hertz < device.clock_hertz:
        raise CatalogError(f"{where}: max_clock is below boost_clock")
    widest = max(rate for _, rate in peaks)
    if device.power_watts is not None and device.power_watts / widest < _LEAST_JOULES_PER_OPERATION:
        raise CatalogError(
            f"{where}: {widest:.3g} operations per second in {device.power_watts:g} W are "
            f"{device.power_watts / widest:.1g} J each, less than any unit takes; check peaks and power"
        )
    if device.memory_bytes_per_second > 1e14:
        raise CatalogError(
            f"{where}: {device.memory_bytes_per_second:.3g} bytes per second of memory bandwidth"
        )
