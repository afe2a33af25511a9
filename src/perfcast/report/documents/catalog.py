"""What the catalog has: devices, clusters, models and predictors, every figure with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perfcast.report.document import Block, Column, Document, Fact, Note, Provenance, Section, Table, words
from perfcast.units import GIGA

#: An entry of the catalog as it is written as JSON.
Row = Mapping[str, Any]


def devices_document(devices: Iterable[Row]) -> Document:
    """A list of devices.

    Args:
        devices: With ``matrix_flops_per_second`` the peak to compare by, such as bf16's; None where unknown.
    """
    table = Table(
        columns=(
            Column("Name", folds=False),
            Column("Device"),
            Column("Year"),
            Column("Memory", "B"),
            Column("Bandwidth", "B/s"),
            Column("Peak", "FLOP/s"),
        ),
        rows=tuple(
            (
                device["name"],
                device["title"],
                device["year"],
                device["memory_bytes"],
                device["memory_bytes_per_second"],
                device.get("matrix_flops_per_second"),
            )
            for device in devices
        ),
    )
    return Document(title="Devices", blocks=(table,))


def device_document(device: Row, figures: Iterable[Row]) -> Document:
    """One device."""
    return _one(device, figures)


def models_document(models: Iterable[Row]) -> Document:
    """A list of models."""
    table = Table(
        columns=(
            Column("Name", folds=False),
            Column("Model"),
            Column("Family", folds=False),
            Column("Parameters", "count"),
        ),
        rows=tuple((row["name"], row["title"], row["family"], row["parameter_count"]) for row in models),
    )
    return Document(title="Models", blocks=(table,))


def model_document(model: Row, figures: Iterable[Row]) -> Document:
    """One model."""
    return _one(model, figures)


def clusters_document(clusters: Iterable[Row]) -> Document:
    """A line per cluster: levels from the devices outwards."""
    table = Table(
        columns=(
            Column("Name"),
            Column("Device"),
            Column("Levels from the devices outwards: size x link, GB/s per device"),
        ),
        rows=tuple((row["name"], row["device"], _levels(row["levels"])) for row in clusters),
    )
    return Document(
        title="Clusters",
        blocks=(table, Note("NAME:N is a cluster of N devices; NAME/K:N takes K of each server or rack.")),
    )


def _levels(levels: Iterable[Row]) -> str:
    return ", ".join(
        f"{level['size'] or 'N'} x {level['kind']} {level['bytes_per_second'] / GIGA:.4g}" for level in levels
    )


def cluster_document(cluster: Row) -> Document:
    """One cluster with the source of every figure."""
    return _one(cluster, cluster["figures"], Fact("device", cluster["device"]))


def _one(entry: Row, figures: Iterable[Row], *facts: Fact) -> Document:
    """An entry, and its figures with the numbers of their sources, which are long and often shared."""
    sources = dict[str, int]()
    rows = []
    for figure in figures:
        value, unit = figure["value"], "" if figure["unit"] in ("1", "year") else figure["unit"]
        shown = f"{value:.10g}" if isinstance(value, float) else str(value)
        number = sources.setdefault(figure["source"], len(sources) + 1)
        rows.append((words(figure["name"]), f"{shown} {unit}".rstrip(), f"[{number}]"))
    columns = (Column("Figure", folds=False), Column("Value"), Column("Source", folds=False))
    note = (Fact("note", entry["note"]),) if entry.get("note") else ()
    return Document(
        title=entry["title"] or entry["name"],
        lead=entry["name"],
        facts=(*facts, *note),
        blocks=(Table(columns=columns, rows=tuple(rows)),),
        provenance=Provenance(sources=tuple(sources)),
    )


def predictors_document(predictors: Sequence[Row], card: Row) -> Document:
    """All predictors, and how ``learned`` was made.

    Args:
        predictors: With ``trained``: where, or how to train it.
        card: Of ``learned``; {} for none.
    """
    blocks: list[Block] = []
    if predictors:
        columns = (Column("Name"), Column("What it is"), Column("Trained"))
        rows = tuple((row["name"], row["description"], row["trained"]) for row in predictors)
        blocks.append(Table(columns=columns, rows=rows))
    if card:
        blocks.append(_card(card))
    return Document(title="Predictors", blocks=tuple(blocks))


def _card(card: Row) -> Section:
    """``learned``: data, protocol, limits, and errors by operation and device."""
    facts = tuple(Fact(key.capitalize(), card[key]) for key in ("protocol", "limits", "command"))
    models = tuple(_trained(model) for model in card["models"])
    return Section(title="learned: our forecaster", facts=facts, blocks=models)


def _trained(model: Row) -> Section:
    record = model["record"]
    facts = [Fact("Devices", ", ".join(record["devices"])), Fact("Tables", ", ".join(record["tables"]))]
    if record["left_out"]:
        facts.append(Fact("Left out", ", ".join(record["left_out"])))
    if model["coverage"]:
        inside = ", ".join(f"{kin} {share:.0%}" for kin, share in model["coverage"].items())
        facts.append(Fact("Inside the interval, left out", inside))
    table = Table(
        columns=(
            Column("Operation"),
            Column("Format", folds=False),
            Column("Devices"),
            Column("Rows"),
            Column("Known", "share"),
            Column("Unseen", "share"),
            Column("Family left out", "share"),
            Column("Vendor left out", "share"),
        ),
        rows=tuple(
            (
                row["operation"],
                row["dtype"],
                row["devices"],
                row["count"],
                row["known_error"],
                row["unseen_error"],
                row["family_error"],
                row["vendor_error"],
            )
            for row in model["errors"]
        ),
    )
    return Section(title=f"{model['name']}: {record['num_rows']} rows", facts=tuple(facts), blocks=(table,))
