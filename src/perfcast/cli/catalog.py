"""``perfcast catalog``: what perfcast knows, with sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from perfcast.catalog.devices import (
    DeviceEntry,
    load_device_entries,
    load_device_entry,
    load_processor_entries,
)
from perfcast.catalog.models import ModelEntry, load_model, load_models
from perfcast.cli.output import Outputs, output_options, write_answer, write_json
from perfcast.core.dtype import DType
from perfcast.core.hardware import Device
from perfcast.core.instructions import instruction_family
from perfcast.figures import Figure

if TYPE_CHECKING:
    from perfcast.catalog.clusters import ClusterEntry
    from perfcast.report.document import Document


@click.group()
def catalog() -> None:
    """List and show devices, clusters and models with the source of every figure."""


@catalog.command()
@click.argument("name", required=False)
@output_options()
def devices(name: str | None, outputs: Outputs) -> None:
    """List all devices, or show one."""
    from perfcast.report.documents.catalog import device_document, devices_document

    entries = (
        [load_device_entry(name)]
        if name
        else [*load_device_entries().values(), *load_processor_entries().values()]
    )

    def data() -> dict[str, Any]:
        rows = [_device_row(entry, with_figures=True) for entry in entries]
        return {"devices": rows + ([] if name else [_cpu_row(with_figures=True)])}

    def document() -> Document:
        if name:
            return device_document(_device_row(entries[0]), _figure_rows(entries[0].figures))
        return devices_document([*(_device_row(entry) for entry in entries), _cpu_row()])

    write_answer(outputs, document, data)


@catalog.command()
@click.argument("name", required=False)
@output_options()
def clusters(name: str | None, outputs: Outputs) -> None:
    """List all clusters, or show one (a name, or a file of your own)."""
    from perfcast.catalog.clusters import load_cluster_entries, load_cluster_entry
    from perfcast.report.documents.catalog import cluster_document, clusters_document

    entries = [load_cluster_entry(name)] if name else list(load_cluster_entries().values())
    rows = [_cluster_row(entry) for entry in entries]
    write_answer(
        outputs,
        lambda: cluster_document(rows[0]) if name else clusters_document(rows),
        lambda: {"clusters": rows},
    )


@catalog.command()
@click.argument("name", required=False)
@output_options()
def predictors(name: str | None, outputs: Outputs) -> None:
    """List all predictors, or show the model card of one (learned)."""
    from perfcast.report.documents.catalog import predictors_document

    card = _learned_card() if name in (None, "learned") else {}
    rows = _predictor_rows(name)
    listed = [] if name == "learned" else rows
    write_answer(
        outputs,
        lambda: predictors_document(listed, card),
        lambda: {"predictors": rows, **({"learned": card} if card else {})},
    )


@catalog.command()
@click.argument("name", required=False)
@output_options()
def models(name: str | None, outputs: Outputs) -> None:
    """List all models, or show one."""
    from perfcast.report.documents.catalog import model_document, models_document

    entries = [load_model(name)] if name else list(load_models().values())

    def document() -> Document:
        if name:
            return model_document(_model_row(entries[0]), _figure_rows(_model_figures(entries[0])))
        return models_document([_model_row(entry) for entry in entries])

    write_answer(
        outputs,
        document,
        lambda: {"models": [_model_row(entry, with_figures=True) for entry in entries]},
    )


@catalog.command()
@click.argument("answer", required=False)
def schemas(answer: str | None) -> None:
    """List the answers that are written as JSON, or print the JSON schema of one."""
    from perfcast.report.answers import SUBJECTS, schema_of

    if answer is None:
        click.echo("\n".join(SUBJECTS))
    else:
        write_json(schema_of(answer), "-", is_exact=True)


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


def _learned_card() -> dict[str, Any]:
    from perfcast.cost.learned.card import model_card

    return model_card()


def _predictor_rows(name: str | None) -> list[dict[str, Any]]:
    """``learned`` and the published ones, each with how it is trained.

    Raises:
        UnknownNameError: No predictor of this name.
    """
    from perfcast.errors import UnknownNameError
    from perfcast.published.nets.store import RECORD, predictor_folder
    from perfcast.published.registry import PREDICTORS, training_command

    known = ("learned", *PREDICTORS)
    if name is not None and name not in known:
        raise UnknownNameError("predictor", name, known, f"Known: {', '.join(known)}.")
    rows = [
        {
            "name": "learned",
            "description": "our own: physics, device scalars, residuals",
            "trained": "shipped",
        }
    ]
    for key, entry in PREDICTORS.items():
        folder = predictor_folder(key, seed=0)
        trained = "needs none" if not entry.is_trained else f"no; {training_command(key)}"
        if entry.is_trained and (folder / RECORD).exists():
            trained = str(folder)
        rows.append({"name": key, "description": entry.description, "trained": trained})
    return [row for row in rows if name in (None, row["name"])]
