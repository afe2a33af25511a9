"""Whatever leaves the application as an error becomes a problem, unless the answer has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.server.guards.reply import send_problem
from perfcast.server.problems import problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ErrorGuard:
    """The last one to see an error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its error is answered with a problem."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            problem = problem_of(error)
            if not has_begun:
                await send_problem(problem, scope, receive, send)
