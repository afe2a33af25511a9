"""What starts the deployment that was found, written into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.serving.launch import check_launch, first_launch_files, write_launch_files

if TYPE_CHECKING:
    from perfcast.searches.serving.result import DeploymentSearchResult
    from perfcast.verbs.search.question import SearchQuestion


def check_search_launch(asked: SearchQuestion, folder: str | None, model: str | None) -> None:
    """Say before the search what its end could not do.

    Raises:
        InputError: As of ``check_launch``.
        UsageError: Of another search.
    """
    given = [name for name, value in (("--launch", folder), ("--launch-model", model)) if value is not None]
    if given and asked.search_mode != "serving":
        raise click.UsageError(f"{', '.join(given)}: of --mode serving, not of {asked.search_mode}")
    if model is not None and folder is None:
        raise click.UsageError("--launch-model: of --launch DIR")
    if folder is not None:
        check_launch(asked.models[0], folder, model)


def write_launch(found: DeploymentSearchResult, folder: str, model: str | None) -> tuple[str, ...]:
    """Write what starts the first deployment that its framework can run; lines that say so."""
    requests = [each.request for each in found.ranked]
    place, files, obstacle = first_launch_files(requests, folder, model)
    other = (
        (
            f"deployment 1 is not launched: {obstacle}",
            f"launched is the next that can be: {place + 1} of the list",
        )
        if place
        else ()
    )
    return (*other, *(f"wrote {name}" for name in write_launch_files(files)))
