"""``/api/v1/traces``: recordings that are uploaded, explained, and forecast elsewhere or changed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from perfcast.server.jobs import Job
from perfcast.server.problems import refuse
from perfcast.server.recordings import read_asking
from perfcast.server.routes.jobs import JOB_KINDS, said_of
from perfcast.server.routes.questions import body_of, desk_of, format_of, response_of
from perfcast.server.uploads import Upload, Uploads

#: What is asked of a recording → its verb.
VERBS = {"explain": "trace explain", "forecast": "trace forecast"}


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


def _said_of(upload: Upload) -> dict[str, object]:
    return {"id": upload.id, "num_bytes": upload.num_bytes, "uploaded_at": upload.uploaded_at}


ROUTES = (
    ("POST", "/traces", upload),
    ("GET", "/traces/{id}", show),
    ("DELETE", "/traces/{id}", drop),
    ("POST", "/traces/{id}/{what}", ask),
)
