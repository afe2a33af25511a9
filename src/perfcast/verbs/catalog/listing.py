"""Entries of the catalog as JSON holds them, and as documents say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfcast.catalogs.devices import (
    DeviceEntry,
    load_device_entries,
    load_device_entry,
    load_processor_entries,
)
from perfcast.catalogs.models import ModelEntry, load_model, load_models
from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device
from perfcast.core.machine.instructions import instruction_family
from perfcast.figures import Figure

if TYPE_CHECKING:
    from perfcast.catalogs.clusters import ClusterEntry
    from perfcast.report.document import Document


def devices_data(name: str | None) -> dict[str, Any]:
    """All devices and processors, this machine included, or one.

    Raises:
        UnknownNameError: There is no such device; lists close names.
    """
    rows = [_device_row(entry, with_figures=True) for entry in _device_entries(name)]
    return {"devices": rows + ([] if name else [_cpu_row(with_figures=True)])}


def devices_shown(name: str | None) -> Document:
    """The same in words.

    Raises:
        UnknownNameError: As of ``devices_data``.
    """
    from perfcast.report.documents.catalog import device_document, devices_document

    entries = _device_entries(name)
    if name:
        return device_document(_device_row(entries[0]), _figure_rows(entries[0].figures))
    return devices_document([*(_device_row(entry) for entry in entries), _cpu_row()])


def _device_entries(name: str | None) -> list[DeviceEntry]:
    if name:
        return [load_device_entry(name)]
    return [*load_device_entries().values(), *load_processor_entries().values()]


def models_data(name: str | None) -> dict[str, Any]:
    """All models, or one.

    Raises:
        UnknownNameError: There is no such model; lists close names.
    """
    return {"models": [_model_row(entry, with_figures=True) for entry in _model_entries(name)]}


def models_shown(name: str | None) -> Document:
    """The same in words.

    Raises:
        UnknownNameError: As of ``models_data``.
    """
    from perfcast.report.documents.catalog import model_document, models_document

    entries = _model_entries(name)
    if name:
        return model_document(_model_row(entries[0]), _figure_rows(_model_figures(entries[0])))
    return models_document([_model_row(entry) for entry in entries])


def _model_entries(name: str | None) -> list[ModelEntry]:
    return [load_model(name)] if name else list(load_models().values())


def clusters_data(name: str | None) -> dict[str, Any]:
    """All clusters, or one: a name, or a file of the user's own.

    Raises:
        UnknownNameError: There is no such cluster; lists close names.
        CatalogError: The file describes none.
    """
    return {"clusters": _cluster_rows(name)}


def clusters_shown(name: str | None) -> Document:
    """The same in words.

    Raises:
        InputError: As of ``clusters_data``.
    """
    from perfcast.report.documents.catalog import cluster_document, clusters_document

    rows = _cluster_rows(name)
    return cluster_document(rows[0]) if name else clusters_document(rows)


def _cluster_rows(name: str | None) -> list[dict[str, Any]]:
    from perfcast.catalogs.clusters import load_cluster_entries, load_cluster_entry

    entries = [load_cluster_entry(name)] if name else list(load_cluster_entries().values())
    return [_cluster_row(entry) for entry in entries]


def _device_row(entry: DeviceEntry, with_figures: bool = False) -> dict[str, Any]:
    row = _plain_row(entry.device, with_figures) | {"aliases": list(entry.aliases)}
    if with_figures:
        row["figures"] = _figure_rows(entry.figures)
        row["study_figures"] = _figure_rows(entry.study_figures)
    return row


def _cluster_row(entry: ClusterEntry) -> dict[str, Any]:
    from perfcast.report.answers import to_plain
    from perfcast.report.data.collectives import cluster_data

    row: dict[str, Any] = to_plain(cluster_data(entry.of_size()))
    for level, stated in zip(row["levels"], entry.levels, strict=True):
        level["size"] = stated.size or None
    named = {"aliases": list(entry.aliases), "is_even": entry.is_even}
    return row | named | {"figures": _figure_rows(entry.figures)}


def _rates(table: Mapping[DType, float]) -> dict[str, float]:
    return {dtype.label: rate for dtype, rate in table.items()}


def _plain_row(device: Device, with_figures: bool) -> dict[str, Any]:
    """A device's figures in SI: all peaks, or in a list the one to compare by."""
    tables = (device.matrix_flops_per_second, device.vector_flops_per_second)
    peaks = [
        table[dtype] for dtype in (DType.BF16, DType.FP16, DType.FP32) for table in tables if dtype in table
    ]
    row: dict[str, Any] = {
        "name": device.name,
        "title": device.title,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "die": device.die,
        "status": device.status,
        "year": device.year,
        "memory_bytes": device.memory_bytes,
        "memory_bytes_per_second": device.memory_bytes_per_second,
        "num_sms": device.num_sms,
        "clock_hertz": device.clock_hertz,
        "l2_bytes": device.l2_bytes,
        "link_kind": device.link_kind,
        "link_bytes_per_second": device.link_bytes_per_second,
        "power_watts": device.power_watts,
        "launch_seconds": device.launch_seconds,
        "matrix_flops_per_second": peaks[0],
        "note": device.note,
    }
    if with_figures:
        row["instructions"] = instruction_family(device)
        row["matrix_flops_per_second"] = _rates(device.matrix_flops_per_second)
        row["vector_flops_per_second"] = _rates(device.vector_flops_per_second)
    return row


def _cpu_row(with_figures: bool = False) -> dict[str, Any]:
    """The local machine: what calibration found, or what is known without it."""
    from perfcast.errors import CalibrationError
    from perfcast.prediction import local_memory_bytes, resolve_device

    try:
        return _plain_row(resolve_device("cpu"), with_figures)
    except CalibrationError as error:
        return {
            "name": "cpu",
            "title": "this machine, not calibrated",
            "year": None,
            "memory_bytes": local_memory_bytes(),
            "memory_bytes_per_second": None,
            "matrix_flops_per_second": None,
            "note": str(error),
        }


def _model_row(entry: ModelEntry, with_figures: bool = False) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": entry.name,
        "title": entry.title,
        "family": entry.family,
        "architecture": entry.architecture,
        "task": entry.task,
        "source": entry.source,
        "note": entry.note,
        "aliases": list(entry.aliases),
        "parameter_count": int(entry.parameters.value),
        "sequence_length": int(entry.sequence_length.value) if entry.sequence_length else None,
    }
    if with_figures:
        row["figures"] = _figure_rows(_model_figures(entry))
        row["config"] = dict(entry.config)
    return row


def _model_figures(entry: ModelEntry) -> dict[str, Figure]:
    figures = {"parameters": entry.parameters}
    if entry.sequence_length:
        figures["sequence_length"] = entry.sequence_length
    return figures


def _figure_rows(figures: Mapping[str, Figure]) -> list[dict[str, Any]]:
    return [{"name": k, "value": f.value, "unit": f.unit, "source": f.source} for k, f in figures.items()]
