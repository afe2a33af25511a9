"""A problem as the answer of an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from perfcast.server.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

#: Close code of a websocket that is refused (RFC 6455: policy violation).
_POLICY_VIOLATION = 1008


def problem_response(problem: Problem) -> Response:
    """The response that a problem is."""
    return Response(
        problem.body, status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(problem.headers)
    )


async def send_problem(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a problem; a websocket is closed before it opens."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": problem.detail[:100]})
    else:
        await problem_response(problem)(scope, receive, send)


def header_of(scope: Scope, name: bytes) -> str | None:
    """The value of a header by its name in small letters; None where it is missing, '' where it is repeated.

    A head that says its host, origin or token twice says neither.
    """
    found = [value for key, value in scope["headers"] if key == name]
    if len(found) > 1:
        return ""
    return found[0].decode("latin-1") if found else None
