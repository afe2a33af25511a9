"""``perfcast data``: what measured tables hold."""

from __future__ import annotations

import click

from perfcast.cli.lazy import NamingGroup
from perfcast.cli.output import Outputs, output_options, write_answer


@click.group(cls=NamingGroup)
def data() -> None:
    """Look into folders of measured tables."""


@data.command()
@click.option(
    "--data",
    "folders",
    multiple=True,
    required=True,
    metavar="DIR",
    help="Measured tables; may be repeated; 'sample': those that are shipped.",
)
@output_options()
def summary(folders: tuple[str, ...], outputs: Outputs) -> None:
    """Count what the tables hold, what is kept of it, and why the rest is not."""
    from perfcast.catalogs.devices import find_device_name, load_device_entries
    from perfcast.evidence.dataset.coverage import cover, summarise
    from perfcast.evidence.dataset.shipped import folder_of
    from perfcast.evidence.dataset.table import read_tables
    from perfcast.report.documents.evidence.measured_tables import document_of

    devices = {name: entry.device for name, entry in load_device_entries().items()}
    tables = [
        summarise(raw, find_device_name, devices)
        for folder in folders
        for raw in read_tables(folder_of(folder))
    ]
    coverage = cover(tables)
    write_answer(
        outputs,
        lambda: document_of(tables, coverage),
        lambda: {"tables": [table.to_json() for table in tables], "coverage": coverage},
    )
