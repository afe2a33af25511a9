"""``perfcast explain-result``."""

from __future__ import annotations

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.progress import status
from perfcast.errors import DiffersError


@click.command(name="explain-result")
@click.argument("file", metavar="FILE")
@click.option(
    "--allow-code", is_flag=True, help="Run Python files that the result's question names; trust them first."
)
@output_options(html=True)
def explain_result(file: str, allow_code: bool, outputs: Outputs) -> None:
    """Say how a result came to be, compute it again, and say whether it is equal.

    \b
    perfcast predict llama3-8b --cluster dgx-h100:8 --plan tp=8 --json step.json
    perfcast explain-result step.json

    FILE is what --json wrote. Exit code 0: equal; 4: it differs (which figures, by how much, and what has
    changed since), or cannot be computed again, as what was measured; 2: FILE is no result of perfcast.
    """
    from perfcast.verbs.explain_result.answer import explain_result as explain

    with status("computing it again") as on_progress:
        found = explain(file, allow_code=allow_code, on_progress=on_progress)
    write_answer(outputs, found.document, found.data)
    if not found.is_equal:
        raise DiffersError(f"{file}: {found.data().outcome}; {found.data().reason}")
