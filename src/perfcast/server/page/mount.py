"""Where the page is mounted on the server's application."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def mount_page(app: FastAPI, *, token_is_asked: bool = False) -> None:
    """Mount the page at the server's root, beside its API.

    Args:
        token_is_asked: Whether a login stands before it.
    """
    from nicegui import ui

    @ui.page("/")
    def home() -> None:
        ui.label("perfcast")

    ui.run_with(
        app,
        title="perfcast",
        dark=None,
        gzip_middleware_factory=None,  # the server compresses all answers alike
        show_welcome_message=False,
        tailwind=False,
    )
