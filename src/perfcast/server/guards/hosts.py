"""By which name the server is asked, and from which page.

A browser on the same machine can be made to ask this server by any page that it shows. Two checks keep such
pages out: the name in ``Host`` must be one of ours (a stranger's name that is made to point here, DNS
rebinding, is not), and a request that a page makes must come from a page of ours (``Origin``,
``Sec-Fetch-Site``; Fetch standard, section 3.2, and W3C Fetch Metadata).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from perfcast.server.guards.reply import header_of, send_problem
from perfcast.server.problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from perfcast.server.settings import Settings

#: Methods that change nothing.
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class HostGuard:
    """Refuses requests by another name (421), and those that pages of others make (403)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        names = {"localhost", settings.host, *settings.allowed_hosts}
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await send_problem(problem, scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        host = header_of(scope, b"host") or ""
        name = host_name(host)
        if name is None or not (name in self._names or _is_address(name)):
            return Problem(
                status=421,
                detail="Host: not a name of this server (perfcast web --allowed-host NAME adds one).",
            )
        is_page_load = scope["type"] == "http" and scope["method"] in SAFE_METHODS
        origin = header_of(scope, b"origin")
        if origin is not None and not is_page_load and not _is_same(origin, host):
            return Problem(status=403, detail="Origin: the request was made by a page of another site.")
        site = header_of(scope, b"sec-fetch-site")
        if site in ("cross-site", "same-site") and not (
            is_page_load and header_of(scope, b"sec-fetch-mode") == "navigate"
        ):
            return Problem(
                status=403, detail="Sec-Fetch-Site: the request was made by a page of another site."
            )
        return None


def host_name(host: str) -> str | None:
    """The name in a ``Host`` header, in small letters, without port and brackets; None of what is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    is_whole = parts.netloc == host and not parts.username and parts.hostname is not None
    return parts.hostname.lower().rstrip(".") if is_whole and parts.hostname else None


def _is_address(name: str) -> bool:
    """Whether it is an address in numbers, which nobody can make to point elsewhere."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_same(origin: str, host: str) -> bool:
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
