"""``POST /api/v1/{verb}``: a question's options as JSON, answered as JSON, a page or trace events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from perfcast.server.desk import Desk
from perfcast.server.problems import refuse
from perfcast.server.processes.handle import Reply
from perfcast.server.processes.message import Kind
from perfcast.server.questions import VERBS, read_address, read_body, read_question

#: Form of an answer, as addresses name it → its media type and the ending of its file.
FORMATS: Mapping[str, tuple[str, str]] = {
    "json": ("application/json", "json"),
    "html": ("text/html; charset=utf-8", "html"),
    "perfetto": ("application/json", "trace.json"),
}


def desk_of(request: Request) -> Desk:
    """Where this server answers."""
    return cast("Desk", request.app.state.desk)


async def body_of(request: Request) -> Mapping[str, object]:
    """The options in a request's body.

    Raises:
        ProblemError: It is not said to be JSON (415), or is none (400).
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise refuse(415, "The body is application/json.")
    return read_body(await request.body())


def format_of(request: Request, name: str) -> Kind:
    """The form that an address asks for.

    Raises:
        ProblemError: There is no such form (406).
    """
    found = request.query_params.get(name, "json")
    if found not in FORMATS:
        raise refuse(406, f"{name}: one of {', '.join(FORMATS)}.")
    return cast("Kind", found)


def response_of(reply: Reply, kind: Kind, file_name: str = "") -> Response:
    """A reply in one form; with a file's name, to be kept as a file.

    Raises:
        ProblemError: The answer has no such form (406).
    """
    if kind not in reply.parts:
        raise refuse(406, f"This answer has no form {kind}.")
    media_type, ending = FORMATS[kind]
    headers = {}
    if file_name:
        headers["Content-Disposition"] = f'attachment; filename="{file_name}.{ending}"'
    return Response(reply.parts[kind], media_type=media_type, headers=headers)


def _asked(address: str) -> Callable[[Request], Awaitable[Response]]:
    verb = VERBS[address]

    async def ask(request: Request) -> Response:
        kind = format_of(request, "format")
        asking = read_question(verb, await body_of(request))
        return response_of(await desk_of(request).answer(asking, (kind,)), kind)

    return ask


def _exported(address: str) -> Callable[[Request], Awaitable[Response]]:
    verb = VERBS[address]

    async def export(request: Request) -> Response:
        kind = format_of(request, "as")
        query = "&".join(part for part in request.url.query.split("&") if not part.startswith("as="))
        asking = read_address(verb, query)
        return response_of(await desk_of(request).answer(asking, (kind,)), kind, f"perfcast-{address}")

    return export


ROUTES = (
    *(("POST", f"/{address}", _asked(address)) for address in VERBS),
    *(("GET", f"/{address}/export", _exported(address)) for address in VERBS),
)
