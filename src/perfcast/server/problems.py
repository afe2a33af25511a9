"""Every error as a problem of RFC 9457: what was wrong with the request, never what is inside of the server.

An ``InputError`` is the user's to mend: its message goes out as on the command line, with close names where
it has some. Whatever else happens is logged with its traceback under an id, and the answer names that id
alone.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from perfcast.errors import InputError, PerfcastError, UnknownNameError

LOG = logging.getLogger("perfcast.server")
MEDIA_TYPE = "application/problem+json"

#: Status → (word of its address under ``problems``, what it means in general).
KINDS: dict[int, tuple[str, str]] = {
    400: ("malformed", "The request cannot be read"),
    401: ("token", "A token is needed"),
    403: ("refused", "The request is refused"),
    404: ("not-found", "There is nothing here by that name"),
    405: ("method", "The method does not fit this address"),
    406: ("format", "The answer does not exist in this format"),
    408: ("slow", "The request took too long to arrive"),
    409: ("state", "This cannot be done now"),
    411: ("length", "The length of the body is needed"),
    413: ("too-large", "The request is too large"),
    415: ("media-type", "The body is not of a type that is read here"),
    421: ("host", "This server is not known by that name"),
    422: ("question", "The question cannot be answered"),
    429: ("busy", "Too much is asked at a time"),
    431: ("head", "The head of the request is too large"),
    500: ("internal", "Something went wrong in the server"),
    503: ("unavailable", "The server cannot answer now"),
    504: ("too-long", "The answer took too long"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as its answer.

    Attributes:
        status: Of HTTP.
        detail: One or two sentences for whoever asked.
        close_names: Names that may have been meant.
        id: By which the log knows it; '' of what is not logged.
        retry_after_seconds: When to come again; None where that does not help.
        allow: Methods that the address has, of a 405.
    """

    status: int
    detail: str
    close_names: tuple[str, ...] = ()
    id: str = ""
    retry_after_seconds: int | None = None
    allow: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """``application/problem+json``."""
        word, title = KINDS.get(self.status, ("http", HTTPStatus(self.status).phrase))
        members: dict[str, object] = {
            "type": f"urn:perfcast:problem:{word}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.close_names:
            members["close_names"] = list(self.close_names)
        if self.id:
            members["instance"] = f"urn:perfcast:log:{self.id}"
        return json.dumps(members).encode() + b"\n"

    @property
    def headers(self) -> Mapping[str, str]:
        """Beside the media type."""
        found = {}
        if self.retry_after_seconds is not None:
            found["Retry-After"] = str(self.retry_after_seconds)
        if self.status == HTTPStatus.UNAUTHORIZED:
            found["WWW-Authenticate"] = 'Bearer realm="perfcast"'
        if self.allow:
            found["Allow"] = ", ".join(self.allow)
        return found


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status}: {problem.detail}")
        self.problem = problem


def refuse(status: int, detail: str, *, retry_after_seconds: int | None = None) -> ProblemError:
    """The error that ends a request with this problem."""
    return ProblemError(Problem(status=status, detail=detail, retry_after_seconds=retry_after_seconds))


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is to whoever asked; what they cannot mend is logged."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, InputError):
        close = tuple(error.close_names) if isinstance(error, UnknownNameError) else ()
        return Problem(status=422, detail=str(error), close_names=close)
    if isinstance(error, PerfcastError):  # an operation without a rule: said on purpose, in words for users
        return Problem(status=422, detail=str(error))
    return internal_problem(error)


def internal_problem(error: BaseException) -> Problem:
    """A problem that says nothing but the id under which the log has the traceback."""
    name = secrets.token_hex(8)
    LOG.error("internal fault %s", name, exc_info=error)
    return Problem(
        status=500, detail=f"An internal fault. The server's log has it under the id {name}.", id=name
    )
