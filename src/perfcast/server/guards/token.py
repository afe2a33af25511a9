"""The token: programs bring it in ``Authorization: Bearer``, browsers a cookie that they get at /login.

The cookie is not the token but a value made of it with a key of this process (HMAC-SHA256), so that the token
itself is in no browser; both are compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perfcast.server.guards.reply import header_of, send_problem
from perfcast.server.problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "perfcast_session"
LOGIN_PATH = "/login"
#: Asked by machines that watch over the server; they say nothing of what is asked here.
OPEN_PATHS = ("/api/v1/health",)

_LOGIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,
initial-scale=1"> <title>perfcast</title><style> body {{ font: 16px system-ui, sans-serif; color-scheme: light
dark; display: grid; place-items: center;
  min-height: 90vh; margin: 0 }}
form {{ display: grid; gap: 0.75rem; width: min(20rem, 90vw) }}
input, button {{ font: inherit; padding: 0.5rem }}
</style></head><body><form method="post" action="/login"><h1>perfcast</h1>
<label for="token">Token of this server</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<p role="alert">{said}</p><button>Enter</button></form></body></html>
"""


class TokenGuard:
    """Refuses what brings neither token nor session (401); browsers are sent to the login."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token.encode() if token is not None else None
        self._session = (
            hmac.digest(secrets.token_bytes(32), self._token, "sha256").hex()
            if self._token is not None
            else ""
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, log in, or answer it with a problem."""
        if self._token is None or scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == LOGIN_PATH:
            response = await self._login(Request(scope, receive))
            await response(scope, receive, send)
        elif self._is_known(scope):
            await self._app(scope, receive, send)
        elif _is_of_a_reader(scope):
            await RedirectResponse(LOGIN_PATH, status_code=303)(scope, receive, send)
        else:
            detail = "This server wants its token: 'Authorization: Bearer TOKEN', or a login at /login."
            await send_problem(Problem(status=401, detail=detail), scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        scheme, _, given = (header_of(scope, b"authorization") or "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return True
        cookies = SimpleCookie()
        try:
            cookies.load(header_of(scope, b"cookie") or "")
        except CookieError:
            return False
        session = cookies.get(COOKIE)
        return session is not None and hmac.compare_digest(session.value.encode(), self._session.encode())

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)

    async def _login(self, request: Request) -> Response:
        if request.method in ("GET", "HEAD"):
            return HTMLResponse(_LOGIN.format(said=""))
        if request.method != "POST":
            return Response(status_code=405, headers={"Allow": "GET, POST"})
        form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=4)
        if not self._is_token(form.get("token", [""])[0]):
            return HTMLResponse(_LOGIN.format(said="That is not the token."), status_code=401)
        response = RedirectResponse("/", status_code=303)
        is_secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", secure=is_secure)
        return response


def _is_of_a_reader(scope: Scope) -> bool:
    """Whether a browser opens a page, rather than a program asking the API."""
    accepts = header_of(scope, b"accept") or ""
    return scope["type"] == "http" and scope["method"] == "GET" and "text/html" in accepts
