"""Whether the server lives, what it is, and what it has counted."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from perfcast.server.metrics import MEDIA_TYPE
from perfcast.version import perfcast_version


async def health(request: Request) -> JSONResponse:
    """Whether the server answers."""
    return JSONResponse({"status": "ok"})


async def version(request: Request) -> JSONResponse:
    """Which perfcast this is, and the version of its answers' format."""
    from perfcast.report.answers import SCHEMA_VERSION

    return JSONResponse({"perfcast_version": perfcast_version(), "schema_version": SCHEMA_VERSION})


async def metrics(request: Request) -> Response:
    """Counters and gauges as Prometheus reads them."""
    return Response(request.app.state.metrics.text, media_type=MEDIA_TYPE)


async def description(request: Request) -> Response:
    """The API as OpenAPI describes it."""
    from perfcast.server.openapi import openapi

    return JSONResponse(openapi())


ROUTES = (
    ("GET", "/health", health),
    ("GET", "/version", version),
    ("GET", "/metrics", metrics),
    ("GET", "/openapi.json", description),
)
