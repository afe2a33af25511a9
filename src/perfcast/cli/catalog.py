"""``perfcast catalog``: what perfcast knows, with sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from perfcast.catalog.devices import DeviceEntry, load_device_entries, load_device_entry
from perfcast.catalog.figures import Figure
from perfcast.catalog.models import ModelEntry, load_model, load_models
from perfcast.cli.options import output_options


@click.group()
def catalog() -> None:
    """List and show devices and models with the source of every figure."""


@catalog.command()
@click.argument("name", required=False)
@output_options(html=False, timeline=False)
def devices(name: str | None, json_path: str | None) -> None:
    """List all devices, or show one."""
    entries = [load_device_entry(name)] if name else list(load_device_entries().values())
    if json_path:
        from perfcast.report.json_format import write_json

        write_json({"devices": [_device_row(entry, with_figures=True) for entry in entries]}, json_path)
    if json_path == "-":
        return
    from rich.console import Console

    from perfcast.report.text import print_device, print_devices

    console = Console(highlight=False)
    if name:
        print_device(_device_row(entries[0]), console, _figure_rows(entries[0].figures))
    else:
        print_devices([_device_row(entry) for entry in entries], console)


@catalog.command()
@click.argument("name", required=False)
@output_options(html=False, timeline=False)
def models(name: str | None, json_path: str | None) -> None:
    """List all models, or show one."""
    entries = [load_model(name)] if name else list(load_models().values())
    if json_path:
        from perfcast.report.json_format import write_json

        write_json({"models": [_model_row(entry, with_figures=True) for entry in entries]}, json_path)
    if json_path == "-":
        return
    from rich.console import Console

    from perfcast.report.text import print_model, print_models

    console = Console(highlight=False)
    if name:
        row = _model_row(entries[0], with_figures=True)
        figures = _figure_rows(_model_figures(entries[0]))
        print_model(row | row.pop("config"), console, figures)
    else:
        print_models([_model_row(entry) for entry in entries], console)


def _device_row(entry: DeviceEntry, with_figures: bool = False) -> dict[str, Any]:
    device = entry.device
    peaks = {d.label: rate for d, rate in device.matrix_flops_per_second.items()}
    vector = {d.label: rate for d, rate in device.vector_flops_per_second.items()}
    row: dict[str, Any] = {
        "name": device.name,
        "title": device.title,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "die": device.die,
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
        "matrix_flops_per_second": (peaks | {}).get("bf16", peaks.get("fp16", vector["fp32"])),
        "aliases": list(entry.aliases),
        "note": device.note,
    }
    if with_figures:
        row["matrix_flops_per_second"] = peaks
        row["vector_flops_per_second"] = vector
        row["figures"] = _figure_rows(entry.figures)
        row["study_figures"] = _figure_rows(entry.study_figures)
    return row


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
