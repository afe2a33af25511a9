"""``/api/v1/traces``: recordings that are uploaded, explained, and forecast elsewhere or changed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from perfcast.errors import InputError
from perfcast.server.jobs import Job
from perfcast.server.problems import refuse
from perfcast.server.questions import Asking, read_question
from perfcast.server.routes.jobs import JOB_KINDS, said_of
from perfcast.server.routes.questions import body_of, desk_of, format_of, response_of
from perfcast.server.uploads import Upload, Uploads

#: What is asked of a recording → its verb.
VERBS = {"explain": "trace explain", "forecast": "trace forecast"}
#: Options that name recordings; over HTTP they hold ids of uploads.
_RECORDINGS = ("compare", "second")


def uploads_of(request: Request) -> Uploads:
    """Where this server keeps uploads."""
    return desk_of(request).uploads


async def upload(request: Request) -> Response:
    """Take the recording in the body: JSON, gzip or tar as PyTorch's profiler and users' tools write them."""
    found = await uploads_of(request).keep(request.stream())
    headers = {"Location": f"/api/v1/traces/{found.id}"}
    return JSONResponse(_said_of(found), status_code=201, headers=headers)


async def show(request: Request) -> Response:
    """What is known of an upload."""
    return JSONResponse(_said_of(uploads_of(request).find(request.path_params["id"])))


async def drop(request: Request) -> Response:
    """Forget an upload."""
    uploads_of(request).drop(request.path_params["id"])
    return Response(status_code=204)


async def ask(request: Request) -> Response:
    """Explain or forecast an upload; with ``?job=1`` as a job."""
    what = request.path_params["what"]
    if what not in VERBS:
        raise refuse(404, f"Of a recording can be asked: {', '.join(VERBS)}.")
    found = uploads_of(request).find(request.path_params["id"])
    kind = format_of(request, "format")
    asking, files = read_asking(uploads_of(request), VERBS[what], found, dict(await body_of(request)))
    desk = desk_of(request)
    if request.query_params.get("job") not in (None, "", "0"):
        job: Job = desk.jobs.start(asking, JOB_KINDS, files)
        headers = {"Location": f"/api/v1/jobs/{job.id}"}
        return JSONResponse(said_of(job), status_code=202, headers=headers)
    return response_of(await desk.answer(asking, (kind,), files=files), kind)


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


def _said_of(upload: Upload) -> dict[str, object]:
    return {"id": upload.id, "num_bytes": upload.num_bytes, "uploaded_at": upload.uploaded_at}


ROUTES = (
    ("POST", "/traces", upload),
    ("GET", "/traces/{id}", show),
    ("DELETE", "/traces/{id}", drop),
    ("POST", "/traces/{id}/{what}", ask),
)
