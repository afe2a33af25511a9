"""``perfcast catalog``: what perfcast knows, with sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.lazy import NamingGroup
from perfcast.cli.options.places import OUTPUT_FILE
from perfcast.cli.output import Outputs, output_options, write_answer, write_json
from perfcast.errors import InputError
from perfcast.printer.streams import say

if TYPE_CHECKING:
    from perfcast.catalogs.templates import Kind


@click.group(cls=NamingGroup)
def catalog() -> None:
    """List and show devices, clusters and models with the source of every figure."""


@catalog.command()
@click.argument("name", required=False)
@output_options()
def devices(name: str | None, outputs: Outputs) -> None:
    """List all devices, or show one."""
    from perfcast.verbs.catalog.listing import devices_data, devices_shown
    from perfcast.verbs.origin import list_command

    said = list_command("devices", name)
    write_answer(outputs, lambda: devices_shown(name), lambda: devices_data(name), command=said)


@catalog.command()
@click.argument("name", required=False)
@output_options()
def clusters(name: str | None, outputs: Outputs) -> None:
    """List all clusters, or show one (a name, or a file of your own)."""
    from perfcast.verbs.catalog.listing import clusters_data, clusters_shown
    from perfcast.verbs.origin import list_command

    said = list_command("clusters", name)
    write_answer(outputs, lambda: clusters_shown(name), lambda: clusters_data(name), command=said)


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
    from perfcast.verbs.catalog.listing import models_data, models_shown
    from perfcast.verbs.origin import list_command

    said = list_command("models", name)
    write_answer(outputs, lambda: models_shown(name), lambda: models_data(name), command=said)


@catalog.command(name="new-device")
@click.argument("file", type=OUTPUT_FILE, metavar="FILE.toml")
def new_device(file: str) -> None:
    """Write a commented file of a device of your own, which --device FILE.toml takes."""
    _write_template("device", file)


@catalog.command(name="new-cluster")
@click.argument("file", type=OUTPUT_FILE, metavar="FILE.toml")
def new_cluster(file: str) -> None:
    """Write a commented file of a cluster of your own, which --cluster FILE.toml:N takes."""
    _write_template("cluster", file)


def _write_template(kind: Kind, file: str) -> None:
    """Raises InputError where the file is there, or is none of TOML."""
    from perfcast.catalogs.templates import template_of
    from perfcast.files.writing import write_text_atomically

    path = Path(file)
    if path.suffix != ".toml":
        raise InputError(f"{file}: such a file ends in .toml, by which --{kind} knows it")
    if path.exists():
        raise InputError(f"{file} is there already; name a new file")
    write_text_atomically(path, template_of(kind, path.stem))
    say(f"wrote {file}: replace its figures, then give it as --{kind}")


@catalog.command()
@click.option("--clear", is_flag=True, help="Remove them.")
def captures(clear: bool) -> None:
    """Say which folder keeps captured steps and what it holds, or clear it."""
    from perfcast.units import format_bytes
    from perfcast.workload.kept import store

    folder = store.captures_folder()
    if folder is None:
        say(f"captures are kept in memory alone: {store.FOLDER_VARIABLE} says so")
        return
    found = store.clear(folder) if clear else store.kept_files(folder)
    said = "removed from" if clear else "kept in"
    steps = "step" if found.count == 1 else "steps"
    say(f"{found.count} captured {steps}, {format_bytes(found.num_bytes)}, {said} {folder}")


@catalog.command()
@click.argument("answer", required=False)
def schemas(answer: str | None) -> None:
    """List the answers that are written as JSON, or print the JSON schema of one."""
    from perfcast.report.answers import SUBJECTS, schema_of

    if answer is None:
        say("\n".join(SUBJECTS))
    else:
        write_json(schema_of(answer), "-", is_exact=True)


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
