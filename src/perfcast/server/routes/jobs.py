"""``/api/v1/jobs``: questions that take long, started, watched, fetched and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from perfcast.errors import UnknownNameError
from perfcast.server.problems import refuse
from perfcast.server.questions import VERBS, read_question
from perfcast.server.routes.questions import FORMATS, body_of, desk_of, format_of, response_of

if TYPE_CHECKING:
    from perfcast.server.jobs import Job
    from perfcast.server.processes.message import Kind

#: Forms that a job keeps its result in.
JOB_KINDS = cast("tuple[Kind, ...]", tuple(FORMATS))


def said_of(job: Job) -> dict[str, object]:
    """What is said of a job: its state, and where its result is."""
    problem = job.problem
    return {
        "id": job.id,
        "verb": job.asking.question.verb,
        "question": {name: value for name, value in job.asking.plain.items() if name not in job.files},
        "state": job.state,
        "progress": job.progress,
        "message": job.message,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "problem": problem and {"status": problem.status, "detail": problem.detail},
    }


async def submit(request: Request) -> Response:
    """Start one: ``{"verb": …, "question": {…}}``."""
    body = await body_of(request)
    verb, question = body.get("verb"), body.get("question")
    unknown = sorted(set(body) - {"verb", "question"})
    if unknown or not isinstance(verb, str) or not isinstance(question, dict):
        raise refuse(422, "A job is an object with 'verb' (a text) and 'question' (an object of options).")
    if verb not in VERBS:
        raise UnknownNameError("verb", verb[:100], VERBS)
    job = desk_of(request).jobs.start(read_question(VERBS[verb], question), JOB_KINDS)
    headers = {"Location": f"/api/v1/jobs/{job.id}"}
    return JSONResponse(said_of(job), status_code=202, headers=headers)


async def show(request: Request) -> Response:
    """Its state."""
    return JSONResponse(said_of(desk_of(request).jobs.find(request.path_params["id"])))


async def result(request: Request) -> Response:
    """Its answer."""
    job = desk_of(request).jobs.find(request.path_params["id"])
    kind = format_of(request, "as")
    name = f"perfcast-{job.asking.question.verb.replace(' ', '-')}"
    return response_of(job.reply(), kind, name if "as" in request.query_params else "")


async def cancel(request: Request) -> Response:
    """End it."""
    return JSONResponse(said_of(desk_of(request).jobs.cancel(request.path_params["id"])))


ROUTES = (
    ("POST", "/jobs", submit),
    ("GET", "/jobs/{id}", show),
    ("DELETE", "/jobs/{id}", cancel),
    ("GET", "/jobs/{id}/result", result),
)
