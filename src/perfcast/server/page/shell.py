"""The frame around every view: its name, the way to the others, light or dark."""

from __future__ import annotations

from html import escape

from nicegui import ui

from perfcast.server.desk import Desk
from perfcast.server.page.session import Session
from perfcast.server.page.view import View


def draw_view(view: View, views: tuple[View, ...], query: str, desk: Desk) -> None:
    """A whole page of a view, for one client."""
    ui.add_head_html('<link rel="stylesheet" href="/page/page.css">')
    ui.add_body_html('<script src="/page/page.js" defer></script>')
    ui.page_title(f"{view.title} · perfcast")
    ui.colors(primary="#3b82c4")
    with ui.element("header").classes("frame"):
        ui.html(_navigation(view, views), sanitize=False)
    with ui.element("main").props("id=main") as main:
        ui.html(f"<h1>{escape(view.title)}</h1><p class='lead'>{escape(view.lead)}</p>", sanitize=False)
        if view.build is not None:
            view.build(query, desk)
        else:
            _draw_session(view, query, desk)
    ui.skip_link("To the controls", target=main)


def _draw_session(view: View, query: str, desk: Desk) -> None:
    with ui.element("div").classes("view"):
        session = Session(view, desk)
    ui.on("perfcast_address", lambda event: session.open(str(event.args)))
    ui.timer(0, lambda: session.start(query), once=True)


def _navigation(current: View, views: tuple[View, ...]) -> str:
    links = "".join(
        f'<a href="/{view.name}"{_current(view is current)}>'
        f'<i class="material-icons" aria-hidden="true">{view.icon}</i>{escape(view.title)}</a>'
        for view in views
    )
    return (
        f'<a class="brand" href="/">perfcast</a><nav aria-label="Views">{links}</nav>'
        '<button type="button" data-theme-switch aria-label="Light or dark">'
        '<i class="material-icons" aria-hidden="true">contrast</i></button>'
    )


def _current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""
