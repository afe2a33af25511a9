"""A real server and a real browser: what a user's page does, seen from outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
#: On a machine that does other things too.
_PATIENCE_MILLISECONDS = 40_000
_SERVE = (
    "from perfcast.server.run import run_server; from perfcast.server.settings import Settings; "
    "run_server(Settings(port=0), on_ready=lambda address: print(address, flush=True))"
)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a server in a process of its own."""
    pytest.importorskip("nicegui", reason="the page needs perfcast[web]")
    with subprocess.Popen([sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
        process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium of the system; it ends with a file's tests, since its event loop shuts out others."""
    if not CHROMIUM.exists():
        pytest.skip("no chromium is installed: a page is tested in a real browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested by playwright")
    playwright.expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


class Visit:
    """A page that is looked at, with everything that it complained of and asked of others.

    Attributes:
        page: Playwright's.
        complaints: Errors and warnings of the console, and requests to anyone but the server.
    """

    def __init__(self, browser: Any, server: str, **context: object) -> None:
        self.server = server
        self.complaints: list[str] = []
        self._context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | context)
        self.page = self._context.new_page()
        self.page.set_default_timeout(_PATIENCE_MILLISECONDS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._on_request)

    def open(self, path: str) -> Any:
        """Go there and wait for an answer; the page."""
        self.page.goto(self.server + path)
        self.page.wait_for_selector(".answer h2.title, .problem:visible")
        return self.page

    def close(self) -> None:
        """Be done with it."""
        self._context.close()

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.server, self.server.replace("http", "ws"), "data:", "blob:")):
            self.complaints.append(f"asked {request.url}")


@pytest.fixture
def visit(browser: Any, server: str) -> Iterator[Visit]:
    """A visit at 1,280 pixels, which ends without complaints."""
    found = Visit(browser, server)
    yield found
    found.close()
    assert found.complaints == []


@pytest.fixture
def phone(browser: Any, server: str) -> Iterator[Visit]:
    """A visit at 390 pixels, which ends without complaints."""
    found = Visit(browser, server, viewport={"width": 390, "height": 844})
    yield found
    found.close()
    assert found.complaints == []
