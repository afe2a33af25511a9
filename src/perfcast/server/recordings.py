"""Questions about recordings that were uploaded: the server fills in where these are."""

from __future__ import annotations

from perfcast.errors import InputError
from perfcast.server.questions import Asking, read_question
from perfcast.server.uploads import Upload, Uploads

#: Options that name further recordings; over HTTP they hold ids of uploads.
_RECORDINGS = ("compare", "second")


def read_asking(
    uploads: Uploads, verb: str, upload: Upload, plain: dict[str, object]
) -> tuple[Asking, dict[str, object]]:
    """The question of an upload, and the options that name files of the server's own.

    Raises:
        InputError: It cannot be asked.
        ProblemError: An id of an upload that is not there (404).
    """
    files: dict[str, object] = {"traces": [str(upload.path)], "max_bytes": str(uploads.unpacked_bytes)}
    for name in _RECORDINGS:
        if name in plain:
            files[name] = [str(uploads.find(one).path) for one in _ids(name, plain.pop(name))]
    return read_question(verb, plain, files), files


def _ids(name: str, value: object) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError(f"{name}: the id of an upload, or a list of them")
    return found
