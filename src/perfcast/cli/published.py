"""``perfcast published``: figures of published systems beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.progress import status
from perfcast.errors import InputError

if TYPE_CHECKING:
    from perfcast.published.comparison import Comparison


@click.command()
@click.argument("name", required=False)
@click.option("--data", metavar="DIR", help="Measured tables, for the rows that need them.")
@output_options(html=True)
def published(name: str | None, data: str | None, outputs: Outputs) -> None:
    """List the published systems, or print one's figures beside ours.

    \b
    perfcast published
    perfcast published neusight --data DIR

    A row says what a paper prints, what perfcast computes and how far they are apart. Where a figure cannot
    be reproduced, one line says why; rows that need measured tables are printed with --data alone.
    """
    from perfcast.published.systems import SYSTEMS, compare_system
    from perfcast.report.documents.published import comparison_document, systems_document

    if name is None:
        if data is not None:
            raise InputError("--data: name the system whose figures are compared with it")
        write_answer(outputs, lambda: systems_document(SYSTEMS), lambda: {"systems": _listed()})
        return
    found = compare_system(name, None if data is None else Path(data))
    if data is not None:
        from perfcast.evidence.validate.steps.study_figures import with_study

        with status("scoring measured steps"):
            found = with_study(found, Path(data))
    write_answer(outputs, lambda: comparison_document(found), lambda: _compared(found))


def _listed() -> list[dict[str, str]]:
    from perfcast.published.systems import SYSTEMS

    return [{"name": name, "title": one.title, "state": one.state} for name, one in SYSTEMS.items()]


def _compared(found: Comparison) -> dict[str, Any]:
    return {
        "system": found.system,
        "paper": found.paper,
        "protocol": found.protocol,
        "figures": [
            {
                "what": one.what,
                "published": one.published,
                "ours": one.ours,
                "unit": one.unit,
                "difference": one.difference,
                "where": one.where,
                "note": one.note,
            }
            for one in found.figures
        ],
        "notes": list(found.notes),
        "reason": found.reason,
    }
