"""What starts a deployment, written into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import InputError

if TYPE_CHECKING:
    from perfcast.prediction.request.serving import ServingRequest


def launch_files(request: ServingRequest, folder: str, model: str | None) -> Mapping[Path, str]:
    """Files with their texts, before anything is forecast: what cannot be launched is said at once.

    Raises:
        InputError: A name that is not known, no folder, or a deployment that the framework cannot run.
    """
    from perfcast.prediction.serving.resolve import resolve_serving
    from perfcast.search.handover.serving import job_of, write_serving

    if Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"--launch {folder}: not a folder")
    written = write_serving(job_of(resolve_serving(request), model))
    return {Path(folder) / name: text for name, text in written.items()}


def write_launch_files(files: Mapping[Path, str]) -> tuple[str, ...]:
    """Write them.

    Returns:
        Their paths.

    Raises:
        InputError: One cannot be written.
    """
    from perfcast.files import write_text_atomically

    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--launch {path.parent}: {error.strerror}") from error
        write_text_atomically(path, text)
    return tuple(str(path) for path in files)
