"""Headers that every answer carries, whoever made it.

``Content-Security-Policy``: nothing is loaded from, sent to or framed by any other origin. Scripts are our
own files and those inline ones that carry the number of this answer (a nonce). The page library compiles its
templates in the browser, which 'unsafe-eval' allows, and styles its elements by attributes, which needs
'unsafe-inline' of styles. Answers of the API and problems have a policy that allows nothing at all; exported
pages are self-contained and run their inline scripts in a sandbox, without this server's origin.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
EXPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "sandbox allow-scripts allow-downloads"
)
PAGE_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; "
    "worker-src 'self' blob:; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "object-src 'none'"
)
#: Of every answer. ``Cache-Control`` is only set where the answer says none. Forms of a page that tells
#: nobody where it is come with 'Origin: null', which the host's guard takes for another site's: we are told.
STANDARD = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_SCRIPT = re.compile(rb"<script(?=[\s>])", re.IGNORECASE)


class HeaderGuard:
    """Adds the headers; gives inline scripts of the page's own documents the number that the policy names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the answer gets its headers on the way back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, is_api=scope["path"].startswith("/api/"))
        await self._app(scope, receive, answer.send)


class _Answer:
    """One answer on its way: a document of the page is held until it is whole."""

    def __init__(self, send: Send, *, is_api: bool) -> None:
        self._send = send
        self._is_api = is_api
        self._held: Message | None = None
        self._nonce = ""
        self._body: list[bytes] = []

    async def send(self, message: Message) -> None:
        """What the application sends."""
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._held is not None:
            await self._continue(message)
        else:
            await self._send(message)

    async def _start(self, message: Message) -> None:
        headers = MutableHeaders(raw=message.setdefault("headers", []))
        for name, value in STANDARD.items():
            headers[name] = value
        headers.setdefault("Cache-Control", "no-store")
        is_document = headers.get("content-type", "").startswith("text/html")
        if self._is_api:
            headers["Content-Security-Policy"] = EXPORT_POLICY if is_document else API_POLICY
        elif is_document and "content-encoding" not in headers:
            self._nonce = secrets.token_urlsafe(16)
            headers["Content-Security-Policy"] = PAGE_POLICY.format(nonce=self._nonce)
            self._held = message
            return
        else:
            headers["Content-Security-Policy"] = PAGE_POLICY.format(nonce=secrets.token_urlsafe(16))
        await self._send(message)

    async def _continue(self, message: Message) -> None:
        self._body.append(message.get("body", b""))
        if message.get("more_body", False) or self._held is None:
            return
        body = _SCRIPT.sub(f'<script nonce="{self._nonce}"'.encode(), b"".join(self._body))
        headers = MutableHeaders(raw=self._held["headers"])
        if "content-length" in headers:
            headers["Content-Length"] = str(len(body))
        await self._send(self._held)
        await self._send({"type": "http.response.body", "body": body})
        self._held = None
