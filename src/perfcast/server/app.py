"""The server's application: the API, the page beside it, and the guards that stand before both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import Match

from perfcast.errors import PerfcastError
from perfcast.server.desk import Desk
from perfcast.server.guards.errors import ErrorGuard
from perfcast.server.guards.headers import HeaderGuard
from perfcast.server.guards.hosts import HostGuard
from perfcast.server.guards.load import BodyGuard, LoadGuard
from perfcast.server.guards.reply import problem_response
from perfcast.server.guards.token import TokenGuard
from perfcast.server.metrics import ROUTE, Metrics, MetricsGuard
from perfcast.server.problems import KINDS, Problem, ProblemError, problem_of
from perfcast.server.routes import catalog, health, jobs, questions, traces
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from perfcast.server.settings import Settings


Endpoint = Callable[[Request], Awaitable[Response]]
#: What every address of the API begins with.
API = "/api/v1"


def build_app(settings: Settings) -> FastAPI:
    """The application that a server runs.

    With a page, only one can be built in a process: the page's library has one application.
    """
    metrics = Metrics()
    app = FastAPI(
        title="perfcast",
        version=perfcast_version(),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        middleware=_guards(settings, metrics),
    )
    app.state.settings, app.state.metrics, app.state.desk = settings, metrics, Desk(settings)
    _add_gauges(metrics, app.state.desk)
    for kind in (ProblemError, PerfcastError):
        app.add_exception_handler(kind, _on_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    for subject in (health, questions, jobs, catalog, traces):
        for method, path, endpoint in subject.ROUTES:
            app.add_route(f"{API}{path}", _counted(endpoint, f"{API}{path}"), methods=[method])
    app.add_route("/api/{path:path}", _unknown, methods=_ALL_METHODS)
    if settings.with_page:
        from perfcast.server.page.mount import mount_page

        mount_page(app, token_is_asked=settings.token is not None)
    return app


def _counted(endpoint: Endpoint, path: str) -> Endpoint:
    """The endpoint, whose requests say at which address of the API they are answered."""

    async def named(request: Request) -> Response:
        request.scope[ROUTE] = path
        return await endpoint(request)

    return named


_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]


def _guards(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """From the outside inwards."""
    return [
        Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1),
        Middleware(HeaderGuard),
        Middleware(MetricsGuard, metrics=metrics),
        Middleware(ErrorGuard),
        Middleware(HostGuard, settings=settings),
        Middleware(LoadGuard, settings=settings),
        Middleware(BodyGuard, settings=settings),
        Middleware(TokenGuard, token=settings.token),
    ]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The processes that answer live as long as the application."""
    desk: Desk = app.state.desk
    await desk.open()
    try:
        yield
    finally:
        desk.close()


def _add_gauges(metrics: Metrics, desk: Desk) -> None:
    cache, jobs, uploads = desk.cache, desk.jobs, desk.uploads
    metrics.gauge("cached_bytes", "Answers that are kept.", lambda: cache.num_bytes)
    metrics.gauge("cache_hits_total", "Questions whose answer was kept.", lambda: cache.hits)
    metrics.gauge("cache_misses_total", "Questions whose answer was not.", lambda: cache.misses)
    metrics.gauge("questions_being_answered", "Different ones, now.", lambda: desk.num_being_answered)
    metrics.gauge("uploads_bytes", "Uploads that are kept.", lambda: uploads.num_bytes)
    metrics.gauge("jobs_running", "Jobs that run.", lambda: jobs.count("running"))
    metrics.gauge("jobs_waiting", "Jobs in the queue.", lambda: jobs.count("waiting"))


async def _on_error(request: Request, error: Exception) -> Response:
    return problem_response(problem_of(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allow = tuple((error.headers or {}).get("Allow", "").replace(" ", "").split(",")) if error.headers else ()
    detail = KINDS.get(error.status_code, ("", error.detail))[1] + "."
    return problem_response(
        Problem(status=error.status_code, detail=detail, allow=tuple(filter(None, allow)))
    )


async def _unknown(request: Request) -> Response:
    """An address of the API that nothing stands at, or not for this method."""
    for route in request.app.routes:
        if route.matches(request.scope)[0] is Match.PARTIAL:
            methods = tuple(sorted(getattr(route, "methods", None) or ()))
            return problem_response(Problem(status=405, detail=KINDS[405][1] + ".", allow=methods))
    return problem_response(Problem(status=404, detail="No such address; /api/v1/openapi.json lists them."))
