"""Connections whose head does not arrive in time are closed: uvicorn itself waits for it without end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's protocol of HTTP/1.1 with a bound on the time until a connection's first request."""

    header_seconds = 15.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.header_seconds, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        cycle: Any = self.cycle
        if cycle is None and not self.transport.is_closing():
            self.transport.close()


def protocol_of(header_seconds: float) -> type[TimedProtocol]:
    """The protocol with this bound, as uvicorn takes a class."""
    return type("BoundProtocol", (TimedProtocol,), {"header_seconds": header_seconds})
