"""A server from its start to its end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from perfcast.errors import InputError
from perfcast.server.app import build_app
from perfcast.server.protocol import protocol_of

if TYPE_CHECKING:
    from perfcast.server.settings import Settings

#: How long open connections may last once the server is told to stop.
_GRACE_SECONDS = 3
_BACKLOG = 512


def run_server(settings: Settings, *, on_ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve until interrupted.

    Args:
        on_ready: Is told the address once connections are taken.

    Raises:
        InputError: The address cannot be listened at.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    listening = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        build_app(settings),
        http=protocol_of(settings.header_seconds),
        limit_concurrency=settings.connections,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        ws_max_size=2 * settings.request_bytes,
    )
    host, port = listening.getsockname()[:2]
    on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from error
    return found
