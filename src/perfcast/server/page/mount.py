"""Puts the page beside the API."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import FastAPI
from nicegui import Client, ui
from nicegui import app as pages
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from perfcast.report.palette import BLUE
from perfcast.server.desk import Desk
from perfcast.server.page.shell import draw_view
from perfcast.server.page.view import View
from perfcast.server.page.views import VIEWS

#: Pages that were sent to browsers which have not connected yet, and how long that may take.
_MOST_WAITING, _CONNECTS_WITHIN_SECONDS = 128, 5.0
_FRESH = {"Cache-Control": "no-cache"}


def mount_page(app: FastAPI, *, token_is_asked: bool = False) -> None:
    """Answer everything that the API does not with the page. Once in a process: NiceGUI has one application.

    Args:
        token_is_asked: Whether clients log in; the guards see to that.
    """
    pages.add_route("/page/page.css", _css)
    pages.add_route("/page/page.js", _script)
    pages.add_route("/", _first)
    for view in VIEWS:
        _add(view, app.state.desk)
    ui.run_with(
        app,
        title="perfcast",
        favicon=_FAVICON,
        dark=None,
        language="en-US",
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )


def _add(view: View, desk: Desk) -> None:
    @ui.page(f"/{view.name}")
    def page(request: Request) -> Response | None:
        if not _has_room():
            return Response("Too many pages are being opened; come again.", 503, {"Retry-After": "5"})
        draw_view(view, VIEWS, str(request.url.query), desk)
        return None


def _has_room() -> bool:
    """Whether pages that nobody looks at yet are few: each holds a megabyte until its browser connects."""
    if _num_waiting() >= _MOST_WAITING:
        Client.prune_instances(client_age_threshold=_CONNECTS_WITHIN_SECONDS)
    return _num_waiting() < _MOST_WAITING


def _num_waiting() -> int:
    return sum(not client.has_socket_connection for client in Client.instances.values())


async def _first(_: Request) -> Response:
    return RedirectResponse(f"/{VIEWS[0].name}")


async def _css(_: Request) -> Response:
    return Response(stylesheet(), media_type="text/css", headers=_FRESH)


async def _script(_: Request) -> Response:
    return Response(_asset("page.js"), media_type="text/javascript", headers=_FRESH)


@cache
def stylesheet() -> str:
    """The page's own styles, and those of the reports within an answer."""
    report = resources.files("perfcast.report").joinpath("page.css").read_text(encoding="utf-8")
    return f":root {{ --accent: {BLUE} }}\n{_asset('page.css')}\n.answer {{\n{report}\n}}\n"


def _asset(name: str) -> str:
    return resources.files("perfcast.server.page").joinpath("assets", name).read_text(encoding="utf-8")


_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" '
    f'fill="{BLUE}"/><path d="M7 22V16h4v6zm7 0V9h4v13zm7 0v-9h4v9z" fill="#fff"/></svg>'
)
