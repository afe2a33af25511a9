"""How much is asked at a time, and what a body may cost: its bytes and the time that it takes to arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from perfcast.server.guards.reply import header_of, send_problem
from perfcast.server.problems import Problem, ProblemError, refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from perfcast.server.settings import Settings

#: Where recordings are taken: of the API, and the page's own uploads.
UPLOAD_PATHS = ("/api/v1/traces", "/_nicegui/")
#: When to come again, if too much is asked at a time.
RETRY_SECONDS = 1


class LoadGuard:
    """Answers 503 where too many requests are answered already."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._most = settings.requests_in_flight
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self.in_flight >= self._most:
            detail = f"{self._most} requests are being answered; come again."
            problem = Problem(status=503, detail=detail, retry_after_seconds=RETRY_SECONDS)
            await send_problem(problem, scope, receive, send)
            return
        self.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.in_flight -= 1


class BodyGuard:
    """Ends requests whose body is too long (413) or too slow (408)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a body that is counted and timed."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own = self._settings
        is_upload = scope["path"].startswith(UPLOAD_PATHS)
        body = _Body(
            receive,
            most=own.upload_bytes if is_upload else own.request_bytes,
            seconds=own.upload_seconds if is_upload else own.body_seconds,
        )
        length = header_of(scope, b"content-length")
        if length is not None and length.isdecimal() and int(length) > body.most:
            await send_problem(body.too_large, scope, receive, send)
            return
        await self._app(scope, body.receive, send)


class _Body:
    """A body on its way."""

    def __init__(self, receive: Receive, *, most: int, seconds: float) -> None:
        self._receive = receive
        self.most = most
        self._seconds = seconds
        self._until = asyncio.get_running_loop().time() + seconds
        self._come = 0
        self._is_whole = False

    @property
    def too_large(self) -> Problem:
        return Problem(status=413, detail=f"A body of at most {self.most:,} bytes is read here.")

    async def receive(self) -> Message:
        """The next part.

        Raises:
            ProblemError: It is too long or too late.
        """
        if self._is_whole:  # only the end of the connection is still to come
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise refuse(408, f"The body did not arrive within {self._seconds:g} s.") from None
        if message["type"] == "http.request":
            self._come += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._come > self.most:
                raise ProblemError(self.too_large)
        return message
