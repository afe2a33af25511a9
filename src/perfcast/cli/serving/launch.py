"""What starts a deployment, written into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import InputError, PlanError

if TYPE_CHECKING:
    from perfcast.prediction.request.serving import ServingRequest


def check_launch(request_model: str, folder: str, model: str | None) -> None:
    """Say before the work what its end could not do.

    Args:
        request_model: Of the catalog, or a folder.
        model: Its name on Hugging Face, where one was given.

    Raises:
        InputError: A folder that is none, a model whose name on Hugging Face is not known.
    """
    from perfcast.searches.handover.serving import find_hub_name

    if Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"--launch {folder}: not a folder")
    if model is None:
        find_hub_name(request_model)


def launch_files(request: ServingRequest, folder: str, model: str | None) -> Mapping[Path, str]:
    """Files with their texts, before anything is forecast: what cannot be launched is said at once.

    Raises:
        InputError: A name that is not known, no folder, or a deployment that the framework cannot run.
    """
    from perfcast.prediction.serving.resolve import resolve_serving
    from perfcast.searches.handover.serving import job_of, write_serving

    setting = resolve_serving(request)
    check_launch(setting.model.name, folder, model)
    written = write_serving(job_of(setting, model))
    return {Path(folder) / name: text for name, text in written.items()}


def first_launch_files(
    requests: Sequence[ServingRequest], folder: str, model: str | None
) -> tuple[int, Mapping[Path, str], str]:
    """Of deployments, the best first, the first that its framework can run.

    Returns:
        Its place, its files, and what is in the way of the first; '' where nothing is.

    Raises:
        PlanError: It can run none; says what is in the first one's way.
    """
    obstacle = ""
    for place, request in enumerate(requests):
        try:
            return place, launch_files(request, folder, model), obstacle
        except PlanError as error:
            obstacle = obstacle or str(error)
    raise PlanError(f"none of {len(requests)} deployments can be launched: {obstacle}")


def write_launch_files(files: Mapping[Path, str]) -> tuple[str, ...]:
    """Write them.

    Returns:
        Their paths.

    Raises:
        InputError: One cannot be written.
    """
    from perfcast.files.writing import make_folder, write_text_atomically

    for path, text in files.items():
        make_folder(path.parent)
        write_text_atomically(path, text)
    return tuple(str(path) for path in files)
